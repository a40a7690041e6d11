package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/turn/track"
)

// An inboxCall is a call of inbox.
type inboxCall struct {
	*call
	all      bool
	selected selection
}

func newInboxCommand(s *command.Streams) *cli.Command {
	c := &inboxCall{call: newCall(s)}
	return &cli.Command{
		Name:      "inbox",
		Category:  command.CategoryMessages,
		Usage:     "list pending messages",
		ArgsUsage: "[PROJECT] [--agent AGENT | --all]",
		Description: `inbox sorts by priority, then by type, then by age. Requests come before other types,
and notifications and follow-ups come last. Files that are not valid messages follow at
the end, with the fields that could be decoded and the error; read and ack accept their
names. A message shows its stage unless it only waits; see oacp help status.

The other commands accept the short ids in the ID column.

EXAMPLES:
   oacp inbox --agent codex --type question --from claude
   oacp inbox my-project --all --json`,
		Flags: c.flagsWith(append([]cli.Flag{
			c.agentFlag("list the inbox of `AGENT` (default: $OACP_AGENT)"),
			&cli.BoolFlag{Name: "all", Usage: "list every agent's inbox", Destination: &c.all},
		}, c.selected.flags("only")...)...),
		Action: c.inProject(c.run),
	}
}

// A listing is the content of an agent's inbox, or why it cannot be listed.
type listing struct {
	agent   schema.AgentName
	entries []mailbox.Entry
	// total counts also the entries that --type and --from leave out.
	total int
	err   error
	// signatures has a finding for each entry.
	signatures []trust.Finding
	// progress says how far the agent got with each entry, by its name.
	progress map[string]track.Progress
}

func (c *inboxCall) run(w *mailbox.Workspace) error {
	if c.all && c.agent != "" {
		return failure.Usagef("--agent and --all are mutually exclusive")
	}
	defer lessGarbageCollection()()
	c.selected.warn(w, c.Streams)
	agents, err := c.listedAgents(w)
	if err != nil {
		return err
	}
	inboxes, err := c.listInboxes(w, agents)
	if err != nil {
		return err
	}
	var left []gitmail.LeftOut
	if c.all {
		left = leftOut(c.call, w)
	}
	if c.asJSON {
		return c.printJSON(w, inboxes, left)
	}
	if c.all && len(inboxes) == 0 {
		printNoAgents(c.Streams)
	}
	for i, inbox := range inboxes {
		if i > 0 {
			c.Printf("\n")
		}
		printInbox(inbox, c.Streams)
	}
	printLeftOut(c.call, left, true)
	return nil
}

func (c *inboxCall) listedAgents(w *mailbox.Workspace) ([]schema.AgentName, error) {
	if c.all {
		return w.Agents()
	}
	agent, err := c.views(c.agent)
	if errors.Is(err, project.ErrNoSender) {
		err = failure.WithHint(err, "use --agent AGENT or --all, or set OACP_AGENT")
	}
	return []schema.AgentName{agent}, err
}

func (c *inboxCall) listInboxes(w *mailbox.Workspace, agents []schema.AgentName) ([]listing, error) {
	inboxes := make([]listing, len(agents))
	checker := trust.NewChecker(w)
	for i, agent := range agents {
		entries, err := w.Inbox(c.ctx, agent)
		// With --all, an inbox that cannot be listed does not hide the others.
		if err != nil && (!c.all || context.Cause(c.ctx) != nil) {
			return nil, err
		}
		total := len(entries)
		if !c.selected.isEmpty() { // nothing that a held file says is shown
			entries = slices.DeleteFunc(entries, func(e mailbox.Entry) bool {
				return e.Message == nil || e.IsHeld() || !c.selected.matches(e.Message)
			})
		}
		progress, progressErr := track.InInbox(c.ctx, w, agent, entries)
		if progressErr != nil {
			return nil, progressErr
		}
		inboxes[i] = listing{agent, entries, total, err, make([]trust.Finding, len(entries)), progress}
		mode, _ := trust.ModeOf(w, agent) // an error makes it trust.Enforce
		for k, e := range entries {
			inboxes[i].signatures[k] = checker.Check(e)
			if mode == trust.Off {
				inboxes[i].signatures[k].Status = ""
			}
		}
	}
	return inboxes, nil
}

