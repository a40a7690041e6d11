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

// events returns what happened to agents and messages, as the changed files show.
func (r *Repository) events(files []File) (found []history.Change) {
	// left has the places in inboxes of messages that left an archive or the dead letters. If one is there now, it was restored.
	left := make(map[schema.Location]bool)
	for _, f := range files {
		if at, ok := locate(f.Path); ok && f.Status == Removed && at.Box != mailbox.Outbox {
			at.Box = mailbox.Inbox
			left[at] = true
		}
	}
	for _, f := range files {
		at, ok := locate(f.Path)
		switch {
		case !ok || f.Status != Added:
		case at.Box == mailbox.Inbox && at.Name == ".gitkeep":
			found = append(found, history.Change{Kind: history.NewAgent, Agent: at.Agent})
		case !schema.IsMessageFile(at.Name):
		case at.Box == mailbox.Outbox:
			found = append(found, r.event(history.Sent, at))
		case at.Box == mailbox.Archive:
			found = append(found, r.event(history.Acknowledged, at))
		case at.Box == mailbox.DeadLetters:
			found = append(found, r.event(history.DeadLetter, at))
		case left[at]:
			found = append(found, r.event(history.Restored, at))
		}
	}
	slices.SortFunc(found, func(a, b history.Change) int { // by the age of the messages
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Agent, b.Agent))
	})
	return found
}

func (r *Repository) event(kind history.Kind, at schema.Location) history.Change {
	e := history.Change{Kind: kind, Agent: at.Agent}
	if parsed, err := schema.ParseFileName(at.Name); err == nil {
		e.From, e.Type = parsed.From, parsed.Type
	}
	entry := mailbox.Entry{Agent: at.Agent, Box: at.Box, Name: at.Name}
	if m, _, err := r.workspace.Read(entry); err == nil { // else, what the file name says is enough
		e.Describe(m)
	}
	return e
}

// mostLines is how many events a commit message lists.
const mostLines = 100

// text returns a commit message: a subject and, unless that says everything, a line for each event.
func (c Changes) text() string {
	subject := cmp.Or(history.Subject(c.Events), "workspace: "+spelling.Plural(len(c.Files), "file"))
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
