// Package change validates the messages that a change in git adds: those in the index that the merge base of
// HEAD and another commit does not have. It reads files from git's objects, not from the folder.
//
// Besides the rules for each file, it checks what only a change can break: published messages are not edited or
// removed, and inbox copies are the same as in the sender's outbox.
package change

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// ErrNoRepository is returned if the folder is in no git repository.
var ErrNoRepository = failure.New("no_repository", "not in a git repository",
	"--changed compares commits; without it, validate takes files and folders")

// shallow says how to get the commits that a clone lacks.
const shallow = "git fetch --unshallow gets older commits (fetch-depth: 0 in a workflow)"

// errRevision says that git knows no commit by this name.
func errRevision(name string) error {
	return failure.New("unknown_revision", fmt.Sprintf("git knows no commit %.100q", name), shallow+"; git log lists the commits that are here")
}

// Options say what Check validates.
type Options struct {
	// Dir is a folder of the repository.
	Dir string
	// Base names the commit that the change is compared with.
	Base string
	// Paths are the files and folders to validate. If there are none, Check validates the workspaces of the
	// repository, which are folders with a workspace.json.
	Paths []string
	// Files are the options for single files. Check does not use Stdin.
	Files *validate.FilesOptions
}

// A check is one call of Check.
type check struct {
	git     git.Repository
	objects *git.Objects
	// below is the path of Dir below the top of the repository: empty, or with a slash at its end.
	below string
	// base is a commit, or the empty tree if HEAD has no commit.
	base string

	set     *validate.Set
	entries []entry
	// outboxes are the object ids of the files in outboxes that the change adds or edits, by path.
	outboxes map[string]string
	// added are the new messages.
	added []addition
}

