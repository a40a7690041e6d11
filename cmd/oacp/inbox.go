package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

func newInboxCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "inbox",
		Category:  command.CategoryMessages,
		Usage:     "list pending messages",
		ArgsUsage: "[PROJECT] [--agent AGENT | --all]",
		Description: `inbox sorts by priority, then requests before other messages and notifications and
follow-ups last, then by age. Files that are not valid messages come last, with the
fields that could be decoded and the error; read and ack accept their names.

The other commands accept the short ids in the ID column.

EXAMPLES:
   oacp inbox --agent codex
   oacp inbox my-project --all --json`,
		Flags: flagsWith(
			&cli.StringFlag{Name: "agent", Usage: "list the inbox of `AGENT` (default: $OACP_AGENT)"},
			&cli.BoolFlag{Name: "all", Usage: "list every agent's inbox"},
			&cli.BoolFlag{Name: "wait", Usage: "wait until a message is pending"},
			timeoutFlag(),
			&cli.StringFlag{Name: "from", Hidden: true}),
		Action: inProject(s, runInbox),
	}
}

// A listing is the content of an agent's inbox, or why it cannot be listed.
type listing struct {
	agent   schema.AgentName
	entries []mailbox.Entry
	err     error
	// signatures are what the signatures of the entries are worth.
	signatures []trust.Finding
	// replies are what the agent has sent in reply.
	replies map[schema.ID]conversation.Response
}

func runInbox(c *call, w *mailbox.Workspace) error {
	switch {
	case c.isSet("from"):
		return failure.Usagef("there is no flag --from").WithHint(
			"--agent names the owner of the inbox; oacp list --from and oacp next --from choose by sender")
	case c.isOn("all") && c.agent() != "":
		return failure.Usagef("--agent and --all are mutually exclusive")
	case c.isSet("timeout") && !c.isOn("wait"):
		return failure.Usagef("--timeout requires --wait")
	}
	limit, err := timeLimit(c.flags)
	if err != nil {
		return err
	}
	defer lessGarbageCollection()()
	agents, err := listedAgents(c, w)
	if err != nil {
		return err
	}
	if c.isOn("wait") && len(agents) > 0 {
		defer c.catchSignals()()
		_, err := awaitPending(c, w, agents, "message", watch.PendingOptions{Timeout: limit, Most: 1}, time.Now())
		if err != nil {
			return timeoutError(err, "no message came for "+joinNames(agents)+" within "+shortDuration(limit), "run it again to wait longer: it misses nothing in between")
		}
	}
	inboxes, err := listInboxes(c, w, agents)
	if err != nil {
		return err
	}
	if c.json() {
		return printInboxJSON(c, w, inboxes)
	}
	if c.isOn("all") && len(inboxes) == 0 {
		printNoAgents(c.Streams)
	}
	for i, inbox := range inboxes {
		if i > 0 {
			c.printf("\n")
		}
		printInbox(inbox, c.Streams)
	}
	return nil
}

func listedAgents(c *call, w *mailbox.Workspace) ([]schema.AgentName, error) {
	if c.isOn("all") {
		return w.Agents()
	}
	agent, err := command.AgentOf(w, c.text("agent"), c.Streams)
	if errors.Is(err, project.ErrNoSender) {
		err = failure.WithHint(err, "use --agent AGENT or --all, or set OACP_AGENT")
	}
	return []schema.AgentName{agent}, err
}

