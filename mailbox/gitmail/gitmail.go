// Package gitmail carries the mail of a workspace between machines as commits of a git repository of
// its own.
//
// The repository is in the folder .git of the workspace. It has no index and no working tree: git only reads
// and writes trees here, and [mailbox/replica] says what they mean. New mail is delivered as
// [mailbox.Workspace.Receive] does, so that every watcher and runner sees it whole and once.
//
// A sync that is killed at any point is repeated by the next one:
//
//	fetch    the tip of the mailbox branch, and the refs of machines whose pushes were refused
//	merge    the workspace, the base, the tip and those refs: replica.Join
//	apply    what the workspace lacks
//	commit   on the tip what that lacks
//	record   the new commit as the base
//	push     it if the tip is still the same; otherwise, push it to the ref of this machine, where all others
//	         find it
//
// Mail that was fetched is delivered before the push, so that a push that hangs does not hold it up. That is
// safe because applying a result twice is the same as once.
package gitmail

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/history"
	"github.com/oacp-go/oacp/schema"
)

// Names in the repository.
const (
	gitName = ".git"
	// remoteName is the name of the remote, whatever it is called in the user's repository.
	remoteName = "oacp"
	// baseRef is the commit that was last agreed on, trackingRef the tip as last fetched, and nextRef the commit
	// that was last made.
	baseRef     = "refs/oacp/base"
	trackingRef = "refs/remotes/oacp/mail"
	nextRef     = "refs/oacp/next"
	// claimRefs are the claims on messages, with the same names on the remote.
	claimRefs = "refs/oacp/claims/"
	// machineRefs are the commits of machines whose pushes to the branch were refused, with the same names on the
	// remote.
	machineRefs = "refs/oacp/machines/"
)

// stateFolder holds the lock and the cache.
const stateFolder = "state/git"

// Settings say with which branch of which remote a workspace exchanges mail.
type Settings struct {
	// Remote is the name of the remote in the user's repository, or the URL, or empty.
	Remote string
	// URL is that of the remote, as it is written there; empty means that there is none. pushURL is where to push,
	// if that is not the URL.
	URL, pushURL string
	// Ref is the branch or other ref, such as refs/heads/oacp.
	Ref string
	// Since is the day from which the workspace keeps mail that was handled or given up, such as 20261121. It keeps
	// pending mail of any age. If it is empty, the workspace keeps all mail.
	Since string
	// sign says that the user's commits are signed, and hooks that the user's hooks run.
	sign, hooks bool
}

// Name returns what messages call the branch with the mail. It is empty if there is no remote.
func (s Settings) Name() string {
	if s.URL == "" {
		return ""
	}
	return git.PublicURL(s.URL) + " (" + strings.TrimPrefix(s.Ref, "refs/heads/") + ")"
}

// branchRef returns the local branch that shows what was last agreed on.
func (s Settings) branchRef() string { return "refs/heads/" + path.Base(s.Ref) }

// Repository is the git repository of a workspace. Several processes may use it at the same time.
type Repository struct {
	w        *mailbox.Workspace
	git      *git.Repository
	settings Settings
	now      func() time.Time
	// step is called at each step of a sync, for tests.
	step func(name string)
}

// Open opens the repository of a workspace. The error is a *RepositoryError or a *git.Error, or matches
// git.ErrMissing.
func Open(ctx context.Context, w *mailbox.Workspace) (*Repository, error) {
	if err := noRepository(w); err != nil {
		return nil, err
	}
	r := &Repository{w: w, git: repositoryOf(w, false), now: time.Now, step: func(string) {}}
	s, err := readSettings(ctx, r.git)
	if err != nil {
		return nil, fmt.Errorf("opening the git repository of workspace %s: %w", w.Dir(), r.explain(ctx, err))
	}
	r.settings, r.git = s, repositoryOf(w, s.hooks)
	if s.Ref == "" {
		_, err := check(ctx, w)
		if errors.Is(err, ErrForeignRepository) {
			err = &RepositoryError{Dir: w.Dir(), Err: fmt.Errorf("%w: %w", ErrNoRepository, ErrForeignRepository)}
		}
		return nil, err
	}
	return r, nil
}