func printNoAgents(s *command.Streams) {
	s.Printf("there are no agents yet; oacp add-agent NAME adds one\n")
}

func printInbox(inbox listing, s *command.Streams) {
	entries := inbox.entries
	bad := func(err error) string {
		return paint(s, red, "bad: "+visible.Line(failure.OneLine(err.Error())))
	}
	switch {
	case inbox.err != nil:
		s.Printf("%s: %s\n", inbox.agent, bad(inbox.err))
		return
	case inbox.total == 0:
		s.Printf("%s: nothing pending\n", inbox.agent)
		return
	}
	if len(entries) < inbox.total {
		s.Printf("%s: %d of %d pending\n", inbox.agent, len(entries), inbox.total)
	} else {
		s.Printf("%s: %d pending\n", inbox.agent, len(entries))
	}
	if len(entries) == 0 {
		return
	}
	t := newTable(s, row{"ID", "From", "Type", "Priority", "Subject", "Age", "Stage"})
	ids := shortIDs(entries)
	now := s.Now()
	for i, e := range entries {
		m := e.Message
		var marks []string
		if e.Err != nil {
			m, marks = command.Preview(&e), []string{bad(e.Err)}
			if e.IsHeld() {
				marks = []string{paint(s, yellow, "held: "+visible.Line(inbox.signatures[i].Reason))}
			}
			if e.Message == nil {
				m.Subject = e.Name
			}
		} else {
			marks = stageMarks(m, inbox.progress[e.Name], s)
		}
		if v := inbox.signatures[i].Verdict; v != "" && !e.IsHeld() {
			marks = append(marks, signatureText(s, v))
		}
		t.add(ids[i], visible.Line(string(m.From)), visible.Line(string(m.Type)), priorityText(s, m.Priority),
			subjectText(s, m.Subject), spelling.Age(m.Dated().Time(), now), strings.Join(marks, ", "))
	}
	t.print()
	// Bad files come last. One hint is enough for all of them.
	if last := entries[len(entries)-1]; last.Err != nil {
		s.Printf("hint: %s\n", visible.Line(doctor.BadFileHint(last)))
	}
}

// stageMarks returns the stage of a message unless it only waits, and when it expires.
func stageMarks(m *schema.Message, p track.Progress, s *command.Streams) (marks []string) {
	if more := p.Said(s.Now()); more != "" || p.Stage != track.StageWaiting {
		marks = append(marks, stageWord(p.Stage, s)+visible.Line(more))
	}
	if m.Arrived != "" {
		marks = append(marks, paint(s, yellow, "dated in the future: "+string(m.CreatedAt)))
	}
	if m.ExpiresAt != "" && p.Stage != track.StageExpired {
		marks = append(marks, paint(s, yellow, expiry(m, s.Now())))
	}
	if len(p.Replies) > 0 && p.Answer == "" && !p.Replies[0].AsksBack() {
		marks = append(marks, replyMark(false, false))
	}
	return marks
}

// signatureText returns a verdict on a signature for people.
func signatureText(s *command.Streams, v signing.Verdict) string {
	switch v {
	case signing.VerdictVerified:
		return paint(s, green, string(v))
	case signing.VerdictBad:
		return paint(s, red, "bad signature")
	}
	return paint(s, yellow, string(v))
}

// inboxJSON is an inbox in the JSON of the reference implementation, with more keys.
type inboxJSON struct {
	Agent schema.AgentName `json:"agent"`
	Inbox string           `json:"inbox_path"`
	Count int              `json:"message_count"`
	// VerifyMode is empty for trust.Off. PolicyError says why the agent's settings are ignored.
	VerifyMode  trust.Mode    `json:"verify_mode,omitempty"`
	PolicyError string        `json:"policy_error,omitempty"`
	Messages    []pendingJSON `json:"messages"`
	// LoadError says why the inbox cannot be listed.
	LoadError string `json:"load_error,omitempty"`
}

