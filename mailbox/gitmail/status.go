package gitmail

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox/history"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// statusPath returns the path of an agent's status file in trees. Earlier versions ignore and keep names that begin with
// a dot.
func statusPath(agent schema.AgentName) string { return schema.AgentPath(agent, ".status") }

// later returns the status file that was written later; of two of the same time, that with the greater bytes, so all
// machines agree. One that is not valid, which includes none, is the earliest.
func later(a, b []byte) []byte {
	if cmp.Or(project.UpdatedAt(a).Compare(project.UpdatedAt(b)), bytes.Compare(a, b)) < 0 {
		return b
	}
	return a
}

// status returns the status file of an agent in a tree, or nil if there is no valid one.
func (v *view) status(agent schema.AgentName) []byte {
	at := v.entry(statusPath(agent))
	if !at.IsFile() || v.failed != nil {
		return nil
	}
	data, err := v.file(at.Object)
	if err != nil || project.UpdatedAt(data).IsZero() {
		return nil
	}
	return data
}

// localStatus returns the status file of an agent in the workspace, or nil if there is no valid one. It reports whether
// a sync may replace it: a file that is not valid stays as it is.
func (e *exchange) localStatus(agent schema.AgentName) (data []byte, mayReplace bool) {
	data, err := durable.ReadFile(e.w.Root(), e.w.Dir(), schema.AgentPath(agent, project.StatusName), project.MaxStatus)
	if err != nil || project.UpdatedAt(data).IsZero() {
		return nil, errors.Is(err, fs.ErrNotExist)
	}
	return data, true
}

// planStatus plans the status file of an agent, which is not a message: the latest one wins, and there is no history.
func (e *exchange) planStatus(agent schema.AgentName) {
	here, mayReplace := e.localStatus(agent)
	if here != nil && (!e.w.Knows(agent) || e.isUnasked(agent)) {
		here = nil
	}
	tip := e.tip.status(agent)
	remote := tip
	for _, v := range e.others {
		remote = later(remote, v.status(agent))
	}
	result := later(here, remote)
	if own := !bytes.Equal(result, remote); !bytes.Equal(result, tip) {
		e.edits = append(e.edits, &edit{
			Change: history.Change{Direction: history.Out, Kind: history.Status, Agent: agent}, own: own,
			write: []git.File{{Path: statusPath(agent), Data: result}},
		})
		e.unfolded = e.unfolded || !own
	}
	if mayReplace && !bytes.Equal(result, here) {
		e.statuses[agent] = result
		delete(e.stamps, agent)
	}
}

// applyStatuses writes the status files that the workspace lacks. An error is only noted: they are no mail.
func (e *exchange) applyStatuses() {
	for agent, status := range e.statuses {
		here, mayReplace := e.localStatus(agent) // the agent may have written it meanwhile
		if e.o.DryRun || !mayReplace || !e.w.Knows(agent) || bytes.Equal(later(here, status), here) {
			continue
		}
		name := schema.AgentPath(agent, project.StatusName)
		if err := durable.ReplaceFile(e.w.Root(), e.w.Dir(), name, status, 0o644); err != nil {
			e.problem(name, err)
		}
	}
}