func listInboxes(c *call, w *mailbox.Workspace, agents []schema.AgentName) ([]listing, error) {
	inboxes := make([]listing, len(agents))
	checker := trust.NewChecker(w)
	for i, agent := range agents {
		entries, err := w.Inbox(c.ctx, agent)
		// With --all, an inbox that cannot be listed does not hide the others.
		if err != nil && (!c.isOn("all") || context.Cause(c.ctx) != nil) {
			return nil, err
		}
		inboxes[i] = listing{agent, entries, err, make([]trust.Finding, len(entries)), responses(c.ctx, w, agent, entries)}
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
	fmt.Fprintln(s.Out, "there are no agents yet; oacp add-agent NAME adds one")
}

func printInbox(inbox listing, s *command.Streams) {
	entries := inbox.entries
	bad := func(err error) string {
		return paint(s, red, "bad: "+visible.Line(failure.OneLine(err.Error())))
	}
	switch {
	case inbox.err != nil:
		fmt.Fprintf(s.Out, "%s: %s\n", inbox.agent, bad(inbox.err))
		return
	case len(entries) == 0:
		fmt.Fprintf(s.Out, "%s: nothing pending\n", inbox.agent)
		return
	}
	fmt.Fprintf(s.Out, "%s: %d pending\n", inbox.agent, len(entries))
	const subject, remark = 5, 7
	t := newTable(s, row{"ID", "From", "Type", "Priority", "Subject", "Age", ""}, subject, remark)
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
		} else if m.ExpiresAt != "" {
			marks = append(marks, paint(s, yellow, expiry(m, now)))
		}
		if r := inbox.replies[m.ID]; r.Message != nil {
			marks = append(marks, replyMark(r.Answers))
		}
		if v := inbox.signatures[i].Verdict; v != "" && !e.IsHeld() {
			marks = append(marks, signatureText(s, v))
		}
		t.add(ids[i], visible.Line(string(m.From)), visible.Line(string(m.Type)), priorityText(s, m.Priority),
			visible.Line(m.Subject), spelling.Age(m.CreatedAt.Time(), now), strings.Join(marks, ", "))
	}
	t.print()
	// Bad files come last. The hint for one shows what to do with all.
	if last := entries[len(entries)-1]; last.Err != nil {
		fmt.Fprintf(s.Out, "hint: %s\n", visible.Line(doctor.BadFileHint(last)))
	}
}

// signatureText returns a verdict on a signature as people see it.
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
	// VerifyMode is empty for trust.Off. PolicyError says why the agent's settings count for nothing.
	VerifyMode  trust.Mode `json:"verify_mode,omitempty"`
	PolicyError string     `json:"policy_error,omitempty"`
	// Messages is empty here: printInboxJSON writes the messages by itself.
	Messages []struct{} `json:"messages"`
	// LoadError says why the inbox cannot be listed.
	LoadError string `json:"load_error,omitempty"`
}

