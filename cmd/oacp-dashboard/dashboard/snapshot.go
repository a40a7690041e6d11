// Package dashboard tells how it stands with workspaces and runs: it gathers
// snapshots, at a cost that follows what has changed, and lays them out as
// frames of text. It prints nothing.
package dashboard

import (
	"slices"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/pair"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

// Snapshot is how it stood at one time.
type Snapshot struct {
	At         time.Time   `json:"at"`
	Workspaces []Workspace `json:"workspaces"`
	// Runs are the latest of each repository, by the time of their last step,
	// the latest first.
	Runs []Run `json:"runs"`
	// Problem says why runs are missing.
	Problem string `json:"problem,omitempty"`
}

// Workspace is how it stands in a workspace.
type Workspace struct {
	Dir     string  `json:"dir"`
	Project string  `json:"project,omitempty"`
	Agents  []Agent `json:"agents"`
	// Messages are the latest ones, the oldest of them first.
	Messages []Message `json:"messages"`
	// Problem says what could not be read.
	Problem string `json:"problem,omitempty"`
}

// Agent is how it stands with an agent.
type Agent struct {
	// Status was looked at lately: of an inbox that takes long to read it can
	// be older than the rest.
	turn.AgentStatus
	// Inbox counts the message files in the inbox, of whatever kind.
	Inbox int `json:"inbox"`
	// Activity is when something last came into the mailbox, left it, or had
	// a turn.
	Activity time.Time `json:"activity,omitzero"`
	// Problem says what of this could not be read.
	Problem string `json:"problem,omitempty"`
}

// Message is a message without its body.
type Message struct {
	ID             schema.ID             `json:"id"`
	From           schema.AgentName      `json:"from"`
	To             []schema.AgentName    `json:"to"`
	Type           schema.Type           `json:"type"`
	Priority       schema.Priority       `json:"priority"`
	CreatedAt      schema.Timestamp      `json:"created_at_utc"`
	Subject        string                `json:"subject"`
	ConversationID schema.ConversationID `json:"conversation_id,omitempty"`
	// Waiting are the agents that have it in their inbox.
	Waiting []schema.AgentName `json:"waiting,omitempty"`

	// written is when its file was: a second has room for many messages.
	written time.Time
	parent  schema.ID // what it answers
}

// Run is how it stands with a run of a pair.
type Run struct {
	ID            int        `json:"id"`
	RepositoryID  string     `json:"repository_id"`
	Repository    string     `json:"repository,omitempty"`
	Prompt        string     `json:"prompt"`
	State         pair.State `json:"state"`
	Iteration     int        `json:"iteration"`
	MaxIterations int        `json:"max_iterations"`
	Turn          pair.Agent `json:"turn,omitempty"` // whose turn it is
	// Driven tells whether a process drives the run. It is nil of a run that is
	// over, and where that cannot be told, as of one of AgentPair's own.
	Driven  *bool         `json:"driven,omitempty"`
	Updated time.Time     `json:"updated"`
	Error   string        `json:"error,omitempty"` // why the run failed
	Bridge  bridge.Status `json:"bridge"`
	// CostUSD and Tokens add up what the agents told of their turns, also of
	// those that failed. UnpricedTokens are those of turns that no cost is known
	// of: codex tells none.
	CostUSD        float64 `json:"cost_usd"`
	Tokens         int64   `json:"tokens"`
	UnpricedTokens int64   `json:"unpriced_tokens"`
	// Problem says what of this could not be read.
	Problem string `json:"problem,omitempty"`

	place bridge.Run
}

// messages returns the messages of all workspaces, or those of one agent, the oldest first.
func (s Snapshot) messages(of target) []Message {
	var all []Message
	for _, w := range s.Workspaces {
		for _, m := range w.Messages {
			if of == (target{}) || of.folder == w.Dir && (m.From == of.agent || slices.Contains(m.To, of.agent)) {
				all = append(all, m)
			}
		}
	}
	if len(s.Workspaces) > 1 {
		sortMessages(all)
	}
	return all
}

// run returns the run in a folder.
func (s Snapshot) run(folder string) (Run, bool) {
	i := slices.IndexFunc(s.Runs, func(r Run) bool { return r.place.Folder == folder })
	if i < 0 || folder == "" {
		return Run{}, false
	}
	return s.Runs[i], true
}
