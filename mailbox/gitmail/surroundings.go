package gitmail

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
)

// ErrTracked says that the user's repository has files of the workspace under version control.
var ErrTracked = errors.New("the repository has files of the workspace under version control")

// surroundings are the user's repository, seen from a workspace.
type surroundings struct {
	// user runs git in the user's repository, or in the workspace if there is none.
	user *git.Repository
	// top is the top of the user's repository, or empty, and workspace the folder of the workspace, without links. below
	// is the path between them, or empty if the workspace is elsewhere.
	top, workspace, below string
	// common is the git folder that the user's worktrees share.
	common, objectFormat string
	// urls and pushURLs are those of the remotes by name, the first ones as they are written: rules such as
	// url.<base>.insteadOf apply in the workspace's repository, too.
	urls, pushURLs map[string]string
}

// openSurroundings looks at the user's repository, whose top may be empty. It returns an error
// matching ErrTracked if that repository has files of the workspace under version control.
func openSurroundings(ctx context.Context, w *mailbox.Workspace, top string) (s *surroundings, err error) {
	s = &surroundings{user: &git.Repository{Dir: w.Dir()}, objectFormat: "sha1"}
	if top == "" {
		return s, nil
	}
	if s.top, err = filepath.EvalSymlinks(top); err != nil {
		return nil, err
	}
	if s.workspace, err = filepath.EvalSymlinks(w.Dir()); err != nil {
		return nil, err
	}
	if below, err := filepath.Rel(s.top, s.workspace); err == nil && filepath.IsLocal(below) && below != "." {
		s.below = filepath.ToSlash(below)
	}
	s.user.Dir = s.top
	out, err := s.user.Run(ctx, "rev-parse", "--show-object-format", "--is-inside-work-tree", "--git-common-dir")
	if err != nil {
		return nil, err
	}
	lines := strings.SplitN(strings.TrimSuffix(string(out), "\n"), "\n", 3)
	if len(lines) != 3 {
		return nil, fmt.Errorf("git rev-parse printed %.200q", out)
	}
	s.objectFormat, s.common = lines[0], s.absolute(lines[2])
	if s.below != "" && lines[1] == "true" {
		// An index that cannot be read is the user's problem, and git reports it.
		if files, err := s.user.Run(ctx, "--literal-pathspecs", "ls-files", "-z", "--", s.below); err == nil && len(files) > 0 {
			return nil, fmt.Errorf("%w: %s has %d of them in %s", ErrTracked, s.top, bytes.Count(files, []byte{0}), s.below)
		}
	}
	return s, s.readRemotes(ctx)
}

// absolute returns the path that git, running at the top, means.
func (s *surroundings) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(s.top, path)
}

func (s *surroundings) readRemotes(ctx context.Context) error {
	out, err := s.user.Run(ctx, "config", "-z", "--get-regexp", `^remote\..*\.(push)?url$`)
	if err != nil && git.Exit(err) != 1 {
		return err
	}
	s.urls, s.pushURLs = make(map[string]string), make(map[string]string)
	for pair := range git.Records(out) {
		key, value, _ := strings.Cut(pair, "\n")
		dot := strings.LastIndexByte(key, '.')
		into, name := s.urls, strings.TrimPrefix(key[:dot], "remote.")
		if key[dot:] == ".pushurl" {
			into = s.pushURLs
		}
		if value != "" && isPath(value) && !strings.HasPrefix(value, "~") {
			value = s.absolute(value)
		}
		if value != "" && into[name] == "" {
			into[name] = value
		}
	}
	return nil
}

// remotes returns the names of the user's remotes.
func (s *surroundings) remotes() []string { return slices.Sorted(maps.Keys(s.urls)) }

// isPath reports whether a URL is a path, by the rule of git: there is no colon before the first
// slash.
func isPath(text string) bool {
	before, _, _ := strings.Cut(text, "/")
	return filepath.IsAbs(text) || !strings.Contains(before, ":")
}

