package mailbox

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// retainSuffix ends the name of a file beside a message that keeps the message from being pruned.
const retainSuffix = ".retain"

// Pruned counts what Prune removed, or would remove.
type Pruned struct {
	// Messages are files in archives and dead letters, and Copies those in outboxes.
	Messages int `json:"messages"`
	Copies   int `json:"copies"`
}

// Prunable returns the names of messages that Prune may remove: those that were created before the time, which nobody
// has pending, and beside which no file retains them. It spares quarantined evidence, which only its owner can read.
func (w *Workspace) Prunable(ctx context.Context, before time.Time) (func(name string) bool, error) {
	agents, err := w.Agents()
	if err != nil {
		return nil, err
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
				long, _ := e.Message.LongFileName() // without one, the name stands
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
				if box != DeadLetters || !schema.IsMessageFile(name) {
					continue
				}
				if info, err := w.root.Lstat(schema.BoxPath(agent, box) + "/" + name); err == nil && info.Mode().Perm()&0o077 == 0 {
					spared[name] = true
				}
			}
		}
	}
	staged, _, err := w.Staged()
	return func(name string) bool {
		parsed, err := schema.ParseFileName(name)
		queued := slices.ContainsFunc(staged, func(id schema.ID) bool { return parsed.Rand != "" && strings.HasSuffix(string(id), "-"+parsed.Rand) })
		return err == nil && parsed.At.Before(before) && !spared[name] && !queued
	}, err
}

// Prune removes messages that were handled or given up, and their outbox copies, if they may go. With dryRun, it only
// counts them.
func (w *Workspace) Prune(ctx context.Context, may func(name string) bool, dryRun bool) (p Pruned, err error) {
	agents, err := w.Agents()
	if err != nil {
		return p, err
	}
	for _, agent := range agents {
		for _, box := range []Box{Archive, DeadLetters, Outbox} {
			in := folder{w, agent, box}
			names, err := in.names()
			if err != nil {
				return p, err
			}
			for _, name := range names {
				if err := context.Cause(ctx); err != nil {
					return p, err
				}
				if !schema.IsMessageFile(name) || !may(name) {
					continue
				}
				if box == Outbox {
					p.Copies++
				} else {
					p.Messages++
				}
				if !dryRun {
					err = errors.Join(err, in.prune(name))
				}
			}
			if err != nil {
				return p, err
			}
		}
	}
	return p, nil
}

// prune removes a message and its reason.
func (f folder) prune(name string) error {
	path := schema.BoxPath(f.agent, f.box) + "/" + name
	err := f.w.root.Remove(path)
	if f.box == DeadLetters && err == nil {
		err = f.w.root.Remove(path + ReasonSuffix)
	}
	return ignoreMissing(err)
}