// printInboxJSON prints the answer as WriteJSON would. An inbox can have many messages, so it encodes
// them in parallel, and puts them where the rest of the answer has an empty list.
func printInboxJSON(c *call, w *mailbox.Workspace, inboxes []listing) error {
	answer := struct {
		envelope
		Mode   string      `json:"mode"`
		Agents []inboxJSON `json:"agents"`
	}{envelopeOf(w), "agent", []inboxJSON{}}
	if c.isOn("all") {
		answer.Mode = "all"
	}
	for _, inbox := range inboxes {
		one := inboxJSON{Agent: inbox.agent, Inbox: w.BoxPath(inbox.agent, mailbox.Inbox), Count: len(inbox.entries), Messages: []struct{}{}}
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
	var frame bytes.Buffer
	if err := command.WriteJSON(&frame, answer); err != nil {
		return err
	}
	rest := frame.Bytes()
	for _, inbox := range inboxes {
		before, after, _ := bytes.Cut(rest, []byte(`"messages": []`))
		rest = after
		c.printf("%s\"messages\": [", before) // Flush returns the first error of all writes
		for _, part := range encodePending(inbox, c.Now()) {
			c.Out.Write(part)
		}
		c.Out.WriteByte(']')
	}
	_, err := c.Out.Write(rest)
	return err
}

// encodePending returns the elements of the list of messages, in several parts.
func encodePending(inbox listing, now time.Time) [][]byte {
	entries := inbox.entries
	const chunk, bytesPerEntry = 256, 512
	parts := make([][]byte, (len(entries)+chunk-1)/chunk)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for n := range parts {
		group.Go(func() error {
			out := make([]byte, 0, chunk*bytesPerEntry)
			for i := n * chunk; i < min((n+1)*chunk, len(entries)); i++ {
				if i > 0 {
					out = append(out, ',')
				}
				out = appendPending(out, &inbox, i, now)
			}
			parts[n] = out
			return nil
		})
	}
	_ = group.Wait() // no call returns an error
	if len(parts) > 0 {
		parts = append(parts, []byte("\n      "))
	}
	return parts
}

// appendPending appends entry i as an element of the list of messages.
func appendPending(out []byte, inbox *listing, i int, now time.Time) []byte {
	e, signature := &inbox.entries[i], inbox.signatures[i]
	m, expired, invalid, loadError, held := e.Message, "false", "", "", ""
	var reply schema.ID
	answered := ""
	if e.Err != nil {
		if m = command.Preview(e); e.IsHeld() {
			held = e.Err.Error()
		} else if e.Message == nil {
			loadError = e.Err.Error()
		} else {
			invalid = e.Err.Error()
		}
	}
	if m.ExpiredAt(now) {
		expired = "true"
	}
	if r := inbox.replies[m.ID]; r.Message != nil {
		reply = r.Message.ID
		if r.Answers {
			answered = "true"
		}
	}
	out = append(out, "\n        {"...)
	for i, field := range [...]struct {
		key, value string
		optional   bool
	}{
		{key: "id", value: string(m.ID)},
		{key: "from", value: string(m.From)},
		{key: "type", value: string(m.Type)},
		{key: "priority", value: string(m.Priority)},
		{key: "subject", value: m.Subject},
		{key: "created_at_utc", value: string(m.CreatedAt)},
		{key: "age", value: spelling.Age(m.CreatedAt.Time(), now)},
		{key: "file", value: e.Name},
		{key: "path", value: e.Path},
		{"conversation_id", string(m.ConversationID), true},
		{"expires_at", string(m.ExpiresAt), true},
		{key: "expired", value: expired},
		{"reply", string(reply), true},
		{"answered", answered, true},
		{"signature", string(signature.Verdict), true},
		{"signature_reason", signature.Reason, true},
		{"auth", string(signature.Status), true},
		{"held", held, true},
		{"error", invalid, true},
		{"load_error", loadError, true},
	} {
		if field.optional && field.value == "" {
			continue
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, "\n          \""...), field.key...), `": `...)
		if field.key == "expired" || field.key == "answered" {
			out = append(out, field.value...)
		} else {
			out = appendString(out, field.value)
		}
	}
	return append(out, "\n        }"...)
}

// appendString appends a text in quotes.
func appendString(out []byte, value string) []byte {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			var quoted bytes.Buffer
			_ = command.WriteJSONLine(&quoted, value) // a string can always be encoded
			return append(out, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
		}
	}
	return append(append(append(out, '"'), value...), '"')
}

func newNextCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "next",
		Category:  command.CategoryMessages,
		Usage:     "show the next message, or wait for one",
		ArgsUsage: "[PROJECT] [--agent AGENT]",
		Description: `next shows the first pending message, in the order of oacp inbox, or waits for one
if there is none. It never misses a message, and it removes none: until you
acknowledge the message, next shows it again.

The exit status is 3 if no message arrives in time.

EXAMPLES:
   oacp next --agent codex
   oacp next --type question --from claude --timeout 30s
   oacp next --thread`,
		Flags: flagsWith(append([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "read the inbox of `AGENT` (default: $OACP_AGENT)"},
			timeoutFlag(),
			new(command.Sync).Flag(command.Rare),
			&cli.BoolFlag{Name: "thread", Usage: "also show what is new in the conversation since the agent's last message"},
			&cli.BoolFlag{Name: "all", Usage: "show all pending messages"},
		}, selectionFlags("only")...)...),
		Action: ofProject(s, func(c *call) error {
			defer c.catchSignals()()
			return c.open(runNext)
		}),
	}
}

