package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// DefaultRef is the ref that holds the mailboxes unless another one is chosen.
const DefaultRef = "refs/heads/oacp"

// Errors about the remote and the ref that a user chooses.
var (
	// ErrUnknownRemote says that the user's repository has no such remote.
	ErrUnknownRemote = errors.New("the repository has no remote")
	// ErrBadRef says that a ref cannot hold mailboxes, whatever the remote has.
	ErrBadRef = errors.New("cannot hold mailboxes")
	// ErrForeignBranch says that the ref on the remote holds something other than mailboxes.
	ErrForeignBranch = errors.New("holds no mailboxes")
)

// choose returns the settings that the options mean. A workspace that has been initialized keeps its own.
func (s *surroundings) choose(ctx context.Context, options InitOptions, before Settings) (c Settings, err error) {
	c = Settings{Remote: cmp.Or(options.Remote, before.Remote), Ref: cmp.Or(options.Ref, before.Ref, DefaultRef), Since: before.Since}
	if c.Remote == "" {
		c.Remote = s.usualRemote(ctx)
	}
	switch url, known := s.urls[c.Remote]; {
	case known:
		c.URL, c.pushURL = url, s.pushURLs[c.Remote]
	case c.Remote == before.Remote:
		c.URL, c.pushURL = before.URL, before.pushURL
	case strings.HasPrefix(c.Remote, "-"), strings.ContainsFunc(c.Remote, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return c, fmt.Errorf("%q is neither a remote nor a URL", PublicURL(c.Remote))
	case !strings.ContainsAny(c.Remote, ":/") && !strings.HasPrefix(c.Remote, "."):
		return c, fmt.Errorf("%w %q: it has %s", ErrUnknownRemote, c.Remote, cmp.Or(strings.Join(s.remotes(), ", "), "none"))
	default:
		if isPath(c.Remote) {
			c.Remote, err = filepath.Abs(c.Remote)
		}
		c.URL = c.Remote
	}
	return c, cmp.Or(err, s.checkRef(ctx, c))
}

// usualRemote returns the remote that the user's branch follows, or else origin, or else the only
// one, or else none.
func (s *surroundings) usualRemote(ctx context.Context) string {
	known := s.remotes()
	if branch, err := s.user.Run(ctx, "symbolic-ref", "--quiet", "--short", "HEAD"); err == nil && len(known) > 1 {
		out, _ := s.user.Run(ctx, "config", "--get", "branch."+strings.TrimSpace(string(branch))+".remote") // it may follow none
		if upstream := strings.TrimSpace(string(out)); slices.Contains(known, upstream) {
			return upstream
		}
	}
	switch {
	case slices.Contains(known, "origin"):
		return "origin"
	case len(known) == 1:
		return known[0]
	}
	return ""
}

// checkRef returns an error if the ref cannot hold mailboxes.
func (s *surroundings) checkRef(ctx context.Context, c Settings) error {
	bad := func(why string) error { return fmt.Errorf("ref %q %w: %s", c.Ref, ErrBadRef, why) }
	switch {
	case !strings.HasPrefix(c.Ref, "refs/"), strings.Count(c.Ref, "/") < 2:
		return bad("it is not of the form refs/A/B")
	case strings.HasPrefix(c.Ref+"/", claimRefs), strings.HasPrefix(c.Ref+"/", machineRefs):
		return bad("oacp has its own refs there")
	case strings.Contains(c.Ref, "/-"):
		return bad("a part of it starts with -")
	}
	if _, err := s.user.Run(ctx, "check-ref-format", c.Ref); err != nil {
		return bad("git allows no such name")
	}
	isOwn := c.URL == ""
	for _, url := range s.urls {
		isOwn = isOwn || url == c.URL
	}
	if s.top == "" || !isOwn {
		return nil // branches of another repository may have the same names
	}
	worktrees, err := s.user.Run(ctx, "worktree", "list", "--porcelain")
	if err == nil && slices.Contains(strings.Split(string(worktrees), "\n"), "branch "+c.Ref) {
		return bad("it is checked out in " + s.top)
	}
	return err
}

// ask asks the remote whether it has the ref, and for its object format. Without a remote, it has not; the format is
// empty if the remote does not say.
func (s *surroundings) ask(ctx context.Context, c Settings) (found bool, format string, err error) {
	if c.URL == "" {
		return false, "", nil
	}
	out, err := s.user.Run(ctx, "ls-remote", "--", c.URL, "HEAD", c.Ref)
	for line := range strings.Lines(string(out)) {
		id, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		found = found || name == c.Ref
		if format = "sha1"; len(id) == 64 {
			format = "sha256"
		}
	}
	if err == nil && format == "" { // there is nothing yet
		format, err = s.user.RemoteFormat(ctx, c.URL)
	}
	return found, format, err
}

// PublicURL returns a URL without what may be secret in it: a password, for http also the user, which
// may be a token, and a query.
func PublicURL(text string) string {
	scheme, _, isURL := strings.Cut(text, "://")
	if !isURL {
		return text // a path, a name, or user@host:path, which has no password
	}
	u, err := url.Parse(text)
	if err != nil {
		return scheme + "://(not a valid URL)"
	}
	u.RawQuery, u.Fragment, u.RawFragment = "", "", ""
	name := u.User.Username()
	if u.User = nil; name != "" && strings.Contains(u.Scheme, "ssh") {
		u.User = url.User(name)
	}
	return u.String()
}
