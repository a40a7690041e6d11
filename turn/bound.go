package turn

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// boundKind says which bound it is.
type boundKind string

const (
	onConversation boundKind = "conversation"
	onPair         boundKind = "pair"
)

// tripped is a bound that keeps a message from getting a turn.
type tripped struct {
	// conversation is empty for the bound on a pair of agents.
	conversation schema.ConversationID
	sender       schema.AgentName
	// most is the bound on a pair of agents.
	most    int
	reason  string
	letGoOn string
	// noticed says that both sides have been sent, or are about to be sent, a
	// notice.
	noticed bool
	// until is when the bound lets go by itself, or zero.
	until time.Time
}

// checkBounds returns the bound that a turn on the message would exceed, or
// nil.
func (c *Config) checkBounds(h *history, m *envelope, now time.Time) *tripped {
	if m.Notice {
		return nil
	}
	if thread := h.conversations[m.Conversation]; thread != nil && c.MaxTurns > 0 && thread.Turns >= c.MaxTurns {
		return &tripped{
			conversation: m.Conversation, sender: m.From, noticed: thread.Bound,
			reason:  fmt.Sprintf("conversation %s has had %d turns, the most that are allowed", m.Conversation, thread.Turns),
			letGoOn: fmt.Sprintf("`oacp thread resume %s` lets the conversation go on.", m.Conversation),
		}
	}
	sender := h.senders[m.From]
	if sender == nil || c.MaxPairTurns < 0 {
		return nil
	}
	turns := sender.within(now)
	if len(turns) < c.MaxPairTurns {
		return nil
	}
	until := turns[len(turns)-c.MaxPairTurns].Add(pairWindow)
	return &tripped{
		sender: m.From, most: c.MaxPairTurns, noticed: sender.Bound, until: until,
		reason: fmt.Sprintf("messages from %s have had %d turns within an hour, the most that are allowed", m.From, c.MaxPairTurns),
		letGoOn: fmt.Sprintf("It goes on by itself at %s; `oacp thread resume %s` lets it go on now.",
			until.UTC().Format("15:04 UTC"), m.Conversation),
	}
}

func (t *tripped) kind() boundKind {
	if t.conversation != "" {
		return onConversation
	}
	return onPair
}

// about makes a fact about the bound.
func (t *tripped) about(kind factKind) fact {
	if t.kind() == onConversation {
		return fact{Kind: kind, Conversation: t.conversation}
	}
	return fact{Kind: kind, From: t.sender, Most: t.most}
}

// Resume lets a conversation go on that has had as many turns as are allowed:
// its turns, and those of the agents in it within the hour, count from zero
// again. It tells the Runners of the given agents, or of all agents that had
// turns in the conversation, and returns whose those are. Running ones notice
// within about a second. It is an error if there are none.
func Resume(ctx context.Context, w *mailbox.Workspace, conversation schema.ConversationID, agents ...schema.AgentName) ([]schema.AgentName, error) {
	if _, err := schema.ParseConversationID(conversation); err != nil {
		return nil, err
	}
	all, err := w.Agents()
	if err != nil {
		return nil, err
	}
	for _, name := range agents {
		if err := w.CheckAgent(name); err != nil {
			return nil, err
		}
	}
	var told []schema.AgentName
	for _, name := range all {
		if len(agents) > 0 && !slices.Contains(agents, name) {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return told, err
		}
		was, err := resume(w, name, conversation)
		if err != nil {
			return told, err
		}
		if was {
			told = append(told, name)
		}
	}
	if len(told) == 0 {
		return nil, fmt.Errorf("no agent has had turns in conversation %s", conversation)
	}
	return told, nil
}

// resume tells one agent's Runner, if the agent had turns in the conversation.
func resume(w *mailbox.Workspace, name schema.AgentName, conversation schema.ConversationID) (was bool, err error) {
	h, err := readHistory(w, name)
	if err != nil || h.conversations[conversation] == nil {
		return false, err
	}
	j, err := openJournal(w, name, time.Now)
	if err != nil {
		return false, err
	}
	err = j.append(fact{Kind: resumed, Conversation: conversation}, true)
	if with := h.conversations[conversation].With; err == nil && with != "" {
		err = j.append(fact{Kind: resumed, From: with}, true)
	}
	if closeErr := j.close(); err == nil {
		err = closeErr
	}
	return err == nil, err
}
