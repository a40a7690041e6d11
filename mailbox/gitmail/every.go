package gitmail

import (
	"context"
	"time"
)

// grace is how long a sync may run after the context of Every has ended, so that it records what it
// delivered.
const grace = 2 * time.Second

// Every syncs at once and then at every interval, until the context ends, and passes each outcome to
// report. It skips a sync if another process has just made one. A sync that is running when the context
// ends gets two more seconds, and its outcome is not reported.
func (r *Repository) Every(ctx context.Context, interval time.Duration, o Options, report func(Result, error)) {
	for ctx.Err() == nil {
		if !r.syncedSince(r.now().Add(-interval / 2)) {
			longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
			stop := context.AfterFunc(ctx, func() {
				time.AfterFunc(grace, func() { cancel(context.Cause(ctx)) })
			})
			result, err := r.Sync(longer, o)
			stop()
			cancel(nil)
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

// syncedName is an empty file that was last written when a sync succeeded.
const syncedName = stateFolder + "/synced"

// LastSync returns when a sync last succeeded. If none did, the error matches fs.ErrNotExist.
func (r *Repository) LastSync() (time.Time, error) {
	info, err := r.w.Root().Lstat(syncedName)
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// noteSync makes the present the time of the last sync.
func (r *Repository) noteSync() error {
	if _, err := r.w.AddFile(syncedName, nil); err != nil {
		return err
	}
	now := r.now()
	return r.w.Root().Chtimes(syncedName, now, now)
}
