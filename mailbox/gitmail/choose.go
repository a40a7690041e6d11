package gitmail

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
)

// DefaultRef is the ref that holds the mailboxes unless another one is chosen.
const DefaultRef = "refs/heads/oacp"

// Errors about the remote and the ref that a user chooses.
var (
	// ErrUnknownRemote says that the user's repository has no such remote.
	ErrUnknownRemote = failure.New("unknown_remote", "the repository has no remote", "git remote lists them; a URL has a : or a /")
	// ErrBadRef says that a ref cannot hold mailboxes because of its name.
	ErrBadRef = failure.New("bad_ref", "cannot hold mailboxes", "name another one with --branch or --ref")
	// ErrForeignBranch says that the ref on the remote holds something other than mailboxes.
	ErrForeignBranch = failure.New("bad_ref", "holds no mailboxes", "name another one with --branch or --ref")
)

// choose returns the settings for the options. A workspace that was initialized before keeps what the options leave out.
func choose(ctx context.Context, around *git.Enclosing, options InitOptions, before Settings) (c Settings, err error) {
	c = Settings{Remote: cmp.Or(options.Remote, before.Remote), Ref: cmp.Or(options.Ref, before.Ref, DefaultRef), Since: before.Since}
	if c.Remote == "" && !options.Local {
		c.Remote = around.UsualRemote(ctx)
	}
	switch remote, known := around.Remotes[c.Remote]; {
	case known:
		c.URL, c.pushURL = remote.URL, remote.PushURL
	case c.Remote == before.Remote: // both may be empty
		c.URL, c.pushURL = before.URL, before.pushURL
	case strings.HasPrefix(c.Remote, "-"), strings.ContainsFunc(c.Remote, unicode.IsControl), // not a URL either
		!strings.ContainsAny(c.Remote, ":/") && !strings.HasPrefix(c.Remote, "."):
		return c, fmt.Errorf("%w %q: it has %s", ErrUnknownRemote, git.PublicURL(c.Remote),
			cmp.Or(strings.Join(slices.Sorted(maps.Keys(around.Remotes)), ", "), "none"))
	default:
		if git.IsPath(c.Remote) {
			c.Remote, err = filepath.Abs(c.Remote)
		}
		c.URL = c.Remote
	}
	return c, cmp.Or(err, checkRef(ctx, around, c.Ref))
}

// checkRef returns an error if a ref cannot hold mailboxes.
func checkRef(ctx context.Context, around *git.Enclosing, ref string) error {
	why := ""
	switch {
	case !strings.HasPrefix(ref, "refs/"), strings.Count(ref, "/") < 2:
		why = "it is not of the form refs/A/B"
	case strings.HasPrefix(ref+"/", claimRefs), strings.HasPrefix(ref+"/", machineRefs):
		why = "oacp has its own refs there"
	case strings.Contains(ref, "/-"):
		why = "a part of it starts with -"
	default:
		if _, err := around.Run(ctx, "check-ref-format", ref); err == nil {
			return nil
		}
		why = "git allows no such name"
	}
	return fmt.Errorf("ref %q %w: %s", ref, ErrBadRef, why)
}

// ask asks the remote, if there is one, whether it has the mail, perhaps only on the ref of an earlier version, and for its object
// format. The format is empty if a remote that has nothing yet does not say it.
func ask(ctx context.Context, around *git.Enclosing, c Settings) (found, old bool, format string, err error) {
	if c.URL == "" {
		return false, false, "", nil
	}
	refs, err := around.RemoteRefs(ctx, c.URL, "HEAD", c.Ref, c.MailRef())
	for _, id := range refs {
		format = "sha1"
		if len(id) == 64 {
			format = "sha256"
		}
	}
	if err == nil && format == "" {
		format, err = around.RemoteFormat(ctx, c.URL)
	}
	old = refs[c.MailRef()] == ""
	return !old || refs[c.Ref] != "", old, format, err
}
