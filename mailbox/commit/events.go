package commit

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// A Kind says what happened.
type Kind string

// The kinds of events, in the order in which a commit names them.
const (
	Message      Kind = "message"
	Acknowledged Kind = "acknowledged"
	Archived     Kind = "archived"
	DeadLetter   Kind = "dead_letter"
	Restored     Kind = "restored"
	NewAgent     Kind = "agent"
)

var kinds = [...]Kind{Message, Acknowledged, Archived, DeadLetter, Restored, NewAgent}

// An Event is one thing that happened to a message or an agent.
type Event struct {
	Kind Kind `json:"kind"`
	// Agent is whose mailbox changed.
	Agent schema.AgentName `json:"agent"`
	// The rest is that of the message, as far as its file can be read.
	ID      schema.ID          `json:"message_id,omitempty"`
	From    schema.AgentName   `json:"from,omitempty"`
	To      []schema.AgentName `json:"to,omitempty"`
	Type    schema.Type        `json:"type,omitempty"`
	Subject string             `json:"subject,omitempty"`
}

// A copyOf is a file of a mailbox, whatever its folder.
type copyOf struct {
	agent schema.AgentName
	name  string
}

// events says what the changed files mean.
func (r *Repository) events(files []File) []Event {
	boxes := make(map[mailbox.Box]map[copyOf]Status)
	for _, box := range [...]mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.Archive, mailbox.DeadLetters} {
		boxes[box] = make(map[copyOf]Status)
	}
	var found []Event
	for _, f := range files {
		agent, box, name := inMailbox(f.Path)
		switch of := boxes[box]; {
		case of == nil:
		case schema.IsMessageFile(name):
			of[copyOf{agent, name}] = f.Status
		case box == mailbox.Inbox && name == ".gitkeep" && f.Status == Added:
			found = append(found, Event{Kind: NewAgent, Agent: agent})
		}
	}
	sent := make(map[schema.ID]bool)
	for at, status := range boxes[mailbox.Outbox] {
		if status == Added {
			e := r.event(Message, at, mailbox.Outbox)
			found, sent[e.ID] = append(found, e), true
		}
	}
	for at, status := range boxes[mailbox.Inbox] {
		switch {
		case status == Added:
			if e := r.event(Restored, at, mailbox.Inbox); !sent[e.ID] {
				found = append(found, e)
			}
		case status != Removed:
		case boxes[mailbox.Archive][at] == Added:
			found = append(found, r.event(Archived, at, mailbox.Archive))
		case boxes[mailbox.DeadLetters][at] == Added:
			found = append(found, r.event(DeadLetter, at, mailbox.DeadLetters))
		default:
			found = append(found, r.event(Acknowledged, at, mailbox.Outbox))
		}
	}
	slices.SortFunc(found, compare)
	return found
}

// compare orders events by kind, then by the age of the message, then by agent.
func compare(a, b Event) int {
	if n := slices.Index(kinds[:], a.Kind) - slices.Index(kinds[:], b.Kind); n != 0 {
		return n
	}
	if n := strings.Compare(string(a.ID), string(b.ID)); n != 0 {
		return n
	}
	return strings.Compare(string(a.Agent), string(b.Agent))
}

// event returns the event of a message file, a copy of which is in the box: in that of the agent or,
// for the outbox, of the sender that the file name says.
func (r *Repository) event(kind Kind, at copyOf, box mailbox.Box) Event {
	e := Event{Kind: kind, Agent: at.agent}
	if parsed, err := schema.ParseFileName(at.name); err == nil {
		e.From, e.Type = parsed.From, parsed.Type
	}
	entry := mailbox.Entry{Agent: at.agent, Box: box, Name: at.name}
	if box == mailbox.Outbox && kind != Message {
		entry.Agent = e.From
	}
	data, err := r.workspace.ReadRaw(entry)
	if err != nil {
		return e // the file name has to do
	}
	if m, err := validate.Read(data); err == nil {
		e.ID, e.From, e.To, e.Type, e.Subject = m.ID, m.From, m.To, m.Type, m.Subject
	}
	return e
}

