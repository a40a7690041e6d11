// Package history says in a line what happened to messages and agents, for the subjects of commits and for people.
package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
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

// The kinds of changes.
const (
	Sent         Kind = "message"
	Acknowledged Kind = "acknowledged"
	DeadLetter   Kind = "dead_letter"
	Restored     Kind = "restored"
	NewAgent     Kind = "agent"
	RemovedAgent Kind = "removed_agent"
	Pruned       Kind = "pruned"
	Described    Kind = "workspace" // workspace.json
	Status       Kind = "status"    // status.yaml
)

// kinds are the kinds in the order in which a commit names them, with the texts for one change and for several.
var kinds = []struct {
	kind      Kind
	one, many string
}{
	{Sent, "sent", "%d messages from %s"},
	{Acknowledged, "acknowledged", "%d acknowledged by %s"},
	{DeadLetter, "gave up", "%d given up by %s"},
	{Restored, "restored", "%d restored by %s"},
	{NewAgent, "new agent", "new agents %[2]s"},
	{RemovedAgent, "removed agent", "removed agents %[2]s"},
	{Described, "workspace.json", ""},
	{Status, "status of", "status of %[2]s"},
	{Pruned, "old mail pruned", ""},
}

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

	// At is when the message was made, or when the agent acted.
	At time.Time `json:"-"`
}

// Describe fills in what the message says. It copies the strings, which would otherwise keep the whole file in memory.
func (c *Change) Describe(m *schema.Message) {
	c.ID, c.From, c.Type, c.Subject, c.At = own(m.ID), own(m.From), own(m.Type), own(m.Subject), m.CreatedAt.Time()
	c.To = slices.Clone(m.To)
	for i, to := range c.To {
		c.To[i] = own(to)
	}
}

func own[T ~string](text T) T { return T(strings.Clone(string(text))) }

// String describes the change in a line, such as: claude → codex: question "Which port?"
func (c Change) String() string {
	message := cmp.Or(clean(string(c.Type)), "message")
	if c.Subject != "" {
		message += ` "` + clean(c.Subject) + `"`
	}
	if c.Kind == Sent && len(c.To) > 0 {
		return fmt.Sprintf("%s → %s: %s", c.From, agentList(c.To), message)
	}
	text := ""
	for _, k := range kinds {
		if k.kind == c.Kind {
			text = k.one
		}
	}
	switch {
	case c.Kind == Described, c.Kind == Pruned:
		return text
	case c.Kind == NewAgent, c.Kind == RemovedAgent, c.Kind == Status:
		return text + " " + string(c.Agent)
	case c.From != "" && c.From != c.Agent:
		message += " from " + string(c.From)
	}
	return fmt.Sprintf("%s %s %s", c.Agent, text, message)
}

// agentList lists agents, but not more than three.
func agentList(agents []schema.AgentName) string {
	const most = 3
	if more := len(agents) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", spelling.Join(agents[:most]), more)
	}
	return spelling.Join(agents)
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
	return visible.Short(text, most)
}

// Subject says in one line what changed, such as: 3 messages from claude, codex; 2 acknowledged by codex
func Subject(changes []Change) string {
	var parts []string
	for _, k := range kinds {
		count, last, agents := 0, Change{}, []schema.AgentName(nil)
		for _, c := range changes {
			if c.Kind == k.kind {
				count, last, agents = count+1, c, append(agents, c.Agent)
			}
		}
		switch {
		case count == 1 || count > 0 && k.many == "":
			parts = append(parts, last.String())
		case count > 1:
			slices.Sort(agents)
			parts = append(parts, fmt.Sprintf(k.many, count, agentList(slices.Compact(agents))))
		}
	}
	return strings.Join(parts, "; ")
}