// Check validates the change. It returns an error if a path is outside the repository, if git does not
// know the base, and if HEAD and the base have no common ancestor.
func Check(ctx context.Context, o Options) (*validate.Result, error) {
	if err := git.Check(ctx); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	c := &check{git: git.Repository{Dir: dir, Env: inherited(dir)}, set: validate.NewSet(o.Files), outboxes: make(map[string]string)}
	c.objects = c.git.Objects(ctx)
	defer c.objects.Close()
	top, err := c.locate(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.resolve(ctx, o.Base); err != nil {
		return nil, err
	}
	paths, err := pathsBelow(top, dir, o.Paths)
	if err != nil {
		return nil, err
	}
	if err := c.diff(ctx, paths); err != nil {
		return nil, err
	}
	if err := c.read(ctx); err != nil {
		return nil, err
	}
	if err := c.checkCopies(); err != nil {
		return nil, err
	}
	return c.set.Result(), nil
}

// inherited returns the variables with which git tells a hook which repository and index to use. It makes relative
// paths, which are relative to the folder, absolute.
func inherited(dir string) (env []string) {
	for _, name := range [...]string{"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"} {
		if value := os.Getenv(name); value != "" {
			if !filepath.IsAbs(value) {
				value = filepath.Join(dir, value)
			}
			env = append(env, name+"="+value)
		}
	}
	if value, ok := os.LookupEnv("GIT_ALTERNATE_OBJECT_DIRECTORIES"); ok {
		env = append(env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+value)
	}
	return env
}

// locate sets below, and returns the top of the repository.
func (c *check) locate(ctx context.Context) (top string, err error) {
	out, err := c.git.Run(ctx, "rev-parse", "--show-cdup", "--show-prefix")
	if git.Exit(err) == git.Fatal && strings.Contains(err.Error(), "not a git repository") {
		return "", fmt.Errorf("%s is %w", c.git.Dir, ErrNoRepository)
	}
	if err != nil {
		return "", err
	}
	up, rest, _ := strings.Cut(string(out), "\n")
	c.below, _, _ = strings.Cut(rest, "\n")
	return filepath.Join(c.git.Dir, up), nil
}

// resolve sets the base of the change: the merge base of HEAD and the named commit.
func (c *check) resolve(ctx context.Context, name string) error {
	_, err := c.git.Run(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if err != nil && git.Exit(err) != 1 {
		return err
	}
	if err != nil && name == "HEAD" { // there is no commit yet
		tree, err := c.git.Run(ctx, "hash-object", "-t", "tree", "--stdin")
		c.base = strings.TrimSpace(string(tree))
		return err
	}
	if err != nil {
		return errRevision("HEAD")
	}
	if name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, "\x00\n") {
		return errRevision(name)
	}
	other, err := c.git.Run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if err != nil {
		return errRevision(name)
	}
	base, err := c.git.Run(ctx, "merge-base", strings.TrimSpace(string(other)), "HEAD")
	if git.Exit(err) == 1 {
		return failure.New("unrelated", fmt.Sprintf("HEAD and %.100q have no commit in common", name),
			shallow+"; otherwise, name a commit that HEAD descends from")
	}
	c.base = strings.TrimSpace(string(base))
	return err
}

// pathsBelow returns the paths relative to the top of the repository, with slashes.
func pathsBelow(top, dir string, paths []string) (below []string, err error) {
	if top, err = filepath.EvalSymlinks(top); err != nil {
		return nil, err
	}
	for _, name := range paths {
		whole := name
		if !filepath.IsAbs(whole) {
			whole = filepath.Join(dir, whole)
		}
		// The change may remove the file, so only its folder is resolved.
		if folder, err := filepath.EvalSymlinks(filepath.Dir(whole)); err == nil {
			whole = filepath.Join(folder, filepath.Base(whole))
		}
		relative, err := filepath.Rel(top, whole)
		if err != nil || !filepath.IsLocal(relative) {
			return nil, fmt.Errorf("%s is not in the repository %s", name, top)
		}
		below = append(below, path.Clean(filepath.ToSlash(relative)))
	}
	return below, nil
}

// name returns the name of a file in reports: its path relative to the folder.
func (c *check) name(file string) string {
	relative, err := filepath.Rel(filepath.FromSlash("/"+c.below), filepath.FromSlash("/"+file))
	if err != nil {
		return file
	}
	return relative
}

// object returns the content of a file by its name in git, such as an object id or HEAD:PATH, and nil if there is none.
// If the file is too large for a message, the error is a git.UnwantedError.
func (c *check) object(name string) ([]byte, error) {
	data, err := c.objects.Read(name, "blob", schema.MaxFileSize)
	if git.Exit(err) == git.Fatal {
		return nil, nil
	}
	return data, err
}

// read validates the new messages, and reports edits and removals.
func (c *check) read(ctx context.Context) error {
	moved := movesIn(c.entries)
	removed, err := c.removedIDs(moved)
	if err != nil {
		return err
	}
	for _, e := range c.entries {
		if err := c.checkEntry(ctx, e, moved, removed); err != nil {
			return err
		}
	}
	return nil
}

// removedIDs returns the object ids of the messages that the change removes from outboxes, by message id.
func (c *check) removedIDs(moved moves) (map[schema.ID]string, error) {
	removed := make(map[schema.ID]string)
	for _, e := range c.entries {
		if e.status != 'D' || e.box != schema.Outbox || !isFile(e.oldMode) || moved.within(e) {
			continue
		}
		data, err := c.object(e.before)
		if _, unwanted := errors.AsType[git.UnwantedError](err); err != nil && !unwanted {
			return nil, err
		}
		if m, _ := validate.Decode(data); m != nil && m.ID != "" {
			removed[schema.ID(strings.Clone(string(m.ID)))] = e.before
		}
	}
	return removed, nil
}

// checkEntry reports what is wrong with one changed file.
func (c *check) checkEntry(ctx context.Context, e entry, moved moves, removed map[schema.ID]string) error {
	name := c.name(e.path)
	switch {
	case strings.Contains(e.path, "\n"):
		c.set.AddUnreadable(name, validate.RuleFileUnreadable, "its name has a line break", "rename it")
		return nil
	case e.status == 'U':
		c.set.AddUnreadable(name, validate.RuleFileUnreadable, "it has conflicts that are not resolved", "git status says how to resolve them")
		return nil
	case e.status == 'D':
		if e.box == schema.Outbox && !moved.within(e) {
			c.set.AddUnreadable(name, validate.RuleRemoved, "the message is no longer in the outbox of "+string(e.agent),
				"leave it, unless it is removed from all copies on purpose")
		}
		return nil
	case e.isEdit():
		c.set.AddUnreadable(name, validate.RulePublished, "the message was published, and the change edits it",
			"restore the file, and send another message")
	}
	if what := e.unusual(); what != "" {
		c.set.AddUnreadable(name, validate.RuleFileUnreadable, what, "a message is an ordinary file")
		return nil
	}
	if e.status != 'A' || moved.within(e) {
		return nil // it is not new in this mailbox
	}
	data, err := c.object(e.id)
	if large, ok := errors.AsType[git.UnwantedError](err); ok {
		c.set.AddUnreadable(name, validate.RuleFileSize, large.Error(), "put long content in a file and name it in the body")
		return nil
	}
	if err == nil && data == nil {
		err = errors.New("git lacks an object of the change: run git fsck")
	}
	if err != nil {
		return err
	}
	at, m, err := c.set.Add(ctx, name, data)
	if err != nil || m == nil {
		return err
	}
	if before, ok := removed[m.ID]; ok && e.box == schema.Outbox && before != e.id {
		c.set.Report(at, validate.RulePublished, "id", "the message was published with other content, and the change replaces it",
			"restore the file that was removed, and send another message")
	}
	switch {
	case e.box == schema.Outbox && m.From.Valid() && m.From != e.agent:
		c.set.Report(at, validate.RuleWrongMailbox, "from", fmt.Sprintf("the message is from %s, but in the outbox of %s", m.From, e.agent),
			"put it into the outbox of its sender")
	case e.box != schema.Outbox && e.box != schema.DeadLetters && !m.IsFor(e.agent):
		c.set.Report(at, validate.RuleWrongMailbox, "to", fmt.Sprintf("%s is not a recipient, but has the message in its %s", e.agent, e.box),
			"leave it to the recipients")
	}
	c.added = append(c.added, addition{entry: e, file: at, from: m.From, names: namesOf(e, m)})
	return nil
}
