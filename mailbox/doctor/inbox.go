package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// staleAfter is how long a message may be pending before it is reported.
const staleAfter = 24 * time.Hour

// BadFileHint returns shell commands for a file in an inbox that is held or is not a message.
func BadFileHint(e mailbox.Entry) string {
	name := []string{e.Name}
	if e.Name[0] == '-' {
		name = []string{"--", e.Name}
	}
	command := func(words ...string) string {
		return visible.ShellCommand(slices.Concat([]string{"oacp"}, words, []string{"--agent", string(e.Agent)}, name)...)
	}
	if e.IsHeld() {
		held, _ := errors.AsType[*mailbox.HeldError](e.Err)
		return fmt.Sprintf("%s; %s moves the file to the archive", held.Remedy(), command("ack"))
	}
	return fmt.Sprintf("%s shows it, %s moves it to the archive", command("read", "--raw"), command("ack"))
}

// inbox checks an agent's pending messages.
func (i *inspection) inbox(ctx context.Context, agent schema.AgentName) {
	i.category = categoryInbox
	name := string(agent) + "/" + string(mailbox.Inbox)
	entries, err := i.w.Inbox(ctx, agent)
	if err != nil {
		i.fail(name, err)
		return
	}
	if len(entries) == 0 {
		i.add(name, SeverityOK, "", "empty")
		return
	}
	slices.SortStableFunc(entries, func(a, b mailbox.Entry) int { return since(&a).Compare(since(&b)) })
	if oldest := &entries[0]; i.Now.Sub(since(oldest)) > staleAfter {
		list := visible.ShellCommand("oacp", "inbox", "--agent", string(agent))
		i.add(name, SeverityWarning, "is the agent running? "+list+" lists the inbox", "%d pending; the oldest, %s, is stale: pending since %s",
			len(entries), oldest.Name, schema.NewTimestamp(since(oldest)))
	} else {
		i.add(name, SeverityOK, "", "%d pending", len(entries))
	}
	var held, bad []mailbox.Entry
	for _, e := range entries {
		switch {
		case e.IsHeld():
			held = append(held, e)
		case e.Err != nil:
			bad = append(bad, e)
		}
	}
	i.files(held, SeverityWarning, "is held")
	i.files(bad, SeverityError, "cannot be read as a message")
}

// files adds one finding for all files of an inbox with the same problem, because a neglected inbox may have
// thousands. It names the oldest file, which is the first.
func (i *inspection) files(entries []mailbox.Entry, severity Severity, problem string) {
	if len(entries) == 0 {
		return
	}
	oldest, inbox := entries[0], schema.BoxPath(entries[0].Agent, mailbox.Inbox)
	if len(entries) == 1 {
		i.add(inbox+"/"+oldest.Name, severity, BadFileHint(oldest), "%s: %v", problem, oldest.Err)
		return
	}
	i.add(inbox, severity, BadFileHint(oldest), "%d files: %s; the oldest, %s: %v", len(entries), problem, oldest.Name, oldest.Err)
}

// since returns when the message was created, or when a file that is not a message was written.
func since(e *mailbox.Entry) time.Time {
	if e.Err != nil {
		return e.Modified
	}
	return e.Message.CreatedAt.Time()
}