// pendingJSON is a pending message, or a file that is not one.
type pendingJSON struct {
	ID             schema.ID             `json:"id"`
	From           schema.AgentName      `json:"from"`
	Type           schema.Type           `json:"type"`
	Priority       schema.Priority       `json:"priority"`
	Subject        string                `json:"subject"`
	CreatedAt      schema.Timestamp      `json:"created_at_utc"`
	Age            string                `json:"age"`
	File           string                `json:"file"`
	Path           string                `json:"path"`
	ConversationID schema.ConversationID `json:"conversation_id,omitempty"`
	ExpiresAt      schema.Timestamp      `json:"expires_at,omitempty"`
	Expired        bool                  `json:"expired"`
	Reply          schema.ID             `json:"reply,omitempty"`
	Answered       bool                  `json:"answered,omitempty"`
	Stage          track.Stage           `json:"stage,omitempty"`
	Progress       string                `json:"progress,omitempty"`
	Verdict        signing.Verdict       `json:"signature,omitempty"`
	Reason         string                `json:"signature_reason,omitempty"`
	Auth           signing.Status        `json:"auth,omitempty"`
	Held           string                `json:"held,omitempty"`
	Error          string                `json:"error,omitempty"`
	LoadError      string                `json:"load_error,omitempty"`
}

func (c *inboxCall) printJSON(w *mailbox.Workspace, inboxes []listing, left []gitmail.LeftOut) error {
	answer := struct {
		envelope
		Mode    string            `json:"mode"`
		Agents  []inboxJSON       `json:"agents"`
		LeftOut []gitmail.LeftOut `json:"left_out,omitempty"`
	}{envelopeOf(w), "agent", []inboxJSON{}, left}
	if c.all {
		answer.Mode = "all"
	}
	for _, inbox := range inboxes {
		one := inboxJSON{Agent: inbox.agent, Inbox: w.BoxPath(inbox.agent, mailbox.Inbox), Count: len(inbox.entries), Messages: inbox.pending(c.Now())}
		if mode, err := trust.ModeOf(w, inbox.agent); mode != trust.Off {
			one.VerifyMode = mode
			if err != nil {
				one.PolicyError = failure.OneLine(err.Error())
			}
		}
		if inbox.err != nil {
			one.LoadError = failure.OneLine(inbox.err.Error())
		}
		answer.Agents = append(answer.Agents, one)
	}
	return command.WriteJSON(c.Out, answer)
}

// pending returns the entries, as JSON.
func (l *listing) pending(now time.Time) []pendingJSON {
	list := make([]pendingJSON, len(l.entries))
	for i, e := range l.entries {
		m, p, signature := e.Message, l.progress[e.Name], l.signatures[i]
		if e.Err != nil {
			m = command.Preview(&e)
		}
		list[i] = pendingJSON{
			ID: m.ID, From: m.From, Type: m.Type, Priority: m.Priority, Subject: m.Subject, CreatedAt: m.CreatedAt,
			Age: spelling.Age(m.Dated().Time(), now), File: e.Name, Path: e.Path, ConversationID: m.ConversationID,
			ExpiresAt: m.ExpiresAt, Expired: m.ExpiredAt(now), Stage: p.Stage, Progress: strings.TrimPrefix(p.Said(now), ", "),
			Verdict: signature.Verdict, Reason: signature.Reason, Auth: signature.Status,
		}
		for _, r := range p.Replies {
			list[i].Reply, list[i].Answered = r.ID, list[i].Answered || r.Answers
		}
		switch {
		case e.IsHeld():
			list[i].Held = e.Err.Error()
		case e.Err != nil && e.Message == nil:
			list[i].LoadError = e.Err.Error()
		case e.Err != nil:
			list[i].Error = e.Err.Error()
		}
	}
	return list
}
