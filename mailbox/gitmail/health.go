package gitmail

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Health is what there is to say about a repository without asking the remote.
type Health struct {
	// Commit is the commit that the workspace is in step with, or empty.
	Commit string
	// Unsent are the changes of the workspace that no commit has.
	Unsent []Change
	// Interrupted says that a sync fetched commits, and ended before it took them; Behind counts them.
	// There are none if the remote was rewound.
	Interrupted bool
	Behind      int
	// Foreign are the files of the commit that a sync passes over.
	Foreign []Problem
}

// Health looks at the repository and at what the workspace has not sent. It reads the name and the
// size of every file of the tree, so a damaged repository is an error.
func (r *Repository) Health(ctx context.Context) (h Health, err error) {
	defer func() { err = r.explain(ctx, err) }()
	refs, err := r.refs(ctx, baseRef, trackingRef)
	if err != nil {
		return h, err
	}
	h.Commit = refs[baseRef]
	h.Interrupted = refs[trackingRef] != "" && refs[trackingRef] != h.Commit
	if h.Interrupted {
		fetched := refs[trackingRef]
		if h.Commit != "" {
			fetched = h.Commit + ".." + fetched
		}
		out, err := r.git.Run(ctx, "rev-list", "--count", fetched)
		if err == nil {
			_, err = fmt.Sscan(string(out), &h.Behind)
		}
		if err != nil {
			return h, err
		}
	}
	if h.Foreign, err = r.foreign(ctx, h.Commit); err != nil {
		return h, err
	}
	e := r.newExchange(ctx, Options{DryRun: true})
	defer e.close()
	e.baseID, e.tipID, e.cache = h.Commit, h.Commit, cache{}
	if err := e.open(ctx); err != nil {
		return h, err
	}
	m, err := e.makePlan(ctx)
	if err != nil {
		return h, err
	}
	for _, edit := range m.edits {
		h.Unsent = append(h.Unsent, edit.Change)
	}
	return h, nil
}

// foreign returns the files of a commit that a sync passes over for their names, types or sizes.
func (r *Repository) foreign(ctx context.Context, commit string) (found []Problem, err error) {
	if commit == "" {
		return nil, nil
	}
	err = r.listTree(ctx, 4, []string{"-r", "--long", commit}, func(path string, fields []string) {
		if err := judgeFile(path, fields[0], fields[3]); err != nil {
			found = append(found, Problem{Path: path, Err: err})
		}
	})
	return found, err
}

// judgeFile returns an error if a sync passes over a file of a tree.
func judgeFile(path, mode, size string) error {
	bytes, err := strconv.ParseInt(size, 10, 64)
	switch {
	case mode != regular:
		return fmt.Errorf("it is not a regular file: its mode is %s", mode)
	case err != nil:
		return fmt.Errorf("its size is %.20q", size)
	case bytes > schema.MaxFileSize:
		return fmt.Errorf("it has %d bytes of at most %d", bytes, int64(schema.MaxFileSize))
	}
	return checkPath(path)
}

// RemoveStaleLocks removes what StaleLocks finds while it holds the lock of the repository.
func (r *Repository) RemoveStaleLocks(ctx context.Context) (names []string, err error) {
	unlock, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return r.removeStaleLocks(r.now())
}

// Around is what the user's repository means for a workspace inside it.
type Around struct {
	// Ignored says that it does not show the workspace.
	Ignored bool
	// Moved is the name of the remote through which the mail goes, if its URL is another one now.
	Moved string
}

// Around looks at the user's repository, whose top is given. An error that matches ErrTracked says
// that it has files of the workspace under version control.
func (r *Repository) Around(ctx context.Context, top string) (a Around, err error) {
	s, err := openSurroundings(ctx, r.w, top)
	if err != nil {
		return a, err
	}
	a.Ignored = true
	if s.below != "" {
		_, err := s.user.Run(ctx, "check-ignore", "--quiet", "--no-index", "--", s.below)
		if a.Ignored = err == nil; err != nil && git.Exit(err) != 1 {
			return a, err
		}
	}
	for _, remote := range s.remotes {
		if remote.name == r.settings.remote && remote.url != r.settings.URL {
			a.Moved = remote.name
		}
	}
	return a, nil
}

// Hide lists the workspace in the exclude file of the user's repository, whose top is given, and
// returns the file.
func Hide(ctx context.Context, w *mailbox.Workspace, top string) (file string, err error) {
	s, err := openSurroundings(ctx, w, top)
	if err != nil {
		return "", err
	}
	return s.exclude(ctx)
}
