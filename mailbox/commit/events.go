package commit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/history"
	"github.com/oacp-go/oacp/schema"
)

// A copyOf is a file of a mailbox, whatever its folder.
type copyOf struct {
	agent schema.AgentName
	name  string
}

// events says what the changed files mean.
func (r *Repository) events(files []File) []history.Change {
	in := make(map[mailbox.Box]map[copyOf]Status)
	for _, box := range schema.Boxes() {
		in[box] = make(map[copyOf]Status)
	}
	var found []history.Change
	for _, f := range files {
		at, ok := locate(f.Path)
		switch {
		case !ok:
		case schema.IsMessageFile(at.Name):
			in[at.Box][copyOf{at.Agent, at.Name}] = f.Status
		case at.Box == mailbox.Inbox && at.Name == ".gitkeep" && f.Status == Added:
			found = append(found, history.Change{Kind: history.NewAgent, Agent: at.Agent})
		}
	}
	sent := make(map[schema.ID]bool)
	for at, status := range in[mailbox.Outbox] {
		if status == Added {
			e := r.event(history.Sent, at, mailbox.Outbox)
			found, sent[e.ID] = append(found, e), true
		}
	}
	for at, status := range in[mailbox.Inbox] {
		switch {
		case status == Added:
			if e := r.event(history.Restored, at, mailbox.Inbox); !sent[e.ID] {
				found = append(found, e)
			}
		case status != Removed:
		case in[mailbox.Archive][at] == Added:
			found = append(found, r.event(history.Acknowledged, at, mailbox.Archive))
		case in[mailbox.DeadLetters][at] == Added:
			found = append(found, r.event(history.DeadLetter, at, mailbox.DeadLetters))
		default:
			found = append(found, r.event(history.Acknowledged, at, mailbox.Outbox))
		}
	}
	slices.SortFunc(found, func(a, b history.Change) int { // by the age of the messages
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Agent, b.Agent))
	})
	return found
}

// event returns the event of a message file, a copy of which is in the box: in that of the agent or,
// for the outbox, of the sender that the file name says.
func (r *Repository) event(kind history.Kind, at copyOf, box mailbox.Box) history.Change {
	e := history.Change{Kind: kind, Agent: at.agent}
	if parsed, err := schema.ParseFileName(at.name); err == nil {
		e.From, e.Type = parsed.From, parsed.Type
	}
	entry := mailbox.Entry{Agent: at.agent, Box: box, Name: at.name}
	if box == mailbox.Outbox && kind != history.Sent {
		entry.Agent = e.From
	}
	data, err := r.workspace.ReadRaw(entry)
	if err != nil {
		return e // the file name has to do
	}
	if m, err := r.workspace.Decode(entry, data); err == nil {
		e.ID, e.From, e.To, e.Type, e.Subject = m.ID, m.From, m.To, m.Type, m.Subject
	}
	return e
}

// mostLines is how many events a commit names.
const mostLines = 100

// Text returns the message of a commit: a subject and, if that does not say all, a line for each event.
func (c Changes) Text() string {
	subject := cmp.Or(history.Subject(c.Events), "workspace: "+spelling.Count(len(c.Files), "file"))
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
