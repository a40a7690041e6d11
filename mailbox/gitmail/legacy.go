package gitmail

import (
	"context"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/history"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// Earlier versions deleted the inbox copy of a message that was handled, so a missing file meant handled in trees and
// in workspaces. The code below gives such messages files in the archive.

// isLegacy reports whether an earlier version of oacp made the tree.
func (v *view) isLegacy() bool { return v.root != "" && v.entry(formatName) == entry{} }

// upgrade makes a commit on a tip of an earlier version that adds archive copies of the messages that have only an outbox
// copy.
func (e *exchange) upgrade(ctx context.Context) (err error) {
	if !e.tip.isLegacy() {
		return e.failed
	}
	agents := e.tip.folder("agents")
	change := &edit{Change: history.Change{Kind: history.Described}, write: []git.File{{Path: formatName, Data: []byte(format)}}}
	for from := range agents {
		for sent := range e.tip.stages(schema.AgentName(from), "") {
			at := e.tip.look(sent)
			data, _ := e.tip.file(at.object)
			m, err := validate.Read(data)
			if !sent.Sent || err != nil || m.From != sent.Agent {
				continue
			}
			for _, to := range m.To {
				c := replica.Copy{Agent: to, Name: sent.Name}
				if e.tip.look(c).state.Stage == replica.Unknown && agents[string(to)].IsFolder() {
					change.write = append(change.write, git.File{Path: treePath(to, mailbox.Archive, sent.Name), Object: at.object})
				}
			}
		}
	}
	if e.failed != nil {
		return e.failed
	}
	if e.tipID, err = e.r.commit(ctx, e.tipID, e.now, []*edit{change}); err == nil {
		e.tip, err = e.view(e.tipID)
	}
	return err
}

// takeOver does the same for a workspace that was not shared before, or was shared by an earlier version.
func (e *exchange) takeOver() (err error) {
	if e.base.root != "" && !e.base.isLegacy() || e.failed != nil {
		return e.failed
	}
	const done = stateFolder + "/taken-over"
	if _, err := e.w.Root().Lstat(done); err != nil && !e.o.DryRun {
		if err := e.w.TakeOver(); err != nil {
			return err
		}
		if _, err := e.w.AddFile(done, nil); err != nil {
			return err
		}
	}
	e.base, err = e.view("")
	return err
}
