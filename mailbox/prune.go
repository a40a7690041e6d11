package mailbox

import (
	"context"
	"errors"
	"slices"
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
	isQueued := func(name schema.FileName) bool {
		return slices.ContainsFunc(queued, func(id schema.ID) bool {
			parts, err := schema.ParseID(id)
			return err == nil && parts.Sender == name.From && isSameMinute(parts.At, name.At)
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
				spared[long], spared[e.Message.FileName()] = true, true
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
		parsed, err := schema.ParseFileName(name)
		return err == nil && parsed.At.Before(before) && !spared[name] && !isQueued(parsed)
	}, nil
}

// Prune removes messages that were handled or given up, and outbox copies, if the filter may accepts their names. With
// dryRun, it only counts them.
func (w *Workspace) Prune(ctx context.Context, may func(name string) bool, dryRun bool) (p Pruned, err error) {
	agents, err := w.Agents()
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
	names, err := f.names()
	for _, name := range names {
		if ctx.Err() != nil {
			return pruned, context.Cause(ctx)
		}
		if !schema.IsMessageFile(name) || !may(name) {
			continue
		}
		pruned++
		if dryRun {
			continue
		}
		path := schema.BoxPath(f.agent, f.box) + "/" + name
		removeErr := f.w.root.Remove(path)
		if f.box == DeadLetters && removeErr == nil {
			removeErr = f.w.root.Remove(path + ReasonSuffix)
		}
		err = errors.Join(err, ignoreMissing(removeErr))
	}
	return pruned, err
}
