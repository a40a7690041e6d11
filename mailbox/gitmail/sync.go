package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/history"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
)

// Sync exchanges mail with the remote; without one, it only commits. It waits for another sync of the workspace. An
// error is a *RemoteError, a *BlockedError, a *RepositoryError, a *git.Error, or one of the context or the file system.
// After an error, the next sync does the rest.
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
	if !o.Forget.IsZero() {
		e.horizon = o.Forget.UTC().Format(dayLayout)
	}
	// An interrupted delivery that cannot be finished does not hold up other mail.
	if _, err := r.w.Recover(ctx); err != nil && ctx.Err() == nil {
		e.problem("state/outgoing", err)
	}
	if err = e.run(ctx); err != nil {
		broken := git.RemoveBrokenRefs(r.w.Root(), gitName)
		for _, path := range broken {
			e.problem(path, errors.New("it held the name of no commit, as after a power failure; it is made again"))
		}
		if len(broken) > 0 {
			err = e.run(ctx)
		}
	}
	if err == nil {
		err = reportOld(ctx, e)
	}
	if err == nil && !o.DryRun {
		err = r.noteSync(e.now)
	}
	if err == nil && e.block != nil {
		err = e.block
	}
	if remote, ok := errors.AsType[*RemoteError](err); ok && remote.Refused && o.Squash {
		err = fmt.Errorf("replacing the history, with a forced push: %w", err)
	}
	return e.result, r.explain(ctx, err)
}

// begin takes the lock of the repository, with bounded patience, and waits until git has no locks there. It returns a function that releases
// the lock.
func (r *Repository) begin(ctx context.Context, o Options) (unlock func() error, err error) {
	ctx = o.untilEnd(ctx)
	dir, err := r.w.OpenStateFolder(stateFolder)
	if err != nil {
		return nil, err
	}
	lock, err := dir.NewLock("sync.lock")
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	announced := o.announce("another sync of this workspace")
	err = durable.TakeLock(ctx, lock, durable.Patience)
	announced()
	if err = errors.Join(err, dir.Close()); err != nil {
		return nil, fmt.Errorf("waiting for another sync: %w", err)
	}
	if err := r.clearLocks(ctx); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return lock.Unlock, nil
}