func runNext(c *call, w *mailbox.Workspace) error {
	if c.isOn("all") && c.isOn("thread") {
		return failure.Usagef("--all and --thread are mutually exclusive")
	}
	limit, err := timeLimit(c.flags)
	if err != nil {
		return err
	}
	selected, err := newSelection(c, w)
	if err != nil {
		return err
	}
	agent, err := command.ActingAgent(w, c.text("agent"), c.Streams)
	if err != nil {
		return err
	}
	options := watch.PendingOptions{Match: selected.matches, Timeout: limit, Most: 1}
	if c.isOn("all") {
		options.Most = 0
	}
	synchronizer, err := c.synchronizer(w)
	if err != nil {
		return err
	}
	began := time.Now()
	defer synchronizer.Begin(c.ctx, cmp.Or(limit, defaultWait))()
	found, err := awaitPending(c, w, []schema.AgentName{agent}, selected.String(), options, began)
	if err != nil {
		return timeoutError(err, fmt.Sprintf("no %s came for %s within %s", selected, agent, shortDuration(limit)),
			"run oacp next again to wait longer: it misses nothing in between")
	}
	shown := found
	if c.isOn("thread") {
		thread, err := conversation.Thread(c.ctx, w, string(found[0].Message.ID))
		if _, err = warnUnreadable(err, c.Streams); err != nil {
			return err
		}
		shown = conversation.NewFor(thread, agent, found[0])
	}
	if err := printAll(withReplies(c.ctx, w, agent, shown), c.json(), !c.isOn("all") && !c.isOn("thread"), c.Streams); err != nil {
		return err
	}
	if err := c.Out.Flush(); err != nil || c.json() {
		return err
	}
	whenDone := "oacp reply ID --ack --body TEXT, or oacp ack ID"
	if len(found) == 1 {
		whenDone = afterWork(found[0].Message, c.text("agent"))
	}
	_, err = fmt.Fprintln(c.Err, "when done:", whenDone)
	return err
}

// awaitPending is watch.AwaitPending, whose timeout counts from the time when the command began. It says on
// standard error what it waits for, unless it prints JSON, and which files are not messages.
func awaitPending(c *call, w *mailbox.Workspace, agents []schema.AgentName, what string, options watch.PendingOptions, began time.Time) ([]mailbox.Entry, error) {
	targets := make([]watch.Target, len(agents))
	for i, agent := range agents {
		targets[i] = watch.Target{Workspace: w, Agent: agent}
	}
	hinted := false
	options.Problem = func(e mailbox.Entry) {
		place := schema.BoxPath(e.Agent, e.Box)
		if e.Name != "" {
			place += "/" + e.Name
		}
		c.Warn(place + ": " + strings.TrimPrefix(failure.OneLine(e.Err.Error()), "reading "+e.Path+": "))
		if e.Name != "" && !hinted { // the hint for one shows what to do with all
			hinted = true
			_, _ = fmt.Fprintf(c.Err, "hint: %s\n", visible.Line(doctor.BadFileHint(e)))
		}
	}
	limit := ""
	if options.Timeout > 0 {
		limit = " for at most " + shortDuration(options.Timeout)
		options.Timeout = max(options.Timeout-time.Since(began), 1)
	}
	if !c.json() {
		options.Idle = func() { c.Note("no " + what + " is pending for " + joinNames(agents) + "; waiting" + limit) }
	}
	return watch.AwaitPending(c.ctx, targets, options)
}

// afterWork returns the command that ends the work on a message. The agent is empty unless a flag names it.
func afterWork(m *schema.Message, agent string) string {
	reply, ack := "oacp reply "+m.ID.Short(), "oacp ack "+m.ID.Short()
	if agent != "" && len(m.To) > 1 { // of several recipients, the commands need the one
		reply, ack = reply+" --from "+agent, ack+" --agent "+agent
	}
	switch {
	case !m.Type.IsRequest():
		return ack
	case m.Type.Answer() == schema.ReviewFeedback:
		return reply + " --ack --type review_lgtm --body TEXT; --type review_feedback asks for changes"
	case m.Type == schema.Handoff:
		return reply + " --ack --body-file FILE; oacp send --template handoff_complete prints one to fill in"
	}
	return reply + " --ack --body TEXT"
}

func newWatchCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "watch",
		Category:  command.CategoryFiles,
		Usage:     "report new messages",
		ArgsUsage: "[PROJECT…] [--agent AGENT]",
		Description: `watch prints the messages that arrived since its last run and exits. The first run
prints all pending messages. With --follow, watch prints each message as it arrives,
until it is stopped. A line has the short id and the sender, and ends with the subject.

watch records what it printed in state/watch of the workspace, so it prints each
message once. A second reader of the same inbox needs its own record: --state-id. A
file that is not a message is an error, reported once.

The exit status is 1 if anything could not be watched or read; watch prints everything
else. Stopping --follow is not an error.

--json prints one object per line, with the event new_message, message_archived,
error or warning. Errors and warnings also go to standard error.

EXAMPLES:
   oacp watch --agent codex --follow
   oacp watch --agent codex --json
   oacp watch --agent codex --all-projects --state-id notifier`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "watch the inbox of `AGENT` (default: $OACP_AGENT)"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep running and print messages as they arrive"},
			new(command.Sync).Flag(""),
			&cli.BoolFlag{Name: "once", Usage: "accepted for compatibility", Hidden: true},
			&cli.StringFlag{Name: "since", Category: command.Rare, Usage: "on the first run, skip messages before `TIME`: now, epoch, an age such as 5m, or YYYY-MM-DDTHH:MM:SSZ", Value: "epoch"},
			&cli.StringFlag{Name: "state-id", Category: command.Rare, Usage: "use the record `NAME`, for a second reader of the inbox"},
			&cli.BoolFlag{Name: "show-archived", Category: command.Rare, Usage: "also report messages that leave the inbox"},
			&cli.StringSliceFlag{Name: "project", Usage: "watch the project `PROJECT`; may be repeated"},
			&cli.BoolFlag{Name: "all-projects", Usage: "watch every project that has the agent"},
			&cli.StringFlag{Name: "dir", Category: command.OfWorkspace, Usage: "use the workspace `DIR`"},
			&cli.StringFlag{Name: "oacp-dir", Category: command.OfWorkspace, Usage: "projects are below `DIR` (default $OACP_HOME, then ~/oacp)"},
			jsonFlag(),
		},
		Action: action(s, anyNumber, runWatch),
	}
}

func runWatch(c *call) (err error) {
	projects := append(c.texts("project"), c.words...)
	stateID, follow := c.text("state-id"), c.isOn("follow")
	switch {
	case c.isSet("state-id") && !schema.IsNamePart(stateID):
		return failure.Usagef("--state-id: %s: want 1 to 64 letters, digits, dots, underscores or hyphens", visible.Quote(stateID))
	case c.isOn("all-projects") && len(projects) > 0:
		return failure.Usagef("--all-projects and a project are mutually exclusive")
	case c.place.Dir != "" && (c.isOn("all-projects") || len(projects) > 0):
		return failure.Usagef("--dir and a project are mutually exclusive")
	case slices.Contains(projects, ""):
		return failure.Usagef("the project name is empty")
	case follow && c.isOn("once"):
		return failure.Usagef("--follow and --once are mutually exclusive")
	}
	since, err := parseSince(c.text("since"), c.Now())
	if err != nil {
		return err
	}
	targets, failed, err := watchTargets(c, projects)
	defer func() {
		for _, target := range targets {
			err = errors.Join(err, target.Workspace.Close())
		}
	}()
	if err != nil {
		return err
	}
	for _, event := range failed {
		if err := printEvent(c, event); err != nil {
			return err
		}
	}
	if len(targets) == 0 {
		return failure.ErrReported
	}
	options := &watch.Options{Cursor: true, StateID: stateID, Since: since, Archived: c.isOn("show-archived")}
	ok, err := watchTargetsUntil(c, targets, options)
	if err != nil {
		return err
	}
	if c.OutTerminal && !follow && !c.json() {
		_, _ = fmt.Fprintln(c.Err, "hint: with --follow, watch goes on") // nothing is lost without it
	}
	if !follow && (!ok || len(failed) > 0) {
		return failure.ErrReported
	}
	return nil
}

