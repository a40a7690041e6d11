package gitmail

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/schema"
)

// isRefused reports whether a file of a tree cannot be taken: it is not a valid file, is too large, or does not belong there.
// All other errors of reading trees come from git.
func isRefused(err error) bool {
	_, unwanted := errors.AsType[git.UnwantedError](err)
	return unwanted
}

// entry is what a tree has under a name.
type entry = git.Entry

// A store reads objects of the repository.
type store struct {
	*git.Objects
	// failed is the first error of git in reading objects. After it, trees seem empty, so results based on them are
	// invalid.
	failed error
	// horizon is the latest one that any tree has or the caller asks for.
	horizon string
}

func newStore(ctx context.Context, g *git.Repository) *store { return &store{Objects: g.Objects(ctx)} }

// file returns the bytes of a file that is not too large.
func (s *store) file(object string) ([]byte, error) {
	data, err := s.Read(object, "blob", schema.MaxFileSize)
	if err != nil && !isRefused(err) {
		s.fail(err)
	}
	return data, err
}

func (s *store) fail(err error) { s.failed = cmp.Or(s.failed, err) }

// text returns the text of a file; empty if it is not a file or too large.
func (s *store) text(at entry) string {
	if !at.IsFile() || s.failed != nil {
		return ""
	}
	data, _ := s.file(at.Object)
	return strings.TrimSpace(string(data))
}

// tree returns the entries of a tree; none if the entry is not a tree.
func (s *store) tree(at entry) map[string]entry {
	if !at.IsFolder() || at.Object == "" || s.failed != nil { // an empty view has no object
		return nil
	}
	tree, err := s.Tree(at.Object)
	if err != nil && !isRefused(err) {
		s.fail(err)
	}
	return tree
}

// A view is the tree of a commit. Folders are read when they are needed.
type view struct {
	*store
	commit, root string
	// old says that an earlier version made the tree; see converted.
	old bool
	// lists are the lists of pruned messages that were read.
	lists map[string]map[string]facts.Set
}

// view returns the tree of a commit; an empty one if there is none.
func (s *store) view(commit string) (v *view, err error) {
	v = &view{store: s, commit: commit, lists: make(map[string]map[string]facts.Set)}
	if commit != "" {
		v.root, err = s.Root(commit)
		v.old = err == nil && v.isOld()
	}
	return v, err
}

// entry returns what is at a path.
func (v *view) entry(path string) entry {
	at := git.Folder(v.root)
	for name := range strings.SplitSeq(path, "/") {
		at = v.tree(at)[name]
	}
	return at
}

// folder returns the entries of a folder; none if there is no folder at the path.
func (v *view) folder(path string) map[string]entry { return v.tree(v.entry(path)) }
