package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// staleAfter is how long a message may be pending before it is reported.
const staleAfter = 24 * time.Hour

// An inboxTrouble is something that can be wrong with a file in an inbox. All files of an inbox
// with the same trouble make one finding, because a neglected inbox has thousands.
type inboxTrouble struct {
	severity Severity
	// many describes the problem of several files.
	many string
	// look describes the problem of a file and its remedy; the message is empty for a file without the
	// trouble.
	look func(i *inspection, e *mailbox.Entry) (message, hint string)
}

// inboxTroubles are the troubles to look for. A file counts with the first that it has.
var inboxTroubles = []inboxTrouble{
	{SeverityWarning, "files are held: they have no verified signature", func(_ *inspection, e *mailbox.Entry) (message, hint string) {
		if !e.IsHeld() {
			return "", ""
		}
		return "is held: " + e.Err.Error(), BadFileHint(*e)
	}},
	{SeverityError, "files cannot be read as messages", func(_ *inspection, e *mailbox.Entry) (message, hint string) {
		if e.Err == nil {
			return "", ""
		}
		return fmt.Sprintf("cannot be read as a message: %v", e.Err), BadFileHint(*e)
	}},
	{SeverityWarning, "messages have expired", func(i *inspection, e *mailbox.Entry) (message, hint string) {
		if !e.Message.ExpiredAt(i.Now) {
			return "", ""
		}
		return fmt.Sprintf("expired at %s", e.Message.ExpiresAt), listHint(e) + " and marks them; oacp ack takes several ids"
	}},
	{SeverityWarning, "messages are not addressed to the owner of the inbox", func(_ *inspection, e *mailbox.Entry) (message, hint string) {
		if e.Message.IsFor(e.Agent) {
			return "", ""
		}
		return fmt.Sprintf("is addressed to %v, not to %s", e.Message.To, e.Agent), listHint(e)
	}},
	{SeverityWarning, "messages are from senders that the workspace does not know", func(i *inspection, e *mailbox.Entry) (message, hint string) {
		if slices.Contains(i.agents, e.Message.From) {
			return "", ""
		}
		return fmt.Sprintf("is from %q, which the workspace does not know", e.Message.From), visible.Shell("oacp", "add-agent", string(e.Message.From))
	}},
}

// BadFileHint says how to deal with a file in an inbox that is not a message, or that is held, as shell commands.
func BadFileHint(e mailbox.Entry) string {
	name := []string{e.Name}
	if e.Name[0] == '-' {
		name = []string{"--", e.Name}
	}
	command := func(words ...string) string {
		return visible.Shell(slices.Concat([]string{"oacp"}, words, []string{"--agent", string(e.Agent)}, name)...)
	}
	if e.IsHeld() {
		return fmt.Sprintf("oacp trust import FILE --agent %s trusts its sender's key; %s moves the file to the archive", e.Agent, command("ack"))
	}
	return fmt.Sprintf("%s shows it, %s moves it to the archive", command("read", "--raw"), command("ack"))
}

func listHint(e *mailbox.Entry) string {
	return visible.Shell("oacp", "inbox", "--agent", string(e.Agent)) + " lists the inbox"
}

// inbox checks an agent's pending messages.
func (i *inspection) inbox(ctx context.Context, agent schema.AgentName) {
	i.category = categoryInbox
	name, box := string(agent)+"/"+string(mailbox.Inbox), schema.BoxPath(agent, mailbox.Inbox)
	if _, err := i.w.Root().Lstat(box); errors.Is(err, fs.ErrNotExist) {
		if agent == mailbox.Postmaster {
			return // it only sends
		}
		f := i.add(name, SeverityWarning, "oacp doctor --fix makes it", "is missing")
		f.Mend = mend("made "+box, func() error { return i.w.MakeFolder(box) })
		return
	}
	entries, err := i.w.Inbox(ctx, agent)
	if err != nil {
		i.fail(name, err)
		return
	}
	if len(entries) == 0 {
		i.add(name, SeverityOK, "", "empty")
		return
	}
	oldest := slices.MinFunc(entries, func(a, b mailbox.Entry) int { return since(&a).Compare(since(&b)) })
	if i.Now.Sub(since(&oldest)) > staleAfter {
		i.add(name, SeverityWarning, "is the agent running? "+listHint(&oldest), "%d pending; the oldest, %s, is stale: pending since %s",
			len(entries), oldest.Name, schema.NewTimestamp(since(&oldest)))
	} else {
		i.add(name, SeverityOK, "", "%d pending", len(entries))
	}
	found := make([][]*mailbox.Entry, len(inboxTroubles))
	for k := range entries {
		n := slices.IndexFunc(inboxTroubles, func(t inboxTrouble) bool {
			message, _ := t.look(i, &entries[k])
			return message != ""
		})
		if n >= 0 {
			found[n] = append(found[n], &entries[k])
		}
	}
	for n, trouble := range inboxTroubles {
		i.trouble(trouble, found[n])
	}
}

// trouble reports the files that have it, and names the oldest one.
func (i *inspection) trouble(trouble inboxTrouble, entries []*mailbox.Entry) {
	if len(entries) == 0 {
		return
	}
	oldest := slices.MinFunc(entries, func(a, b *mailbox.Entry) int { return since(a).Compare(since(b)) })
	inbox := schema.BoxPath(oldest.Agent, mailbox.Inbox)
	message, hint := trouble.look(i, oldest)
	if len(entries) == 1 {
		i.add(inbox+"/"+oldest.Name, trouble.severity, hint, "%s", message)
		return
	}
	i.add(inbox, trouble.severity, hint, "%d %s; the oldest, %s, %s", len(entries), trouble.many, oldest.Name, message)
}

// since returns when the message was created, or when a file that is not a message was written.
func since(e *mailbox.Entry) time.Time {
	if e.Err != nil {
		return e.Modified
	}
	return e.Message.CreatedAt.Time()
}