// watchTargetsUntil prints the events of the targets, with --follow until a signal. It reports whether there was no
// error among them.
func watchTargetsUntil(c *call, targets []watch.Target, options *watch.Options) (ok bool, err error) {
	defer c.catchSignals()()
	workspaces := make([]*mailbox.Workspace, len(targets))
	for i, target := range targets {
		workspaces[i] = target.Workspace
	}
	synchronizer, err := c.synchronizer(workspaces...)
	if err != nil {
		return false, err
	}
	follow := c.isOn("follow")
	if follow {
		defer synchronizer.Start(c.ctx, false)()
	} else {
		defer synchronizer.Begin(c.ctx, 0)()
	}
	watcher, err := watch.New(targets, options)
	if err != nil { // no target can be watched
		return false, cmp.Or(printEvent(c, newFailure(targets, err)), failure.ErrReported)
	}
	defer func() { err = errors.Join(err, watcher.Close()) }()
	if follow {
		return printEvents(c, watcher.Events(c.ctx))
	}
	ok, err = printEvents(c, watcher.Scan(c.ctx))
	return ok, cmp.Or(err, context.Cause(c.ctx))
}

// printEvents reports whether there was no error among the events.
func printEvents(c *call, events iter.Seq2[watch.Event, error]) (ok bool, err error) {
	ok = true
	for event, err := range events {
		if err != nil {
			return false, err
		}
		// The event counts as printed when the loop asks for the next one.
		if err := printEvent(c, event); err != nil {
			return false, err
		}
		ok = ok && (event.Kind != watch.EventError || isMail(event))
	}
	return ok, nil
}

// newFailure returns the event of an error that concerns all targets.
func newFailure(targets []watch.Target, err error) watch.Event {
	event := watch.Event{Kind: watch.EventError, Entry: mailbox.Entry{Agent: targets[0].Agent, Err: err}}
	if first := targets[0].Workspace; len(targets) == 1 {
		event.Project, event.Path = project.Name(first), first.BoxPath(event.Agent, mailbox.Inbox)
	}
	return event
}

// watchTargets opens the workspaces to watch. An event says what cannot be watched. The caller closes the
// workspaces, even after an error.
func watchTargets(c *call, projects []string) (targets []watch.Target, failed []watch.Event, err error) {
	place := command.Workspace{Dir: c.place.Dir, Home: c.place.Home}.Place(c.Streams)
	if c.isOn("all-projects") {
		if projects, err = place.Projects(); err != nil {
			return nil, nil, err
		}
	} else if len(projects) == 0 {
		projects = []string{""}
	}
	fail := func(path string, err error) {
		entry := mailbox.Entry{Agent: c.agent(), Path: path, Err: err}
		failed = append(failed, watch.Event{Kind: watch.EventError, Project: place.Project, Entry: entry})
	}
	for _, place.Project = range projects {
		w, err := command.Open(place, nil)
		if err != nil {
			path, _ := place.ProjectDir() // it is empty if the name is no project's
			fail(path, err)
			continue
		}
		agent, err := command.AgentOf(w, c.text("agent"), c.Streams)
		if err == nil && w.Knows(agent) {
			targets = append(targets, watch.Target{Workspace: w, Agent: agent})
			continue
		}
		switch {
		case errors.Is(err, project.ErrNoSender):
			return targets, nil, errors.Join(err, w.Close())
		case err != nil:
			fail("", err)
		case !c.isOn("all-projects"):
			fail(filepath.Dir(w.BoxPath(agent, mailbox.Inbox)), w.CheckAgent(agent))
		}
		if err := w.Close(); err != nil {
			return targets, nil, err
		}
	}
	if len(targets)+len(failed) == 0 {
		place.Project = ""
		fail("", errors.New("no project has the agent"))
	}
	return targets, failed, nil
}