// isIgnored reports whether the user's repository does not show the workspace.
func (s *surroundings) isIgnored(ctx context.Context) (bool, error) {
	if s.below == "" {
		return true, nil
	}
	_, err := s.user.Run(ctx, "check-ignore", "--quiet", "--no-index", "--", s.below)
	if git.Exit(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// literal writes a path as a pattern that matches nothing else.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// exclude lists the workspace in the user's exclude file, which all worktrees share, and returns the
// file. A file that cannot be written does not matter if the workspace is ignored anyway.
func (s *surroundings) exclude(ctx context.Context) (file string, err error) {
	if s.below == "" {
		return "", nil
	}
	file = filepath.Join(s.common, "info", "exclude")
	if err = appendLine(file, "/"+literal.Replace(s.below)+"/"); err == nil {
		return file, nil
	}
	if ignored, _ := s.isIgnored(ctx); ignored {
		return "", nil
	}
	return "", fmt.Errorf("listing the workspace among those files that git ignores: %w", err)
}

// appendLine adds a line to a file that lacks it.
func appendLine(file, line string) error {
	data, err := os.ReadFile(file)
	if slices.Contains(strings.Split(string(data), "\n"), line) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		line = "\n" + line
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

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
	case strings.HasPrefix(c.Remote, "-"), strings.ContainsFunc(c.Remote, unicode.IsControl), // that is no URL either
		!strings.ContainsAny(c.Remote, ":/") && !strings.HasPrefix(c.Remote, "."):
		return c, fmt.Errorf("%w %q: it has %s", ErrUnknownRemote, PublicURL(c.Remote), cmp.Or(strings.Join(s.remotes(), ", "), "none"))
	default:
		if isPath(c.Remote) {
			c.Remote, err = filepath.Abs(c.Remote)
		}
		c.URL = c.Remote
	}
	return c, cmp.Or(err, s.checkRef(ctx, c.Ref))
}

// usualRemote returns the remote that the user's branch follows, or else origin, or else the only
// one, or else none.
func (s *surroundings) usualRemote(ctx context.Context) string {
	upstream, _ := s.user.Run(ctx, "for-each-ref", "--format=%(if)%(HEAD)%(then)%(upstream:remotename)%(end)", "refs/heads/") // it may follow none
	for _, usual := range []string{strings.TrimSpace(string(upstream)), "origin"} {
		if s.urls[usual] != "" {
			return usual
		}
	}
	if known := s.remotes(); len(known) == 1 {
		return known[0]
	}
	return ""
}

// checkRef returns an error if a ref cannot hold mailboxes.
func (s *surroundings) checkRef(ctx context.Context, ref string) error {
	why := ""
	switch {
	case !strings.HasPrefix(ref, "refs/"), strings.Count(ref, "/") < 2:
		why = "it is not of the form refs/A/B"
	case strings.HasPrefix(ref+"/", claimRefs), strings.HasPrefix(ref+"/", machineRefs):
		why = "oacp has its own refs there"
	case strings.Contains(ref, "/-"):
		why = "a part of it starts with -"
	default:
		if _, err := s.user.Run(ctx, "check-ref-format", ref); err == nil {
			return nil
		}
		why = "git allows no such name"
	}
	return fmt.Errorf("ref %q %w: %s", ref, ErrBadRef, why)
}

// ask asks the remote whether it has the ref, and for its object format. Without a remote, it has not. The format is
// empty if the remote does not say.
func (s *surroundings) ask(ctx context.Context, c Settings) (found bool, format string, err error) {
	if c.URL == "" {
		return false, "", nil
	}
	refs, err := s.user.RemoteRefs(ctx, c.URL, "HEAD", c.Ref)
	for _, id := range refs {
		if format = "sha1"; len(id) == 64 {
			format = "sha256"
		}
	}
	if err == nil && format == "" { // there is nothing yet
		format, err = s.user.RemoteFormat(ctx, c.URL)
	}
	return refs[c.Ref] != "", format, err
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
