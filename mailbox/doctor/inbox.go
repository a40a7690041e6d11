package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// unansweredAfter is how long a message may lie in an inbox before it counts as stale.
const unansweredAfter = 24 * time.Hour

// An inboxTrouble is something that can be wrong with a file in an inbox. Of any number of files
// with the same trouble, one finding tells: a neglected inbox has thousands.
type inboxTrouble struct {
	severity Severity
	has      func(i *inspection, e mailbox.Entry, now time.Time) bool
	// one says what is wrong with a file, and many with several of which e is the oldest.
	one, many func(e mailbox.Entry) string
	// hint and manyHint say what to do about one and about several.
	hint, manyHint func(e mailbox.Entry) string
}

// inboxTroubles are the troubles that are looked for, in this order: a file counts with the first
// that it has.
var inboxTroubles = []inboxTrouble{
	{
		severity: SeverityError,
		has:      func(_ *inspection, e mailbox.Entry, _ time.Time) bool { return e.Err != nil },
		one:      func(e mailbox.Entry) string { return fmt.Sprintf("cannot be read as a message: %v", e.Err) },
		many: func(e mailbox.Entry) string {
			return fmt.Sprintf("files cannot be read as messages, the oldest being %s: %v", e.Name, e.Err)
		},
		hint: BadFileHint, manyHint: BadFileHint,
	},
	{
		severity: SeverityWarning,
		has:      func(_ *inspection, e mailbox.Entry, now time.Time) bool { return e.Message.ExpiredAt(now) },
		one:      func(e mailbox.Entry) string { return fmt.Sprintf("expired at %s", e.Message.ExpiresAt) },
		many:     func(e mailbox.Entry) string { return fmt.Sprintf("messages have expired, the oldest being %s", e.Name) },
		hint: func(e mailbox.Entry) string {
			return visible.Shell("oacp", "ack", string(e.Message.ID), "--agent", string(e.Agent))
		},
		manyHint: func(e mailbox.Entry) string { return listHint(e) + " and marks them, oacp ack takes any number of ids" },
	},
	{
		severity: SeverityWarning,
		has:      func(_ *inspection, e mailbox.Entry, _ time.Time) bool { return !e.Message.IsFor(e.Agent) },
		one: func(e mailbox.Entry) string {
			return fmt.Sprintf("is addressed to %v, not to %s", e.Message.To, e.Agent)
		},
		many: func(e mailbox.Entry) string {
			return fmt.Sprintf("messages are not addressed to %s, the oldest being %s, to %v", e.Agent, e.Name, e.Message.To)
		},
		hint: listHint, manyHint: listHint,
	},
	{
		severity: SeverityWarning,
		has:      func(i *inspection, e mailbox.Entry, _ time.Time) bool { return !i.knows(e.Message.From) },
		one: func(e mailbox.Entry) string {
			return fmt.Sprintf("is from %q, which the workspace does not know", e.Message.From)
		},
		many: func(e mailbox.Entry) string {
			return fmt.Sprintf("messages are from senders that the workspace does not know, the oldest being %s, from %q", e.Name, e.Message.From)
		},
		hint: addHint, manyHint: addHint,
	},
	{
		severity: SeverityWarning,
		has: func(_ *inspection, e mailbox.Entry, now time.Time) bool {
			return now.Sub(e.Message.CreatedAt.Time()) > unansweredAfter
		},
		one: func(e mailbox.Entry) string { return fmt.Sprintf("has waited since %s", e.Message.CreatedAt) },
		many: func(e mailbox.Entry) string {
			return fmt.Sprintf("messages have waited for more than a day, the oldest being %s, since %s", e.Name, e.Message.CreatedAt)
		},
		hint: staleHint, manyHint: staleHint,
	},
}

// BadFileHint says how to deal with a file in an inbox that is no message, as commands for a shell.
func BadFileHint(e mailbox.Entry) string {
	name := []string{e.Name}
	if e.Name[0] == '-' {
		name = []string{"--", e.Name}
	}
	command := func(words ...string) string {
		return visible.Shell(slices.Concat([]string{"oacp"}, words, []string{"--agent", string(e.Agent)}, name)...)
	}
	return fmt.Sprintf("%s shows it, %s takes it out of the inbox (--archive keeps it)", command("read", "--raw"), command("ack"))
}

func listHint(e mailbox.Entry) string { return "oacp inbox --agent " + string(e.Agent) + " lists them" }

func addHint(e mailbox.Entry) string { return "oacp add-agent " + string(e.Message.From) }

func staleHint(e mailbox.Entry) string {
	return "is anybody reading this inbox? oacp inbox --agent " + string(e.Agent) + " lists it"
}

// inbox checks the messages that wait for an agent.
func (i *inspection) inbox(ctx context.Context, agent schema.AgentName) {
	i.category = "Inbox Health"
	entries, err := i.w.Inbox(ctx, agent)
	if err != nil {
		i.fail(string(agent), err)
		return
	}
	found := make([][]mailbox.Entry, len(inboxTroubles))
	now := i.now
	for _, e := range entries {
		for n, trouble := range inboxTroubles {
			if trouble.has(i, e, now) {
				found[n] = append(found[n], e)
				break
			}
		}
	}
	before := len(i.findings)
	for n, trouble := range inboxTroubles {
		i.trouble(trouble, found[n])
	}
	if len(i.findings) == before {
		i.add(string(agent), SeverityOK, "", "%d pending", len(entries))
	}
}

// trouble reports the files that have it.
func (i *inspection) trouble(trouble inboxTrouble, entries []mailbox.Entry) {
	if len(entries) == 0 {
		return
	}
	oldest := slices.MinFunc(entries, func(a, b mailbox.Entry) int { return since(a).Compare(since(b)) })
	inbox := mailbox.BoxName(oldest.Agent, mailbox.Inbox)
	if len(entries) == 1 {
		i.add(inbox+"/"+oldest.Name, trouble.severity, trouble.hint(oldest), "%s", trouble.one(oldest))
		return
	}
	i.add(inbox, trouble.severity, trouble.manyHint(oldest), "%d %s", len(entries), trouble.many(oldest))
}

// since is when the message was created, or when a bad file was last written.
func since(e mailbox.Entry) time.Time {
	if e.Message == nil {
		return e.Modified
	}
	return e.Message.CreatedAt.Time()
}

// knows is Workspace.Knows that looks once for each name.
func (i *inspection) knows(agent schema.AgentName) bool {
	known, looked := i.known[agent]
	if !looked {
		known = i.w.Knows(agent)
		if i.known == nil {
			i.known = make(map[schema.AgentName]bool)
		}
		i.known[agent] = known
	}
	return known
}