func printEvent(c *call, e watch.Event) error {
	if e.Err != nil && !(c.json() && isMail(e)) { // the event itself says what is wrong with the message
		text := failure.OneLine(e.Err.Error())
		if e.Path != "" {
			text = e.Path + ": " + text
		}
		kind := e.Kind
		if isMail(e) {
			kind = watch.EventWarning
		}
		text = strings.ToUpper(string(kind)) + ": " + visible.Line(text) + "\n"
		if hint := failure.Of(e.Err).Hint; hint != "" {
			text += "hint: " + visible.Line(hint) + "\n"
		}
		// If this fails there is no one left to tell; the event itself goes to standard output.
		_, _ = fmt.Fprint(c.Err, text)
	}
	if isMail(e) {
		e.Kind, e.Message = watch.EventArrived, command.Preview(&e.Entry)
	}
	switch {
	case c.json():
		if err := command.WriteJSONLine(c.Out, newWatchJSON(e)); err != nil {
			return err
		}
	case e.Message != nil:
		m := e.Message
		c.printf("%s project=%s agent=%s file=%s type=%s priority=%s id=%s from=%s %s\n",
			strings.ToUpper(string(e.Kind)), visible.Line(e.Project), e.Agent, visible.Line(e.Name), visible.Line(string(m.Type)),
			visible.Line(string(m.Priority)), visible.Line(cmp.Or(m.ID.Short(), "?")), visible.Line(string(m.From)), visible.Line(m.Subject))
	}
	return c.Out.Flush()
}

// isMail reports whether an error is about a message that is not valid. It is printed as far as it
// can be read, as other messages are.
func isMail(e watch.Event) bool {
	return e.Kind == watch.EventError && (e.Message != nil || e.IsHeld())
}

// watchJSON is the reference implementation's event, with its keys sorted and more keys.
type watchJSON struct {
	Agent          schema.AgentName      `json:"agent"`
	Auth           signing.Status        `json:"auth,omitempty"`
	Code           string                `json:"code,omitempty"`
	ConversationID schema.ConversationID `json:"conversation_id,omitempty"`
	CreatedAt      schema.Timestamp      `json:"created_at_utc,omitempty"`
	Error          string                `json:"error,omitempty"`
	Event          watch.EventKind       `json:"event"`
	ExpiresAt      schema.Timestamp      `json:"expires_at,omitempty"`
	File           string                `json:"file,omitempty"`
	From           schema.AgentName      `json:"from,omitempty"`
	Held           string                `json:"held,omitempty"`
	Hint           string                `json:"hint,omitempty"`
	ID             schema.ID             `json:"id,omitempty"`
	Path           string                `json:"path,omitempty"`
	Priority       schema.Priority       `json:"priority,omitempty"`
	Project        *string               `json:"project"`
	Subject        string                `json:"subject,omitempty"`
	Type           schema.Type           `json:"type,omitempty"`
}

func newWatchJSON(e watch.Event) watchJSON {
	m := e.Message
	if m == nil {
		m = &schema.Message{}
	}
	j := watchJSON{
		Agent: e.Agent, Event: e.Kind, File: e.Name, Path: e.Path, ID: m.ID, From: m.From, Type: m.Type,
		Priority: m.Priority, Subject: m.Subject, ConversationID: m.ConversationID, CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt,
	}
	if e.Project != "" {
		j.Project = &e.Project
	}
	if held, ok := errors.AsType[*mailbox.HeldError](e.Err); ok {
		j.Auth, j.Held = held.Status, held.Error()
	} else if e.Err != nil {
		j.Error = failure.OneLine(e.Err.Error())
		if f := failure.Of(e.Err); e.Name == "" { // the error concerns no single file
			j.Code, j.Hint = f.Code, f.Hint
		}
	}
	return j
}
