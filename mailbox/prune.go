package mailbox

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// retainSuffix ends the name of a file beside a message. Prune keeps such a message.
const retainSuffix = ".retain"

// Pruned counts what Prune removed, or would remove.
type Pruned struct {
	// Messages are files in archives and dead letters, and Copies those in outboxes.
	Messages int `json:"messages"`
	Copies   int `json:"copies"`
}

// Prunable returns the filter of file names for Prune. It accepts a message that was created before the time, unless an
// inbox has it, it is on the way to one, or a file retains it.
func (w *Workspace) Prunable(ctx context.Context, before time.Time) (func(name string) bool, error) {
	agents, err := w.Agents()
	if err != nil {
		return nil, err
	}
	queued, err := w.Staged()
	if err != nil {
		return nil, err
	}
	isQueued := func(at time.Time) bool {
		return slices.ContainsFunc(queued, func(id schema.ID) bool {
			parts, err := schema.ParseID(id)
			return err == nil && isSameMinute(parts.At, at)
		})
	}
	spared := make(map[string]bool)
	for _, agent := range agents {
		pending, err := w.Inbox(ctx, agent)
		if err != nil {
			return nil, err
		}
		for _, e := range pending {
			spared[e.Name] = true
			if e.Message != nil {
				long, _ := e.Message.LongFileName() // empty for an invalid id
				spared[long], spared[e.Message.FileName()], spared[string(e.Message.ID)+schema.FileExtension] = true, true, true
			}
		}
		for _, box := range []Box{Archive, DeadLetters, Outbox} {
			names, err := (folder{w, agent, box}).names()
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				if kept, ok := strings.CutSuffix(name, retainSuffix); ok {
					spared[kept] = true
				}
			}
		}
	}
	return func(name string) bool {
		at, ok := createdAt(name)
		return ok && at.Before(before) && !spared[name] && !spared[withoutNumber(name)] && !isQueued(at)
	}, nil
}

// createdAt returns the time that a file name tells: the name of a copy, or the id of a dead letter that never was in the
// inbox. Either may have a number, because the name was taken.
func createdAt(name string) (time.Time, bool) {
	for _, name := range []string{name, withoutNumber(name)} {
		if parsed, err := schema.ParseFileName(name); err == nil {
			return parsed.At, true
		}
		if parts, err := schema.ParseID(schema.ID(strings.TrimSuffix(name, schema.FileExtension))); err == nil {
			return parts.At, true
		}
	}
	return time.Time{}, false
}

// withoutNumber returns a file name without the number that move appends.
func withoutNumber(name string) string {
	stem := strings.TrimSuffix(name, schema.FileExtension)
	end := max(strings.LastIndexByte(stem, '-'), 0)
	if n, err := strconv.Atoi(strings.TrimPrefix(stem[end:], "-")); err != nil || n < 2 || n > mostOfOneName {
		return name
	}
	return stem[:end] + schema.FileExtension
}

// Prune removes messages that were handled or given up, and outbox copies, if the filter may accepts their names, and
// what Sweep removes. With dryRun, it only counts the messages.
func (w *Workspace) Prune(ctx context.Context, may func(name string) bool, dryRun bool) (p Pruned, err error) {
	agents, err := w.Agents()
	if !dryRun { // a crash must not bring back a staged copy without the one that shows that it was handled
		_, sweepErr := Sweep(ctx, w, false)
		err = errors.Join(err, sweepErr, ignoreMissing(syncFolder(w, outgoingName)))
	}
	if err != nil {
		return p, err
	}
	for _, agent := range agents {
		for _, box := range []Box{Archive, DeadLetters, Outbox} {
			n, pruneErr := (folder{w, agent, box}).prune(ctx, may, dryRun)
			err = errors.Join(err, pruneErr)
			if box == Outbox {
				p.Copies += n
			} else {
				p.Messages += n
			}
		}
	}
	return p, err
}

// prune removes the messages that the filter accepts, with their reasons, and counts them.
func (f folder) prune(ctx context.Context, may func(name string) bool, dryRun bool) (pruned int, err error) {
	dir, err := f.open()
	if err != nil {
		return 0, ignoreMissing(err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	names, err := dir.Names()
	for _, name := range names {
		if ctx.Err() != nil {
			err = cmp.Or(err, context.Cause(ctx))
			break
		}
		if !schema.IsMessageFile(name) || !may(name) {
			continue
		}
		pruned++
		if dryRun {
			continue
		}
		_, takeErr := f.w.files.Take(dir, name)
		if f.box == DeadLetters && takeErr == nil {
			_, takeErr = f.w.files.Take(dir, name+ReasonSuffix)
		}
		err = errors.Join(err, takeErr)
	}
	if pruned > 0 && !dryRun {
		err = errors.Join(err, f.w.files.SyncDir(dir))
	}
	return pruned, err
}
