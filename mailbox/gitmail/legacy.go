package gitmail

import (
	"context"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// Earlier versions deleted the inbox copy of a message that was handled, so a missing file said something, in trees and
// in workspaces. What follows gives handled messages the files that they lack.

// isLegacy reports whether an earlier version of oacp made the tree.
func (v *view) isLegacy() (bool, error) {
	if v.root == "" {
		return false, nil
	}
	at, err := v.entry(formatName)
	return at == entry{}, err
}

// upgrade makes a commit on a tip of an earlier version: an outbox copy alone says that the message was handled.
func (e *exchange) upgrade(ctx context.Context) error {
	legacy, err := e.tip.isLegacy()
	if err != nil || !legacy {
		return err
	}
	agents, err := e.tip.folder("agents")
	if err != nil {
		return err
	}
	change := &edit{Change: Change{Kind: Described}, write: []file{{path: formatName, data: []byte(format)}}}
	for from := range agents {
		stages, err := e.tip.stages(schema.AgentName(from), "")
		if err != nil {
			return err
		}
		for sent := range stages {
			if !sent.Sent {
				continue
			}
			if err := e.upgradeMessage(change, sent, agents); err != nil {
				return err
			}
		}
	}
	if e.tipID, err = e.r.commit(ctx, e.tipID, e.now, []*edit{change}); err == nil {
		e.tip, err = e.view(e.tipID)
	}
	return err
}

// upgradeMessage adds the archive copies of a message in an outbox.
func (e *exchange) upgradeMessage(change *edit, sent replica.Copy, agents map[string]entry) error {
	at, err := e.tip.look(sent)
	if err != nil {
		return err
	}
	data, err := e.tip.file(at.object)
	if err != nil && !isRefused(err) {
		return err
	}
	m, err := validate.Read(data)
	if err != nil || m.From != sent.Agent {
		return nil // no sync takes it
	}
	for _, to := range m.To {
		c := replica.Copy{Agent: to, Name: sent.Name}
		if h, err := e.tip.look(c); err != nil {
			return err
		} else if h.state.Stage == replica.Unknown && agents[string(to)].mode == folder {
			change.write = append(change.write, file{path: treePath(to, mailbox.Archive, sent.Name), object: at.object})
		}
	}
	return nil
}

// takeOver does the same for a workspace that was not shared yet, or was shared by an earlier version.
func (e *exchange) takeOver(ctx context.Context) error {
	legacy, err := e.base.isLegacy()
	if err != nil || e.base.root != "" && !legacy {
		return err
	}
	const done = stateFolder + "/taken-over"
	if _, err := e.w.Root().Lstat(done); err != nil && !e.o.DryRun {
		if err := e.w.TakeOver(ctx); err != nil {
			return err
		}
		if _, err := e.w.AddFile(done, nil); err != nil {
			return err
		}
	}
	e.base, err = e.view("")
	return err
}
