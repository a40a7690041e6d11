package gitmail

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/visible"
)

// UnknownRemoteError says that the user's repository has no such remote.
type UnknownRemoteError struct {
	Remote string
	// Known are the remotes of the repository.
	Known []string
}

// Error names the remote and the known ones.
func (e *UnknownRemoteError) Error() string {
	known := "it has none"
	if len(e.Known) > 0 {
		known = "it has " + strings.Join(e.Known, ", ")
	}
	return fmt.Sprintf("the repository has no remote %q: %s", e.Remote, known)
}

// A choice is the remote and ref of a workspace.
type choice struct {
	// Remote is the name of a remote of the user's repository, or a URL, or empty.
	Remote string
	URL    string
	Ref    string
	// pushURL is where to push, if that is not the URL.
	pushURL string
}

// choose returns the remote and ref that the options mean. A workspace that has been initialized
// keeps its own.
func (s *surroundings) choose(ctx context.Context, options InitOptions, before *choice) (*choice, error) {
	c := &choice{Ref: options.Ref}
	wanted := options.Remote
	if before != nil {
		c.Ref = cmp.Or(c.Ref, before.Ref)
		wanted = cmp.Or(wanted, before.Remote)
	}
	c.Ref = cmp.Or(c.Ref, DefaultRef)
	if wanted == "" {
		wanted = s.usualRemote(ctx)
	}
	at := slices.IndexFunc(s.remotes, func(r remote) bool { return r.name == wanted })
	switch {
	case wanted == "":
	case at >= 0:
		c.Remote, c.URL, c.pushURL = wanted, s.remotes[at].url, s.remotes[at].pushURL
	case before != nil && wanted == before.Remote:
		c.Remote, c.URL, c.pushURL = before.Remote, before.URL, before.pushURL
	case strings.HasPrefix(wanted, "-"), strings.ContainsFunc(wanted, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return nil, fmt.Errorf("%q is neither a remote nor a URL", PublicURL(wanted))
	case strings.ContainsAny(wanted, ":/"), strings.HasPrefix(wanted, "."), filepath.IsAbs(wanted):
		if isPath(wanted) {
			absolute, err := filepath.Abs(wanted)
			if err != nil {
				return nil, err
			}
			wanted = absolute
		}
		c.Remote, c.URL = wanted, wanted
	default:
		return nil, &UnknownRemoteError{Remote: wanted, Known: names(s.remotes)}
	}
	return c, s.checkRef(ctx, c)
}

// usualRemote returns the remote that the user's branch follows, or else origin, or else the only
// one, or else none.
func (s *surroundings) usualRemote(ctx context.Context) string {
	known := names(s.remotes)
	if len(known) == 0 {
		return ""
	}
	if branch, err := s.user.Run(ctx, "symbolic-ref", "--quiet", "--short", "HEAD"); err == nil {
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
func (s *surroundings) checkRef(ctx context.Context, c *choice) error {
	switch name, isBranch := strings.CutPrefix(c.Ref, "refs/heads/"); {
	case !strings.HasPrefix(c.Ref, "refs/"), strings.Count(c.Ref, "/") < 2:
		return fmt.Errorf("ref %q %w: it is not of the form refs/A/B", c.Ref, ErrBadRef)
	case strings.HasPrefix(c.Ref+"/", claimRefs):
		return fmt.Errorf("ref %s %w: claims are there", c.Ref, ErrBadRef)
	case isBranch && strings.HasPrefix(name, "-"), strings.HasPrefix(path.Base(c.Ref), "-"):
		return fmt.Errorf("ref %q %w: its name starts with -", c.Ref, ErrBadRef)
	}
	if _, err := s.user.Run(ctx, "check-ref-format", c.Ref); err != nil {
		return fmt.Errorf("ref %q %w: git allows no such name", c.Ref, ErrBadRef)
	}
	own := func(r remote) bool { return r.url == c.URL }
	if s.top == "" || c.URL != "" && !slices.ContainsFunc(s.remotes, own) {
		return nil // branches of another repository may have the same names
	}
	worktrees, err := s.user.Run(ctx, "worktree", "list", "--porcelain")
	if err != nil {
		return err
	}
	if slices.Contains(strings.Split(string(worktrees), "\n"), "branch "+c.Ref) {
		return fmt.Errorf("%s %w in %s", c, ErrCheckedOut, s.top)
	}
	return nil
}

// An answer is what a remote says.
type answer struct {
	// found says that it has the ref.
	found bool
	// objectFormat is empty if the remote does not say.
	objectFormat string
}

// ask asks the remote whether it has the ref. Without a remote, the answer is that it has not.
func (s *surroundings) ask(ctx context.Context, c *choice) (a answer, err error) {
	if c.URL == "" {
		return a, nil
	}
	out, err := s.user.Run(ctx, "ls-remote", "--", c.URL, "HEAD", c.Ref)
	if err != nil {
		return a, err
	}
	for line := range strings.Lines(string(out)) {
		id, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		a.found = a.found || name == c.Ref
		if a.objectFormat = "sha1"; len(id) == 64 {
			a.objectFormat = "sha256"
		}
	}
	if a.objectFormat == "" { // there is nothing yet
		a.objectFormat, err = s.user.RemoteFormat(ctx, c.URL)
	}
	return a, err
}

// DefaultRef is the ref that holds the mailboxes unless another one is chosen.
const DefaultRef = "refs/heads/oacp"

// String names the branch and the remote on one line, without a password.
func (c *choice) String() string {
	branch, isBranch := strings.CutPrefix(c.Ref, "refs/heads/")
	text := c.Ref
	if isBranch {
		text = "branch " + branch
	}
	if c.Remote == "" {
		return text
	}
	return text + " of " + visible.Line(PublicURL(c.Remote))
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
	if name := u.User.Username(); name != "" && strings.Contains(u.Scheme, "ssh") {
		u.User = url.User(name)
	} else {
		u.User = nil
	}
	return u.String()
}
