package gitmail

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// grace is how long a sync may run after the context of SyncUntil has ended, to record what it delivered.
const grace = 2 * time.Second

// SyncUntil is Sync with a gentle end: when the context ends, the sync stops waiting for another sync or for a fetch,
// and gets two seconds to finish the rest.
func (r *Repository) SyncUntil(ctx context.Context, o Options) (Result, error) {
	o.until = ctx
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(grace, func() { cancel(context.Cause(ctx)) })
	})()
	return r.Sync(longer, o)
}

// untilEnd returns the context for waiting.
func (o Options) untilEnd(ctx context.Context) context.Context { return cmp.Or(o.until, ctx) }

// waitNotice is how long a sync waits before it calls Waiting.
const waitNotice = time.Second

// announce calls Waiting after a while, unless the function that it returns is called earlier.
func (o Options) announce(what string) (done func()) {
	if o.Waiting == nil {
		return func() {}
	}
	ended := make(chan struct{})
	timer := time.AfterFunc(waitNotice, func() {
		defer close(ended)
		o.Waiting(what)
	})
	return func() {
		if !timer.Stop() {
			<-ended
		}
	}
}

// Every calls SyncUntil at once and then at every interval until the context ends, and passes each outcome to report. It
// skips a sync if another process has just made one. It does not report a sync that is running when the context ends.
// Meanwhile, Maintain runs if a sync had changes.
func (r *Repository) Every(ctx context.Context, interval time.Duration, o Options, report func(Result, error)) {
	var maintenance sync.WaitGroup
	defer maintenance.Wait()
	idle := make(chan struct{}, 1)
	idle <- struct{}{}
	maintain := func() {
		select {
		case <-idle:
			maintenance.Go(func() {
				_ = r.Maintain(ctx) // a failure does not affect the mail
				idle <- struct{}{}
			})
		default: // it is running
		}
	}
	for ctx.Err() == nil {
		if !r.syncedSince(r.now().Add(-interval / 2)) {
			result, err := r.SyncUntil(ctx, o)
			if ctx.Err() != nil {
				return // the error is only that of the context
			}
			report(result, err)
			if len(result.Changes) > 0 {
				maintain()
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

// syncedSince reports whether a sync has succeeded since then.
func (r *Repository) syncedSince(then time.Time) bool {
	last, err := r.LastSync()
	return err == nil && last.After(then) && !last.After(r.now())
}

// syncedName is an empty file whose time is when the last successful sync began.
const syncedName = stateFolder + "/synced"

// LastSync returns when the last successful sync began. If there was none, the error matches fs.ErrNotExist.
func (r *Repository) LastSync() (time.Time, error) {
	info, err := r.w.Root().Lstat(syncedName)
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// noteSync notes when a sync that succeeded began.
func (r *Repository) noteSync(begun time.Time) error {
	if _, err := r.w.AddFile(syncedName, nil); err != nil {
		return err
	}
	return r.w.Root().Chtimes(syncedName, begun, begun)
}
