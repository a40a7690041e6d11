package gitmail

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/oacp-go/oacp/schema"
)

// Direction says whether a change came from other machines or goes to them.
type Direction string

// The directions.
const (
	In  Direction = "in"
	Out Direction = "out"
)

// Kind says what changed.
type Kind string

// The kinds of changes, in the order in which a commit names them.
const (
	Sent         Kind = "message"
	Acknowledged Kind = "acknowledged"
	DeadLetter   Kind = "dead_letter"
	Restored     Kind = "restored"
	NewAgent     Kind = "agent"
	RemovedAgent Kind = "removed_agent"
	Pruned       Kind = "pruned"
	Described    Kind = "workspace" // by workspace.json
)

var kinds = [...]Kind{Sent, Acknowledged, DeadLetter, Restored, NewAgent, RemovedAgent, Described, Pruned}

// Change is one thing that happened to a message or an agent, such as one that a sync carried.
type Change struct {
	// Direction is empty for a change that no sync carried.
	Direction Direction `json:"direction,omitempty"`
	Kind      Kind      `json:"kind"`
	// Agent is the agent whose mailbox changed: the sender of a message, or who acknowledged it.
	Agent schema.AgentName `json:"agent"`
	// ID and the following describe the message, as far as there is one.
	ID      schema.ID          `json:"message_id,omitempty"`
	From    schema.AgentName   `json:"from,omitempty"`
	To      []schema.AgentName `json:"to,omitempty"`
	Type    schema.Type        `json:"type,omitempty"`
	Subject string             `json:"subject,omitempty"`

	// at is when the message was made.
	at time.Time
}

// describe fills in what the message says.
func (c *Change) describe(m *schema.Message) {
	c.ID, c.From, c.To, c.Type, c.Subject, c.at = m.ID, m.From, m.To, m.Type, m.Subject, m.CreatedAt.Time()
}

// String describes the change in a line, such as: claude → codex: question "Which port?"
func (c Change) String() string {
	message := cmp.Or(clean(string(c.Type)), "message")
	if c.Subject != "" {
		message += ` "` + clean(c.Subject) + `"`
	}
	switch {
	case c.Kind == Sent && len(c.To) > 0:
		return fmt.Sprintf("%s → %s: %s", c.From, agentList(c.To), message)
	case c.Kind == NewAgent:
		return "new agent " + string(c.Agent)
	case c.Kind == RemovedAgent:
		return "agent " + string(c.Agent) + " removed"
	case c.Kind == Pruned:
		return "old mail pruned"
	case c.Kind == Described:
		return "workspace.json"
	case c.From != "" && c.From != c.Agent:
		message += " from " + string(c.From)
	}
	return fmt.Sprintf("%s %s %s", c.Agent, verbs[c.Kind].past, message)
}

// verbs say what agents did with messages, as in: codex gave up …, and: 2 given up by codex
var verbs = map[Kind]struct{ past, passive string }{
	Sent: {"sent", "sent"}, Acknowledged: {"acknowledged", "acknowledged"},
	DeadLetter: {"gave up", "given up"}, Restored: {"restored", "restored"},
}

// agentList lists agents, but not more than three.
func agentList(agents []schema.AgentName) (text string) {
	const most = 3
	for i, agent := range agents[:min(len(agents), most)] {
		text += strings.Repeat(", ", min(i, 1)) + string(agent)
	}
	if more := len(agents) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// clean returns a text for one line of a commit, at most 100 characters long.
func clean(text string) string {
	const most = 100
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || strings.ContainsRune("<>", r) {
			return ' '
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most-1]) + "…"
	}
	return text
}

// Subject says in one line what changed, such as: 3 messages from claude, codex; 2 acknowledged by codex
func Subject(changes []Change) string {
	var parts []string
	for _, kind := range kinds {
		var of []Change
		for _, c := range changes {
			if c.Kind == kind {
				of = append(of, c)
			}
		}
		switch {
		case len(of) == 1:
			parts = append(parts, of[0].String())
		case len(of) > 1:
			parts = append(parts, summary(kind, of))
		}
	}
	return strings.Join(parts, "; ")
}

// summary says how many changes of a kind there are, and of whom.
func summary(kind Kind, changes []Change) string {
	first, sameWay := changes[0], true
	var agents []schema.AgentName
	for _, c := range changes {
		agents = append(agents, c.Agent)
		sameWay = sameWay && c.From == first.From && slices.Equal(c.To, first.To)
	}
	slices.Sort(agents)
	of := agentList(slices.Compact(agents))
	switch kind {
	case Sent:
		if sameWay && len(first.To) > 0 {
			return fmt.Sprintf("%s → %s: %d messages", first.From, agentList(first.To), len(changes))
		}
		return fmt.Sprintf("%d messages from %s", len(changes), of)
	case NewAgent:
		return "new agents " + of
	case RemovedAgent:
		return "agents removed: " + of
	case Described, Pruned:
		return first.String()
	}
	return fmt.Sprintf("%d %s by %s", len(changes), verbs[kind].passive, of)
}
