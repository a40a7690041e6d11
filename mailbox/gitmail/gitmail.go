// Package gitmail carries the mail of a workspace between machines as commits of a git repository of
// its own.
//
// The repository is in the folder .git of the workspace. It has no index and no working tree: Sync
// compares the workspace's folders with trees, and delivers what arrives as [mailbox.Workspace.Receive]
// does, so that every watcher and runner sees it whole and once.
//
// For each recipient, a message is unknown, pending or acknowledged on a machine. An outbox copy says
// that it is known; known without an inbox copy, it is acknowledged. When two machines differ, the
// later of these states wins. So histories that are squashed, rewound or rewritten need no common
// ancestor, and nothing ever conflicts.
//
// A sync that is killed at any point repeats what is missing the next time:
//
//	fetch    the tip of the mailbox branch
//	judge    what its tree adds to that of the base, the commit that the workspace is in step with
//	receive  new messages; remove inbox copies that were acknowledged elsewhere; then move the base
//	look     for what the folders add: outboxes, then staged copies, then inboxes
//	commit   that on the tip, and push it if the tip is still the same; otherwise, begin again
//	record   the new commit as the base
package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// ErrNoRepository is returned for a workspace that has no repository of its own.
var ErrNoRepository = errors.New("the workspace has no git repository of its own")

// Names in the repository.
const (
	gitName = ".git"
	// remoteName is the name of the remote, whatever it is called in the user's repository.
	remoteName = "oacp"
	// baseRef is the commit that the workspace is in step with, trackingRef the tip as last fetched,
	// and nextRef the commit that was last made.
	baseRef     = "refs/oacp/base"
	trackingRef = "refs/remotes/oacp/mail"
	nextRef     = "refs/oacp/next"
	// lateRef is a list of paths: the changes that the base has, and boxes of the workspace refuse.
	lateRef = "refs/oacp/late"
	// claimRefs are the claims on messages, with the same names on the remote.
	claimRefs = "refs/oacp/claims/"
)

// stateFolder holds the lock and the cache.
const stateFolder = "state/git"

// Settings say with which branch of which remote a workspace is in step.
type Settings struct {
	// URL is that of the remote; empty means that there is none.
	URL string
	// Ref is the branch or other ref, such as refs/heads/oacp.
	Ref string
	// remote is the name of the remote in the user's repository, or the URL.
	remote string
	// sign says that the user's commits are signed.
	sign bool
}

// Name returns what messages call the branch with the mail. It is empty if there is no remote.
func (s Settings) Name() string {
	if s.URL == "" {
		return ""
	}
	return PublicURL(s.URL) + " (" + strings.TrimPrefix(s.Ref, "refs/heads/") + ")"
}

// branchRef returns the local branch that shows what the workspace is in step with.
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
	on := func(name string) bool { return slices.Contains([]string{"true", "yes", "on", "1"}, s[name]) }
	r.settings = Settings{URL: s["remote.oacp.url"], Ref: s["oacp.ref"], remote: s["oacp.remote"], sign: on("commit.gpgsign")}
	r.git = repositoryOf(w, on("oacp.hooks"))
	if r.settings.Ref == "" {
		err := usable(ctx, w, r.git)
		if errors.Is(err, ErrForeignRepository) {
			err = &RepositoryError{Dir: w.Dir(), Err: fmt.Errorf("%w: %w", ErrNoRepository, ErrForeignRepository)}
		}
		return nil, err
	}
	return r, nil
}

// ownSettings returns the settings in the repository's own file, without those of the user.
func ownSettings(ctx context.Context, r *git.Repository) (map[string]string, error) {
	return readSettings(ctx, r, "--file", filepath.Join(r.GitDir, "config"))
}

// readSettings returns the settings of a workspace's repository by name.
func readSettings(ctx context.Context, r *git.Repository, scope ...string) (map[string]string, error) {
	out, err := r.Run(ctx, slices.Concat([]string{"config"}, scope,
		[]string{"-z", "--get-regexp", `^(oacp\.(ref|hooks|remote)|remote\.oacp\.(push)?url|commit\.gpgsign)$`})...)
	if err != nil && git.Exit(err) != 1 {
		return nil, err
	}
	settings := make(map[string]string)
	for setting := range records(out) {
		name, value, hasValue := strings.Cut(setting, "\n")
		if !hasValue {
			value = "true"
		}
		settings[name] = value
	}
	return settings, nil
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

// Git returns the repository for commands of git.
func (r *Repository) Git() *git.Repository { return r.git }

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
	// until, if set, ends the sync where it waits for others; see SyncUntil.
	until context.Context
}

// patience is how long a sync tries to push while other machines are faster.
const patience = 2 * time.Minute

// Problem is a file that a sync passed over: one in the tree that is not taken, or one in the workspace
// that does not travel.
type Problem struct {
	// Path is that in the tree, or below the workspace.
	Path string
	Err  error
}

// Result is what a sync did.
type Result struct {
	Changes  []Change
	Problems []Problem
	// Commit is the commit that the workspace is in step with; empty if there is none.
	Commit string
	// Pushes counts the attempts to push. There are several if other machines were faster.
	Pushes int
	// Whole says that the remote had no branch, although there was a sync before, so all of it is sent.
	Whole bool
}

// Sync brings the workspace and the remote into step; without a remote, it only commits. It waits for
// another sync of the workspace. An error is a *RemoteError, a *BlockedError, a *git.Error, or one of the
// context or the file system; the next sync does what is missing.
func (r *Repository) Sync(ctx context.Context, o Options) (result Result, err error) {
	unlock, err := r.begin(ctx, o)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	e := r.newExchange(o)
	if err := e.prepare(ctx); err != nil {
		return Result{}, err
	}
	if err = e.run(ctx, e.round); err == nil && !o.DryRun {
		err = r.noteSync()
		_ = r.collectGarbage(ctx) // a failure does not affect the mail
	}
	if err == nil && e.block != nil {
		err = e.block
	}
	if more := len(e.result.Problems) - mostProblems; more > 0 {
		e.result.Problems = append(e.result.Problems[:mostProblems], Problem{Path: "agents", Err: fmt.Errorf("%d more problems", more)})
	}
	return e.result, r.explain(ctx, err)
}

