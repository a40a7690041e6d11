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
func Resume(ctx context.Context, w *mailbox.Workspace, conversation schema.ConversationID, agents ...schema.AgentName) ([]schema.AgentName, error) {
	if _, err := schema.ParseConversationID(conversation); err != nil {
		return nil, err
	}
	for _, name := range agents {
		if err := w.CheckAgent(name); err != nil {
			return nil, err
		}
	}
	if len(agents) == 0 {
		all, err := w.Agents()
		if err != nil {
			return nil, err
		}
		agents = all
	}
	var resumedFor []schema.AgentName
	for _, name := range agents {
		if err := context.Cause(ctx); err != nil {
			return resumedFor, err
		}
		had, err := resume(w, name, conversation)
		if err != nil {
			return resumedFor, err
		}
		if had {
			resumedFor = append(resumedFor, name)
		}
	}
	if len(resumedFor) == 0 {
		return nil, fmt.Errorf("no agent has had turns in conversation %s", conversation)
	}
	return resumedFor, nil
}

// resume resumes the conversation for one agent, and reports whether it had turns there.
func resume(w *mailbox.Workspace, name schema.AgentName, conversation schema.ConversationID) (had bool, err error) {
	h, err := ReadHistory(w, name)
	if err != nil || h.Conversations[conversation] == nil {
		return false, err
	}
	facts := []Fact{{Kind: Resumed, Conversation: conversation}}
	if with := h.Conversations[conversation].With; with != "" {
		facts = append(facts, Fact{Kind: Resumed, From: with})
	}
	err = appendFacts(w, name, facts...)
	return err == nil, err
}