// String says what happened, such as: claude → codex: task_request "Look at #42".
func (e Event) String() string {
	message := visible.Line(string(e.Type))
	if e.Type == "" {
		message = "a file"
	}
	if e.Subject != "" {
		message += ` "` + shortened(visible.Line(e.Subject), longestSubject) + `"`
	}
	from := ""
	if e.From != "" && e.From != e.Agent {
		from = " from " + string(e.From)
	}
	switch e.Kind {
	case Message:
		if len(e.To) == 0 {
			return fmt.Sprintf("%s: %s", e.Agent, message)
		}
		return fmt.Sprintf("%s → %s: %s", e.From, names(e.To), message)
	case Acknowledged:
		return fmt.Sprintf("%s acknowledged %s%s", e.Agent, message, from)
	case Archived:
		return fmt.Sprintf("%s archived %s%s", e.Agent, message, from)
	case DeadLetter:
		return fmt.Sprintf("%s gave up %s%s", e.Agent, message, from)
	case Restored:
		return fmt.Sprintf("%s has again %s%s", e.Agent, message, from)
	}
	return "new agent " + string(e.Agent)
}

const (
	// longestSubject is how many characters of a message's subject are shown.
	longestSubject = 60
	// mostNames and mostLines are how many agents and events are named.
	mostNames = 3
	mostLines = 100
)

// shortened returns the text, cut after so many characters.
func shortened(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// names lists agents.
func names(agents []schema.AgentName) string {
	var texts []string
	for _, agent := range agents[:min(len(agents), mostNames)] {
		texts = append(texts, string(agent))
	}
	list := strings.Join(texts, ", ")
	if more := len(agents) - mostNames; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// Text returns the message of a commit: a subject and, if that does not say all, a line for each event.
func (c Changes) Text() string {
	subject := c.Subject()
	if len(c.Events) == 0 || len(c.Events) == 1 && c.Events[0].String() == subject {
		return subject
	}
	var text strings.Builder
	text.WriteString(subject + "\n\n")
	for _, e := range c.Events[:min(len(c.Events), mostLines)] {
		text.WriteString(e.String() + "\n")
	}
	if more := len(c.Events) - mostLines; more > 0 {
		fmt.Fprintf(&text, "and %d more\n", more)
	}
	return text.String()
}

// Subject says in one line what is new.
func (c Changes) Subject() string {
	var parts []string
	for _, kind := range kinds {
		var of []Event
		for _, e := range c.Events {
			if e.Kind == kind {
				of = append(of, e)
			}
		}
		switch {
		case len(of) == 1:
			parts = append(parts, of[0].String())
		case len(of) > 1:
			parts = append(parts, summary(kind, of))
		}
	}
	if len(parts) == 0 {
		return "workspace: " + spelling.Count(len(c.Files), "file")
	}
	return strings.Join(parts, "; ")
}

// summary says how many events there are, and of whom.
func summary(kind Kind, events []Event) string {
	var senders, agents []schema.AgentName
	for _, e := range events {
		senders = append(senders, e.From)
		agents = append(agents, e.Agent)
	}
	distinct := func(list []schema.AgentName) string {
		slices.Sort(list)
		return names(slices.Compact(list))
	}
	switch kind {
	case Message:
		same := func(e Event) bool {
			return e.From == events[0].From && slices.Equal(e.To, events[0].To) && len(e.To) > 0
		}
		if !slices.ContainsFunc(events, func(e Event) bool { return !same(e) }) {
			return fmt.Sprintf("%s → %s: %d messages", events[0].From, names(events[0].To), len(events))
		}
		return fmt.Sprintf("%d messages from %s", len(events), distinct(senders))
	case Acknowledged:
		return fmt.Sprintf("%d acknowledged by %s", len(events), distinct(agents))
	case Archived:
		return fmt.Sprintf("%d archived by %s", len(events), distinct(agents))
	case DeadLetter:
		return fmt.Sprintf("%d given up by %s", len(events), distinct(agents))
	case Restored:
		return fmt.Sprintf("%d back in the inbox of %s", len(events), distinct(agents))
	}
	return "new agents " + distinct(agents)
}