// mostProblems is how many problems a sync names: one commit can hold any number of them.
const mostProblems = 50

// prepare notes which boxes were removed, and finishes interrupted deliveries. One that cannot be finished
// holds up no other mail.
func (e *exchange) prepare(ctx context.Context) error {
	if err := e.noteLost(); err != nil {
		return err
	}
	if _, err := e.r.w.Recover(ctx); err != nil {
		e.problem("state/outgoing", err)
	}
	return context.Cause(ctx)
}

// begin takes the lock of the repository, and waits until git has no locks there. It returns the function
// that releases the lock.
func (r *Repository) begin(ctx context.Context, o Options) (unlock func() error, err error) {
	ctx = o.untilEnd(ctx)
	announced := o.announce("another sync of this workspace")
	unlock, err = r.lock(ctx)
	announced()
	if err != nil {
		return nil, err
	}
	r.step("locked")
	if err := r.clearLocks(ctx, o); err != nil {
		return nil, errors.Join(err, unlock())
	}
	return unlock, nil
}

// lockRetry is the pause between attempts to take the lock.
const lockRetry = 20 * time.Millisecond

// lock takes the lock of the repository, and returns the function that releases it.
func (r *Repository) lock(ctx context.Context) (unlock func() error, err error) {
	if err := r.w.MakeStateFolder(stateFolder); err != nil {
		return nil, err
	}
	dir, err := durable.OpenDir(r.w.Root(), r.w.Dir(), stateFolder)
	if err != nil {
		return nil, err
	}
	lock := dir.NewLock("sync.lock")
	_, err = lock.TryLockContext(ctx, lockRetry)
	if err = errors.Join(err, dir.Close()); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("waiting for another sync, which holds %s: %w", lock.Path(), err)
		}
		return nil, fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	return lock.Unlock, nil
}

// exchange is one sync.
type exchange struct {
	r      *Repository
	o      Options
	result Result
	// base is the commit that the workspace is in step with, tip the commit that the sync brings it
	// to, and made the commit that was last made here. Each is empty if there is none.
	base, tip, made string
	// there is the commit that the remote has. It has none if its branch was deleted, or before the
	// first push.
	there string
	// cache is what is known of the last sync.
	cache cache
	// lateList is the object at lateRef, or empty. late are the paths for the next one, aside the boxes
	// that say nothing about their messages, and block is the first error.
	lateList    string
	late, aside map[string]bool
	block       *BlockedError
	// touched are, in a dry run, the paths that the tip would change here.
	touched map[string]bool
}

func (r *Repository) newExchange(o Options) *exchange {
	return &exchange{r: r, o: o, cache: r.readCache(), late: make(map[string]bool), aside: make(map[string]bool)}
}

// run fetches, and repeats a round until the remote does not refuse what it pushes.
func (e *exchange) run(ctx context.Context, round func(context.Context) (*RemoteError, error)) error {
	const mostRefusals = 3
	if err := e.fetch(ctx); err != nil {
		return err
	}
	begun, refusals := time.Now(), 0
	for attempt := 1; ; attempt++ {
		start := time.Now()
		refusal, err := round(ctx)
		if refusal == nil || err != nil {
			return err
		}
		if time.Since(begun) > patience {
			return refusal
		}
		pause := time.Duration(rand.Int64N(int64(time.Since(start)) + 1))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause * time.Duration(min(attempt, 8))):
		}
		// The remote refuses a push if another machine was faster, but also for other reasons: then its
		// tip stays where it is.
		before := e.tip
		if err := e.fetch(ctx); err != nil {
			return err
		}
		if refusals++; e.tip != before {
			refusals = 0
		}
		if refusals == mostRefusals {
			return refusal
		}
	}
}

// round receives what the tip has, and pushes what the workspace has. A refusal of the push is no
// error.
func (e *exchange) round(ctx context.Context) (refusal *RemoteError, err error) {
	e.r.step("fetched")
	if e.tip != e.base || e.lateList != "" && e.tip != "" {
		if err := e.catchUp(ctx); err != nil {
			return nil, err
		}
		if err := e.receive(ctx); err != nil {
			return nil, err
		}
	}
	if err := e.noteLost(); err != nil { // those removed since the sync began
		return nil, err
	}
	d, err := e.look(ctx)
	if err != nil {
		return nil, err
	}
	e.r.step("looked")
	if unpublished := e.tip != e.there && e.r.settings.URL != ""; (unpublished || len(d.edits) > 0) && !e.o.DryRun {
		commit := e.tip
		if len(d.edits) > 0 {
			if commit, err = e.commit(ctx, d.edits); err != nil {
				return nil, err
			}
		}
		e.r.step("committed")
		if refusal, err := e.push(ctx, commit); refusal != nil || err != nil {
			return refusal, cmp.Or(context.Cause(ctx), err)
		}
		e.r.step("pushed")
		e.tip = commit
		if err := e.rebase(ctx); err != nil {
			return nil, err
		}
		e.r.step("recorded")
	}
	for _, edit := range d.edits {
		e.result.Changes = append(e.result.Changes, edit.Change)
	}
	e.result.Problems = append(e.result.Problems, d.problems...)
	e.result.Commit = e.tip
	if e.o.DryRun {
		return nil, nil
	}
	return nil, e.keep(ctx, d)
}
