package gitmail

import (
	"bytes"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox/history"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// statusPath returns the path of an agent's status file in trees. Earlier versions ignore and keep names that begin with
// a dot.
func statusPath(agent schema.AgentName) string { return schema.AgentPath(agent, ".status") }

// status returns the status file of an agent in a tree, or nil if there is no valid one.
func (v *view) status(agent schema.AgentName) []byte {
	at := v.entry(statusPath(agent))
	if !at.IsFile() || v.failed != nil {
		return nil
	}
	data, err := v.file(at.Object)
	if err != nil || project.ParseStatus(data).At.IsZero() {
		return nil
	}
	return data
}

// planStatus plans the status file of an agent, which is not a message: the latest one wins, and there is no history.
func (e *exchange) planStatus(agent schema.AgentName) {
	here, mayReplace := project.Status(e.w.Workspace, agent)
	if here != nil && (!e.w.Knows(agent) || e.isUnasked(agent)) {
		here = nil
	}
	tip := e.tip.status(agent)
	remote := tip
	for _, v := range e.others {
		remote = project.LaterStatus(remote, v.status(agent))
	}
	result := project.LaterStatus(here, remote)
	if own := !bytes.Equal(result, remote); !bytes.Equal(result, tip) {
		e.edits = append(e.edits, &edit{
			Change: history.Change{Direction: history.Out, Kind: history.Status, Agent: agent}, own: own,
			write: []git.File{{Path: statusPath(agent), Data: result}},
		})
		e.unfolded = e.unfolded || !own
	}
	if mayReplace && !bytes.Equal(result, here) {
		e.statuses[agent] = result
		delete(e.scanned[agent], schema.AgentPath(agent, project.StatusName))
	}
}
