package track

import (
	"context"
	"slices"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// Node is a message of a conversation, and how far it got with each of its recipients.
type Node struct {
	conversation.Node
	Recipients []Progress
}

// Thread is conversation.Thread with the progress of each message. It reads the history of each
// agent once.
func Thread(ctx context.Context, w *mailbox.Workspace, id string) ([]Node, error) {
	thread, err := conversation.Thread(ctx, w, id)
	if len(thread) == 0 {
		return nil, err
	}
	answers := make(map[schema.ID][]mailbox.Entry)
	for _, m := range thread {
		if parent := m.Message.ParentID; parent != "" {
			answers[parent] = append(answers[parent], m.Entry)
		}
	}
	t := newTracker(w)
	t.unreadable, _ = mailbox.SplitUnreadable(err)
	nodes := make([]Node, len(thread))
	for i, m := range thread {
		progress, err := t.track(m.Message, m.Files, answers[m.Message.ID])
		if err != nil {
			return nil, err
		}
		nodes[i] = Node{m, progress}
	}
	return nodes, err
}

// urgency orders stages: what needs somebody comes first, then what is least far.
var urgency = []Stage{
	StageDead, StageUnknown, StageStored, StageHeld, StageExpired, StageWaiting, StageNoticed, StageWorking,
	StageDone, StageAnswered,
}

// Stage returns the stage of the message with the recipient that is least far; a dead letter is less
// far than anything.
func (n Node) Stage() Stage {
	least := slices.MinFunc(n.Recipients, func(a, b Progress) int {
		return slices.Index(urgency, a.Stage) - slices.Index(urgency, b.Stage)
	})
	return least.Stage
}

// Stages returns the stage of the message with each recipient.
func (n Node) Stages() map[schema.AgentName]Stage {
	stages := make(map[schema.AgentName]Stage, len(n.Recipients))
	for _, p := range n.Recipients {
		stages[p.Agent] = p.Stage
	}
	return stages
}
