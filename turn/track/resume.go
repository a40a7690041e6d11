package track

import (
	"context"
	"fmt"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Resume lets a conversation go on that had as many turns as are allowed: its turns count from zero
// again, and so do those of the agents in it within the hour. It tells the Runners of the given
// agents, or of all agents that had turns in the conversation, and returns these agents; it is an
// error if there are none. A Runner at work notices within about a second.
func Resume(ctx context.Context, w *mailbox.Workspace, conversation schema.ConversationID, agents ...schema.AgentName) (resumed []schema.AgentName, err error) {
	if _, err := schema.ParseConversationID(conversation); err != nil {
		return nil, err
	}
	for _, name := range agents {
		if err := w.CheckAgent(name); err != nil {
			return nil, err
		}
	}
	if len(agents) == 0 {
		if agents, err = w.Agents(); err != nil {
			return nil, err
		}
	}
	for _, name := range agents {
		if err := context.Cause(ctx); err != nil {
			return resumed, err
		}
		h, err := ReadHistory(w, name)
		if err != nil {
			return resumed, err
		}
		there := h.Conversations[conversation]
		if there == nil {
			continue
		}
		facts := []Fact{{Kind: Resumed, Envelope: Envelope{Conversation: conversation}}}
		if there.With != "" {
			facts = append(facts, Fact{Kind: Resumed, Envelope: Envelope{From: there.With}})
		}
		if err := appendFacts(w, name, facts...); err != nil {
			return resumed, err
		}
		resumed = append(resumed, name)
	}
	if len(resumed) == 0 {
		return nil, fmt.Errorf("no agent has had turns in conversation %s", conversation)
	}
	return resumed, nil
}
