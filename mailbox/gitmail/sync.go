package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
)

// Sync brings the workspace and the remote into step; without a remote, it only commits. It waits for
// another sync of the workspace. An error is a *RemoteError, a *BlockedError, a *git.Error, or one of the
// context or the file system; the next sync does what is missing.
func (r *Repository) Sync(ctx context.Context, o Options) (result Result, err error) {
	asked := r.now()
	unlock, err := r.begin(ctx, o)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if o.Share && r.syncedSince(asked) {
		return Result{}, nil // another process began a sync after the caller had sent
	}
	e := r.newExchange(ctx, o)
	defer e.close()
	if err := e.prepare(ctx); err != nil {
		return Result{}, err
	}
	if err = e.run(ctx, e.round); err != nil && r.mendRefs() {
		err = e.run(ctx, e.round)
	}
	if err == nil && !o.DryRun {
		err = r.noteSync(e.begun)
		if len(e.result.Changes) > 0 {
			_ = r.collectGarbage(ctx) // a failure does not affect the mail
		}
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
	*store
	r          *Repository
	w          *replica.Workspace
	o          Options
	result     Result
	begun, now time.Time
	cache      cache
	// baseID is the commit that the workspace is in step with, tipID that of the branch, and there the one that
	// the remote has, if it has the branch. Each is empty if there is none. machines are the refs of machines.
	// recorded is the commit that the repository has as the base.
	baseID, tipID, there, recorded string
	machines                       map[string]string
	// base, tip and others are the trees of these.
	base, tip *view
	others    []*view
	// legacy are the messages that a tree of an earlier version has for each agent.
	legacy map[schema.AgentName][]string
	// staged are the copies for inboxes that are staged.
	staged map[replica.Copy]bool
	// block is the first error of a box. The base keeps what it has of the messages that wait for one.
	block   *BlockedError
	waiting []replica.Copy
	unsent  []string
}

func (r *Repository) newExchange(ctx context.Context, o Options) *exchange {
	return &exchange{
		store: newStore(ctx, r.git), r: r, w: &replica.Workspace{Workspace: r.w, Restore: o.Restore}, o: o, cache: r.readCache(), begun: r.now(), now: r.now(),
	}
}

// prepare finishes interrupted deliveries. One that cannot be finished holds up no other mail.
func (e *exchange) prepare(ctx context.Context) error {
	if _, err := e.r.w.Recover(ctx); err != nil {
		e.problem("state/outgoing", err)
	}
	return context.Cause(ctx)
}

func (e *exchange) problem(path string, err error) {
	e.result.Problems = append(e.result.Problems, Problem{Path: path, Err: err})
}

// run fetches, and repeats a round until the remote does not refuse what it pushes.
func (e *exchange) run(ctx context.Context, round func(context.Context) (*RemoteError, error)) error {
	const mostRefusals = 3
	if err := e.fetch(ctx); err != nil {
		return err
	}
	for refusals := 1; ; refusals++ {
		start := time.Now()
		refusal, err := round(ctx)
		if refusal == nil || err != nil {
			return err
		}
		if refusals == mostRefusals {
			return refusal
		}
		if err := pause(ctx, time.Duration(rand.Int64N(int64(time.Since(start))+1))); err != nil {
			return err
		}
		// The remote may have refused because another machine was faster.
		if err := e.fetch(ctx); err != nil {
			return err
		}
	}
}

// open reads the trees of the base, the tip and the machines' refs.
func (e *exchange) open() (err error) {
	if e.base, err = e.view(e.baseID); git.Exit(err) == damaged {
		e.base, err = e.view("") // it says nothing that the others do not say
	}
	if err != nil {
		return err
	}
	if e.tip, err = e.view(e.tipID); err != nil {
		return err
	}
	if err := e.tip.checkFormat(); errors.Is(err, ErrForeignBranch) && e.baseID == "" {
		return fmt.Errorf("%s %w", e.r.settings.Name(), err)
	} else if err != nil && !errors.Is(err, ErrForeignBranch) {
		return err
	}
	e.others = nil
	for _, ref := range slices.Sorted(maps.Keys(e.machines)) {
		v, err := e.view(e.machines[ref])
		if err == nil {
			err = v.checkFormat()
		}
		if err != nil {
			e.problem(ref, err)
			continue
		}
		e.others = append(e.others, v)
	}
	return nil
}

// takeOver prepares a workspace that was not shared, or was shared by an earlier version: there, a missing inbox
// copy says that a message was handled.
func (e *exchange) takeOver(ctx context.Context) error {
	if e.base.root != "" && !e.base.isLegacy() || e.o.DryRun {
		return nil
	}
	const done = stateFolder + "/taken-over"
	if _, err := e.r.w.Root().Lstat(done); err != nil {
		if err := e.w.TakeOver(ctx); err != nil {
			return err
		}
		if _, err := e.r.w.AddFile(done, nil); err != nil {
			return err
		}
	}
	var err error
	e.base, err = e.view("")
	return err
}

// round merges, applies and pushes once. A refusal of the push is no error.
func (e *exchange) round(ctx context.Context) (refusal *RemoteError, err error) {
	e.r.step("fetched")
	e.result.Commit = e.baseID
	if e.nothingNew() {
		return nil, nil
	}
	e.block, e.waiting, e.unsent = nil, nil, nil
	if err := cmp.Or(e.open(), e.takeOver(ctx)); err != nil {
		return nil, err
	}
	m, err := e.merge(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.prune(m); err != nil {
		return nil, err
	}
	e.r.step("merged")
	if err := e.apply(ctx, m); err != nil {
		return nil, err
	}
	if err := e.recordTip(ctx); err != nil {
		return nil, err
	}
	own := e.tipID != e.there && e.r.settings.URL != "" && e.tipID != ""
	for _, edit := range m.edits {
		if own = own || edit.own; edit.own && edit.Kind != Pruned {
			e.result.Changes = append(e.result.Changes, edit.Change)
		}
	}
	if e.o.DryRun {
		e.result.Commit = e.tipID
		return nil, nil
	}
	if e.there == "" && e.tipID != "" && e.r.isShallow() {
		// No remote takes a history whose beginning is missing here.
		if e.tipID, err = e.r.squashed(ctx, e, 1); err != nil {
			return nil, err
		}
	}
	commit := e.tipID
	if len(m.edits) > 0 {
		if commit, err = e.commit(ctx, m.edits); err != nil {
			return nil, err
		}
	}
	if len(e.waiting)+len(e.unsent) > 0 {
		// The workspace has not all that the commit has, so that it must not become the base.
		if _, err := e.r.git.Run(ctx, "update-ref", "-d", nextRef); err != nil {
			return nil, err
		}
	}
	e.r.step("committed")
	refusal, err = e.publish(ctx, m, commit, own)
	if refusal != nil || err != nil {
		e.result.Changes = slices.DeleteFunc(e.result.Changes, func(c Change) bool { return c.Direction == Out })
		return refusal, cmp.Or(context.Cause(ctx), err)
	}
	e.r.step("pushed")
	if err := e.record(ctx, m, commit); err != nil {
		return nil, err
	}
	e.r.step("recorded")
	return nil, nil
}

// recordTip makes the tip the base once the workspace has all that it has. Then a message that was restored elsewhere
// can be handled here while a push takes long or fails: the file says no less than the tip.
func (e *exchange) recordTip(ctx context.Context) error {
	if e.o.DryRun || len(e.others)+len(e.waiting)+len(e.unsent) > 0 || e.tipID == "" || e.tipID != e.there || e.tipID == e.baseID {
		return nil
	}
	err := e.updateRefs(ctx, map[string]string{baseRef: e.tipID, e.r.settings.branchRef(): e.tipID})
	if err == nil {
		e.baseID, e.recorded = e.tipID, e.tipID
	}
	e.r.step("base")
	return err
}

// updateRefs moves refs of the repository. An empty object leaves one where it is.
func (e *exchange) updateRefs(ctx context.Context, refs map[string]string) error {
	var input strings.Builder
	for ref, object := range refs {
		if object != "" {
			fmt.Fprintf(&input, "update %s %s\n", ref, object)
		}
	}
	if _, err := e.r.git.RunInput(ctx, strings.NewReader(input.String()), "update-ref", "--stdin"); err != nil {
		return fmt.Errorf("recording what the workspace is in step with: %w", err)
	}
	return nil
}

// foldAfter is how long other machines' refs may stay beside the branch while there is nothing to send.
const foldAfter = time.Minute

// publish pushes a commit if there is something to send, or something to fold into the branch.
func (e *exchange) publish(ctx context.Context, m *merge, commit string, own bool) (refusal *RemoteError, err error) {
	ownRef, err := e.r.machineRef()
	if err != nil {
		return nil, err
	}
	due := len(e.machines) > 0 && (e.machines[ownRef] != "" || !e.cache.Unfolded.IsZero() && e.now.Sub(e.cache.Unfolded) > foldAfter)
	if e.r.settings.URL == "" || !own && !due {
		return nil, nil
	}
	stale := false
	if commit != e.there {
		stale, refusal, err = e.push(ctx, commit)
	}
	switch {
	case refusal != nil || err != nil:
		return refusal, err
	case !stale:
		e.there = commit
		e.removeMachines(ctx)
		return nil, nil
	case !own:
		return nil, nil // another machine has pushed, and will have folded what there is to fold
	}
	// The others read this ref, too, and the next one who gets a push through folds it into the branch.
	return e.pushRef(ctx, commit, ownRef)
}

// record makes a commit the base, except for messages whose boxes refuse them: the base keeps what it had of
// those, so that the next sync tries again.
func (e *exchange) record(ctx context.Context, m *merge, commit string) error {
	base, err := e.withoutWaiting(ctx, commit)
	if err != nil || base == "" {
		return err
	}
	if base != e.recorded || e.there != e.tipID {
		if err := e.updateRefs(ctx, map[string]string{baseRef: base, e.r.settings.branchRef(): commit, trackingRef: e.there}); err != nil {
			return err
		}
	}
	e.baseID, e.recorded, e.result.Commit = base, base, commit
	return e.keep(m)
}

// withoutWaiting returns the commit for the base.
func (e *exchange) withoutWaiting(ctx context.Context, commit string) (string, error) {
	if len(e.waiting)+len(e.unsent) == 0 || commit == "" {
		return commit, nil
	}
	made, err := e.view(commit)
	if err != nil {
		return "", err
	}
	back := &edit{Change: Change{Kind: Described}}
	for _, c := range e.waiting {
		is, isErr := made.look(c)
		was, wasErr := e.base.look(c)
		if err := errors.Join(isErr, wasErr); err != nil {
			return "", err
		}
		back.remove = append(append(back.remove, is.paths...), epochPath(c))
		for _, path := range was.paths {
			at, err := e.base.entry(path)
			if err != nil {
				return "", err
			}
			back.write = append(back.write, file{path: path, object: at.object})
		}
		if was.epoch > 0 {
			back.write = append(back.write, file{path: epochPath(c), data: fmt.Appendf(nil, "%d\n", was.epoch)})
		}
	}
	for _, name := range e.unsent {
		back.remove = append(back.remove, treePath(replica.Sender(name), "outbox", name))
	}
	return e.r.importCommits(ctx, commit, e.now, []*edit{back})
}

// gitError returns the error of git, if it is one.
func gitError(err error) (*git.Error, bool) { return errors.AsType[*git.Error](err) }
