package gitmail

import (
	"cmp"
	"context"
	"time"
)

// grace is how long a sync may run after the context of SyncUntil has ended, so that it records what it
// delivered.
const grace = 2 * time.Second

// SyncUntil syncs. When the context ends, the sync neither waits for another one nor fetches any more, and
// gets two seconds to finish the rest.
func (r *Repository) SyncUntil(ctx context.Context, o Options) (Result, error) {
	o.until = ctx
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(grace, func() { cancel(context.Cause(ctx)) })
	})()
	return r.Sync(longer, o)
}

// untilEnd returns the context for what a sync waits for.
func (o Options) untilEnd(ctx context.Context) context.Context { return cmp.Or(o.until, ctx) }

// waitNotice is how long a sync waits for something before it says so.
const waitNotice = time.Second

// announce calls Waiting after a while, unless the function that it returns is called before.
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

// Every syncs at once and then at every interval, until the context ends, as SyncUntil does, and passes
// each outcome to report. It skips a sync if another process has just made one. The outcome of a sync that
// is running when the context ends is not reported.
func (r *Repository) Every(ctx context.Context, interval time.Duration, o Options, report func(Result, error)) {
	for ctx.Err() == nil {
		if !r.syncedSince(r.now().Add(-interval / 2)) {
			result, err := r.SyncUntil(ctx, o)
			if ctx.Err() != nil {
				return // the error says no more
			}
			report(result, err)
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

// syncedName is an empty file whose time is that at which the last successful sync began.
const syncedName = stateFolder + "/synced"

// LastSync returns when a sync last succeeded. If none did, the error matches fs.ErrNotExist.
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