// readSettings returns the settings of a workspace's repository. The scope is for git config.
func readSettings(ctx context.Context, r *git.Repository, scope ...string) (Settings, error) {
	out, err := r.Run(ctx, slices.Concat([]string{"config"}, scope,
		[]string{"-z", "--get-regexp", `^(oacp\.(ref|hooks|remote|since)|remote\.oacp\.(push)?url|commit\.gpgsign)$`})...)
	if err != nil && git.Exit(err) != 1 {
		return Settings{}, err
	}
	settings := make(map[string]string)
	for setting := range git.Records(out) {
		name, value, hasValue := strings.Cut(setting, "\n")
		if !hasValue {
			value = "true"
		}
		settings[name] = value
	}
	on := func(name string) bool { return slices.Contains([]string{"true", "yes", "on", "1"}, settings[name]) }
	return Settings{
		Remote: settings["oacp.remote"], URL: settings["remote.oacp.url"], pushURL: settings["remote.oacp.pushurl"], Ref: settings["oacp.ref"],
		Since: settings["oacp.since"], sign: on("commit.gpgsign"), hooks: on("oacp.hooks"),
	}, nil
}

// repositoryOf returns the place of a workspace's repository, and the settings that protect it from
// those of the user: nothing may follow or rewrite what we push. The user's hooks, which are often test
// suites, run only if the caller asks for them.
func repositoryOf(w *mailbox.Workspace, hooks bool) *git.Repository {
	r := &git.Repository{
		Dir: w.Dir(), GitDir: filepath.Join(w.Dir(), gitName),
		Config: []string{
			"core.fsmonitor=false", "core.logAllRefUpdates=false", "gc.auto=0", "maintenance.auto=false",
			"push.followTags=false", "push.gpgSign=false", "push.recurseSubmodules=no", "fetch.recurseSubmodules=false",
			"core.quotePath=false", "core.bigFileThreshold=8m",
		},
		// A partial clone of the user's must not make git ask a remote for missing objects.
		Env: []string{"GIT_NO_LAZY_FETCH=1"},
	}
	if !hooks {
		r.Config = append(r.Config, "core.hooksPath=/dev/null")
	}
	return r
}

// Settings returns the settings of the repository.
func (r *Repository) Settings() Settings { return r.settings }

// Options changes a sync. The zero value is the default.
type Options struct {
	// DryRun only says what a sync would do. It fetches.
	DryRun bool
	// Progress, if set, is called with the count of messages done, and all.
	Progress func(done, total int)
	// Waiting, if set, is called from another goroutine when a sync has waited for something for a
	// second, with what that is.
	Waiting func(what string)
	// Restore puts a message back into an inbox after another machine did so. The default is the
	// Restore of the workspace.
	Restore func(ctx context.Context, m *schema.Message, agent schema.AgentName) error
	// Share says that a sync of another process, begun after Sync was called, is enough.
	Share bool
	// Prune, if set, returns whether the bytes of a message that was handled or given up go.
	Prune func(name string) bool
	// Squash makes one commit of the history, here and on the remote.
	Squash bool
	// RemoveAgent is an agent that is to be removed on all machines.
	RemoveAgent schema.AgentName
	// until, if set, ends the sync where it waits for others; see SyncUntil.
	until context.Context
}

// Problem is a file that a sync skips. The path is that in the tree, or below the workspace.
type Problem struct {
	Path string
	Err  error
}

// Result is what a sync did.
type Result struct {
	Changes  []history.Change
	Problems []Problem
	// Commit is the commit that was agreed on; empty if there is none.
	Commit string
	// Pruned counts the copies of messages whose bytes were pruned.
	Pruned int
	// Squashed says what Squash did.
	Squashed Squashed
	// Whole says that the remote had no branch, although there was a sync before, so all of it is sent.
	Whole bool
}