// clearLocks waits until git has no locks in the repository, and removes those of processes that died. A git that a
// killed sync started may still run for a moment.
func (r *Repository) clearLocks(ctx context.Context) error {
	for begun := time.Now(); time.Since(begun) < 2*git.LockAge; { // after that, git reports the lock
		_, young, err := git.RemoveStaleLocks(r.w.Root(), gitName, r.now())
		if len(young) == 0 || err != nil {
			return err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// exchange is one sync.
type exchange struct {
	*store
	*plan
	r     *Repository
	w     *replica.Workspace
	o     Options
	now   time.Time
	cache cache
	// baseID is the commit that was last agreed on, tipID the tip to commit on, and there the tip that the remote
	// has. Each is empty if there is none.
	baseID, tipID, there string
	// machines are the commits of the refs of machines, and ownRef is the ref of this machine.
	machines map[string]string
	ownRef   string
	// old is the tree of the branch of an earlier version, until its mail has moved; nil if there is none.
	old *view
	// late is the tree of that branch once its mail has moved, if the sync looks at it.
	late   *view
	result Result
	// block is the first error about a box that cannot be read or written.
	block *BlockedError
}

func (r *Repository) newExchange(ctx context.Context, o Options) *exchange {
	return &exchange{
		store: newStore(ctx, r.git), r: r, w: &replica.Workspace{Workspace: r.w, Return: o.Return}, o: o, cache: r.readCache(), now: r.now(),
	}
}

// run fetches and makes a round, and repeats both if the remote refuses the push: another machine may have been faster.
func (e *exchange) run(ctx context.Context) error {
	const mostRefusals = 3
	for refusals := 1; ; refusals++ {
		if err := e.fetch(ctx); err != nil {
			return err
		}
		start := time.Now()
		refusal, err := e.round(ctx)
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

// open begins a plan: it reads the trees of the base, the tip and the machines' refs.
func (e *exchange) open(ctx context.Context) (err error) {
	e.failed, e.block, e.plan = nil, nil, newPlan()
	if e.base, err = e.view(e.baseID); git.Exit(err) == git.Fatal {
		e.base, err = e.view("") // its objects are missing; that loses only restores that were not synced
		e.cache.BoxesBase = ""
	}
	if err == nil {
		e.tip, err = e.view(e.tipID)
	}
	if err != nil {
		return err
	}
	if err := e.tip.checkFormat(); errors.Is(err, ErrForeignBranch) && e.baseID == "" {
		return fmt.Errorf("%s %w", e.r.settings.Name(), err)
	} else if err != nil && !errors.Is(err, ErrForeignBranch) {
		return err
	}
	for _, ref := range slices.Sorted(maps.Keys(e.machines)) {
		v, err := e.view(e.machines[ref])
		if err == nil && !(v.old && e.old != nil) {
			err = v.checkFormat()
		}
		own := ref == e.ownRef // this machine has what it pushed there
		switch {
		case err == nil:
			e.others = append(e.others, v)
		case own:
		case v != nil && v.old:
			e.blocked(fmt.Errorf("%s: an earlier version of oacp sent mail there, which does not arrive here: update its machine", ref))
		default: // it stays on the remote for the versions that can read it
			e.problem(ref, err)
		}
		e.cache.Seen[ref] = seen{Commit: e.machines[ref], Foreign: err != nil && !own}
	}
	if e.old != nil {
		e.others, e.unfolded = append(e.others, e.old), true
	}
	for _, v := range append(e.remote(), e.base) {
		e.horizon = max(e.horizon, horizonIn(v, e.now))
	}
	return cmp.Or(share(e), e.failed)
}

// round merges, applies and pushes once. It returns a refused push apart from other errors.
func (e *exchange) round(ctx context.Context) (refusal *RemoteError, err error) {
	e.r.step("fetched")
	e.result.Commit = e.baseID
	defer func() {
		if refusal != nil || err != nil { // nothing was sent
			e.result.Changes = slices.DeleteFunc(e.result.Changes, func(c history.Change) bool { return c.Direction == history.Out })
			e.result.Out = nil
		}
	}()
	if e.nothingNew() {
		return nil, nil
	}
	if err := e.open(ctx); err != nil {
		return nil, err
	}
	if err := e.makePlan(ctx); err != nil {
		return nil, err
	}
	commit, own := e.tipID, e.tipID != e.there
	for more := true; more; {
		if more = len(e.copies) > 0; !more {
			err = e.prune()
		}
		if err == nil {
			err = e.apply(ctx, !more)
		}
		for _, edit := range e.edits {
			own = own || edit.own
			if edit.own && edit.Kind != history.Pruned && edit.Kind != history.Status {
				e.result.add(edit.Change)
			}
		}
		if err == nil && !e.o.DryRun {
			commit, err = e.r.commit(ctx, commit, e.now, e.edits)
		}
		if more && err == nil {
			err = nextPiece(ctx, e, commit)
		}
		if err != nil {
			return nil, err
		}
	}
	if e.o.DryRun {
		e.result.Commit = e.tipID
		return nil, nil
	}
	e.r.step("committed")
	if err := e.record(ctx, commit); err != nil {
		return nil, err
	}
	e.r.step("settled")
	_, notShallow := e.w.Root().Lstat(gitName + "/shallow")
	shallow := notShallow == nil && e.there == "" // no remote takes a history whose beginning is missing here
	if commit != "" && (e.o.Squash || shallow) {
		if commit, err = e.squash(ctx, commit, shallow); err != nil {
			return nil, err
		}
		own = own || commit != e.baseID
	}
	if refusal, err = e.publish(ctx, commit, own); refusal != nil || err != nil {
		return refusal, errors.Join(err, e.writeCache(e.cache)) // the boxes agree with the base all the same
	}
	e.r.step("pushed")
	if err := e.record(ctx, commit); err != nil { // it is recorded already, unless it was squashed
		return nil, err
	}
	if err := errors.Join(leaveMarker(ctx, e), noteCarried(e, commit)); err != nil {
		return nil, err
	}
	return nil, e.keep()
}

// record makes a commit the base, because the workspace now has all that the commit has, whether or not the push
// succeeds. Before, it notes where the files are that could not move, and afterwards, it forgets the marks that the base says, too.
func (e *exchange) record(ctx context.Context, commit string) error {
	maps.DeleteFunc(e.scanned, func(agent schema.AgentName, _ replica.Memories) bool { return !e.w.Knows(agent) })
	e.result.Commit, e.cache.Boxes, e.cache.BoxesBase = commit, e.scanned, boxesKey(commit, e.r.settings)
	if commit == "" || commit == e.baseID {
		return settle(e)
	}
	if copies := e.waitingCopies(); !slices.Equal(copies, e.cache.Waiting) {
		after := e.cache
		after.Waiting = copies
		if err := e.writeCache(after); err != nil {
			return err
		}
	}
	for c, place := range e.waiting {
		if place <= replica.Pending {
			continue
		}
		if _, err := mailbox.AddMarks(e.w.Workspace, c.Agent, map[string]facts.Mark{c.Name: {Facts: e.agreed[c.Agent][c.Name], Placed: place}}); err != nil {
			return err
		}
	}
	e.r.step("noted")
	e.baseID = commit
	if err := e.r.git.UpdateRefs(ctx, map[string]string{baseRef: commit, e.r.settings.branchRef(): commit}); err != nil {
		return err
	}
	e.r.step("recorded")
	return settle(e)
}

// settle replaces the marks that were read by fewer ones.
func settle(e *exchange) error {
	for agent, files := range e.read {
		if err := e.w.Settle(agent, files, e.agreed[agent], e.waiting); err != nil {
			return err
		}
	}
	return nil
}

// noteCarried notes which of the sent messages have reached the remote. Without a remote, nobody waits.
func noteCarried(e *exchange, commit string) error {
	unsent, err := mailbox.Unsent(e.w.Workspace)
	if e.r.settings.URL == "" || err != nil || len(unsent) == 0 {
		if e.r.settings.URL != "" {
			err = errors.Join(err, mailbox.Carried(e.w.Workspace, nil))
		}
		return err
	}
	v, err := e.view(commit)
	if err != nil {
		return err
	}
	carried := slices.DeleteFunc(unsent, func(name string) bool {
		c := replica.Copy{Agent: replica.Sender(name), Name: name, Sent: true}
		place, _, _ := e.w.Look(c)
		return place != replica.Nowhere && !v.look(c).IsKnown()
	})
	return errors.Join(e.failed, mailbox.Carried(e.w.Workspace, carried))
}

// Maintain packs the repository if that is worthwhile, and removes the crash reports of fast-import. Syncs go on
// meanwhile.
func (r *Repository) Maintain(ctx context.Context) error {
	crashes, err := fs.Glob(r.w.Root().FS(), gitName+"/fast_import_crash_*")
	for _, name := range crashes {
		err = errors.Join(err, r.w.Root().Remove(name))
	}
	// Git estimates the number of loose objects by one of the 256 folders, too. Asking it would take another process.
	const longest, mostLoose, mostPacks = time.Hour, 27, 50
	loose, _ := fs.Glob(r.w.Root().FS(), gitName+"/objects/17/*")
	packs, _ := fs.Glob(r.w.Root().FS(), gitName+"/objects/pack/*.pack")
	if len(loose) <= mostLoose && len(packs) <= mostPacks {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	g := *r.git
	g.Config = append(slices.Clone(g.Config), "gc.auto=6700", "gc.autoPackLimit=50", "gc.autoDetach=false")
	// Unreachable objects belong to commits that lost a race.
	_, gcErr := g.Run(ctx, "gc", "--auto", "--quiet", "--prune=1.hour.ago")
	return errors.Join(err, gcErr)
}
