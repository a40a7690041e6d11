package gitmail

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox/replica"
)

// Sync exchanges mail with the remote; without one, it only commits. It waits for
// another sync of the workspace. An error is a *RemoteError, a *BlockedError, a *git.Error, or one of the
// context or the file system; the next sync does what is missing.
func (r *Repository) Sync(ctx context.Context, o Options) (result Result, err error) {
	asked := r.now()
	unlock, err := r.begin(ctx, o)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	r.step("locked")
	if o.Share && r.syncedSince(asked) {
		return Result{}, nil // another process began a sync after the caller had sent
	}
	e := r.newExchange(ctx, o)
	defer e.Close()
	// An interrupted delivery that cannot be finished holds up no other mail.
	if _, err := r.w.Recover(ctx); err != nil && ctx.Err() == nil {
		e.problem("state/outgoing", err)
	}
	if err = e.run(ctx, e.round); err != nil && git.RemoveBrokenRefs(r.w.Root(), gitName) {
		err = e.run(ctx, e.round)
	}
	if err == nil && !o.DryRun {
		err = r.noteSync(e.now)
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
	trees
	report
	r     *Repository
	w     *replica.Workspace
	o     Options
	now   time.Time
	cache cache
	// baseID is the commit that was last agreed on, tipID that of the branch, and there the one that the remote
	// has, if it has the branch. Each is empty if there is none. recorded is the commit that the repository has
	// as the base. machines are the refs of machines, and ownRef is that of this one.
	baseID, tipID, there, recorded, ownRef string
	machines                               map[string]string
	// waiting are the states that the base has of the messages that a box refused.
	waiting map[string]replica.State
}

func (r *Repository) newExchange(ctx context.Context, o Options) *exchange {
	return &exchange{
		store: newStore(ctx, r.git), r: r, w: &replica.Workspace{Workspace: r.w, Restore: o.Restore}, o: o, cache: r.readCache(), now: r.now(),
	}
}

// run fetches, and repeats a round while the remote refuses what it pushes: another machine may have been faster.
func (e *exchange) run(ctx context.Context, round func(context.Context) (*RemoteError, error)) error {
	const mostRefusals = 3
	for refusals := 1; ; refusals++ {
		if err := e.fetch(ctx); err != nil {
			return err
		}
		start := time.Now()
		refusal, err := round(ctx)
		if refusal == nil || err != nil {
			return err
		}
		if refusals == mostRefusals {
			return refusal
		}
		if err := pause(ctx, rand.N(time.Since(start)+1)); err != nil {
			return err
		}
	}
}

// open reads the trees of the base, the tip and the machines' refs.
func (e *exchange) open(context.Context) (err error) {
	e.failed = nil
	if e.base, err = e.view(e.baseID); git.Exit(err) == git.Fatal {
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

// round merges, applies and pushes once. A refusal of the push is no error.
func (e *exchange) round(ctx context.Context) (refusal *RemoteError, err error) {
	e.r.step("fetched")
	e.result.Commit = e.baseID
	if e.nothingNew() {
		return nil, nil
	}
	e.block, e.waiting = nil, make(map[string]replica.State)
	for _, prepare := range []func(context.Context) error{e.open, e.upgrade, e.takeOver} {
		if err := prepare(ctx); err != nil {
			return nil, err
		}
	}
	p, err := e.makePlan(ctx)
	if err == nil {
		err = e.prune(p)
	}
	if err != nil {
		return nil, err
	}
	e.r.step("merged")
	if err := e.apply(ctx, p); err != nil {
		return nil, err
	}
	if err := e.recordTip(ctx); err != nil {
		return nil, err
	}
	own := e.tipID != e.there
	for _, edit := range p.edits {
		if own = own || edit.own; edit.own && edit.Kind != Pruned {
			e.result.Changes = append(e.result.Changes, edit.Change)
		}
	}
	if e.o.DryRun {
		e.result.Commit = e.tipID
		return nil, nil
	}
	commit, err := e.commit(ctx, p)
	if err != nil {
		return nil, err
	}
	e.r.step("committed")
	refusal, err = e.publish(ctx, p, commit, own)
	if refusal != nil || err != nil {
		e.result.Changes = slices.DeleteFunc(e.result.Changes, func(c Change) bool { return c.Direction == Out })
		return refusal, err
	}
	e.r.step("pushed")
	if err := e.record(ctx, p, commit); err != nil {
		return nil, err
	}
	e.r.step("recorded")
	return nil, nil
}

// recordTip makes the tip the base once the workspace has all that it has. Then a message that was restored elsewhere
// can be handled here while a push takes long or fails: the file says no less than the tip.
func (e *exchange) recordTip(ctx context.Context) error {
	if e.o.DryRun || len(e.machines)+len(e.waiting) > 0 || e.tipID == "" || e.tipID != e.there || e.tipID == e.baseID {
		return nil
	}
	err := e.r.git.UpdateRefs(ctx, map[string]string{baseRef: e.tipID, e.r.settings.branchRef(): e.tipID})
	if err == nil {
		e.baseID, e.recorded = e.tipID, e.tipID
	}
	e.r.step("base")
	return err
}

// commit makes commits of the edits on the tip, and returns the last one.
func (e *exchange) commit(ctx context.Context, p *plan) (commit string, err error) {
	if _, shallow := e.w.Root().Lstat(gitName + "/shallow"); shallow == nil && e.there == "" && e.tipID != "" {
		// No remote takes a history whose beginning is missing here.
		if e.tipID, err = e.r.squashed(ctx, e.tip, 1, e.now); err != nil {
			return "", err
		}
	}
	commit, err = e.r.commit(ctx, e.tipID, e.now, p.edits)
	if err == nil && len(e.waiting) > 0 { // the workspace has not all that the commit has, so it must not become the base as it is
		_, err = e.r.git.Run(ctx, "update-ref", "-d", nextRef)
	}
	return commit, err
}

// record makes a commit the base. For messages that a box refused, the cache keeps what the base says now.
func (e *exchange) record(ctx context.Context, p *plan, commit string) error {
	if commit == "" {
		return nil
	}
	recorded := e.recorded
	e.baseID, e.recorded, e.result.Commit = commit, commit, commit
	if err := e.keep(p); err != nil || commit == recorded && e.there == e.tipID {
		return err
	}
	return e.r.git.UpdateRefs(ctx, map[string]string{baseRef: commit, e.r.settings.branchRef(): commit, trackingRef: e.there})
}
