package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// A threadCall is a call of thread.
type threadCall struct {
	*call
	bodies bool
}

func newThreadCommand(s *command.Streams) *cli.Command {
	c := &threadCall{call: newCall(s)}
	return &cli.Command{
		Name:        "thread",
		Category:    command.CategoryMessages,
		Usage:       "show a conversation",
		ArgsUsage:   "ID",
		Subcommands: []*cli.Command{newThreadResumeCommand(s)},
		Description: `thread shows every message of the conversation, in any mailbox, with answers below
the message they answer. STAGE is the stage of a message as in oacp status ID; if
there are several recipients, the least advanced one. "asked ID" beside it is a
question back, and "ID answered" one that has its answer.

EXAMPLES:
   oacp thread ID
   oacp thread ID --bodies`,
		Flags: c.flagsWith(
			&cli.BoolFlag{Name: "bodies", Usage: "show the messages in full", Destination: &c.bodies}),
		Action: c.inWorkspace(1, c.run),
	}
}

func (c *threadCall) run(w *mailbox.Workspace) error {
	id, err := c.only(errNoID())
	if err != nil {
		return err
	}
	defer lessGarbageCollection()()
	thread, err := track.Thread(c.ctx, w, id)
	unreadable := ""
	if len(thread) > 0 {
		unreadable, err = warnUnreadable(err, c.Streams)
	}
	if err != nil {
		return err
	}
	if c.asJSON {
		return printThreadJSON(c.Streams, w, thread, unreadable)
	}
	printThread(c.Streams, thread, c.bodies)
	return nil
}

// printThread prints a line for each message, and its body on request.
func printThread(s *command.Streams, thread []track.Node, bodies bool) {
	entries := make([]mailbox.Entry, len(thread))
	for i, n := range thread {
		entries[i] = n.Entry
	}
	ids := shortIDs(entries)
	t := newTable(s, row{"ID", "From", "To", "Type", "Stage", "Age", "Subject"})
	for i, n := range thread {
		m := n.Message
		if n.Err != nil {
			m = command.Preview(&n.Entry)
		}
		title := visible.Line(m.Subject)
		if offered := m.Marks.Choices; offered != nil {
			title += visible.Line(" [" + strings.Join(offered, ", ") + "]")
		} else if chosen := m.Marks.Choice; chosen != "" {
			title += visible.Line(" [" + chosen + "]")
		}
		if n.Err != nil {
			title += "  " + paint(s, red, "not valid: "+visible.Line(failure.OneLine(n.Err.Error())))
		}
		t.add(n.Branch+ids[i], visible.Line(string(m.From)), visible.Line(spelling.Join(m.To)), visible.Line(string(m.Type)),
			stageWord(n.Stage(), s)+visible.Line(n.Said(s.Now())), spelling.Age(m.CreatedAt.Time(), s.Now()), title)
	}
	lines := t.lines()
	s.Printf("%s\n", lines[0])
	for i, line := range lines[1:] {
		s.Printf("%s\n", line)
		if bodies {
			s.Printf("\n")
			printBody(s, thread[i].Message)
			if i < len(thread)-1 {
				s.Printf("\n")
			}
		}
	}
}

func printThreadJSON(s *command.Streams, w *mailbox.Workspace, thread []track.Node, unreadable string) error {
	answer := struct {
		ConversationID schema.ConversationID `json:"conversation_id"`
		Messages       []any                 `json:"messages"`
		LoadError      string                `json:"load_error,omitempty"`
	}{Messages: []any{}, LoadError: unreadable}
	for _, n := range thread {
		answer.ConversationID = cmp.Or(answer.ConversationID, n.Message.ConversationID)
		object, err := messageJSON(n.Entry, places(w, []mailbox.Entry{n.Entry}), s)
		if err == nil {
			object, err = withKeys(object, struct {
				Depth  int                              `json:"depth"`
				Stage  track.Stage                      `json:"stage"`
				Stages map[schema.AgentName]track.Stage `json:"stages"`
				All    []track.Progress                 `json:"recipients"` // as in the JSON of status
			}{n.Depth, n.Stage(), n.Stages(), n.Recipients})
		}
		if err != nil {
			return err
		}
		answer.Messages = append(answer.Messages, object)
	}
	return command.WriteJSON(s.Out, answer)
}

func newThreadResumeCommand(s *command.Streams) *cli.Command {
	c := newCall(s)
	return &cli.Command{
		Name:      "resume",
		Usage:     "resume a conversation that reached its limit on turns",
		ArgsUsage: "CONVERSATION-OR-ID",
		Description: `oacp run limits the turns of a conversation, so that two agents cannot answer each
other forever. resume resets the count. Name the conversation by its id or by the id
of a message in it.

EXAMPLES:
   oacp thread resume CONVERSATION
   oacp thread resume ID`,
		Flags:  c.flagsWith(),
		Action: c.inWorkspace(1, c.resumeThread),
	}
}

func (c *call) resumeThread(w *mailbox.Workspace) error {
	named, err := c.only(errNoID())
	if err != nil {
		return err
	}
	id := schema.ConversationID(named)
	if _, err := schema.ParseConversationID(id); err != nil {
		found, err := w.Find(c.ctx, named)
		if _, err = mailbox.SplitUnreadable(err); err != nil {
			return err
		}
		id = conversation.Of(found[0].Message)
	}
	resumed, err := track.Resume(c.ctx, w, id)
	if err != nil {
		return err
	}
	return c.answer(map[string]any{"conversation_id": id, "agents": resumed}, func() {
		for _, agent := range resumed {
			c.Confirm("OK: %s goes on with %s\n", id, agent)
		}
	})
}

// A listCall is a call of list. The conversation is the flag, which may be the id of a message.
type listCall struct {
	*call
	query        track.Query
	conversation string
}

func newListCommand(s *command.Streams) *cli.Command {
	c := &listCall{call: newCall(s)}
	return &cli.Command{
		Name:      "list",
		Category:  command.CategoryFiles,
		Usage:     "find messages",
		ArgsUsage: "[PROJECT]",
		Description: `list shows every message once, newest last, with its stage for each recipient, as in
oacp status. With --box, it shows the contents of that folder. oacp restore puts a
message back. With --text, it shows where each body has the words.

EXAMPLES:
   oacp list --text "retry port" --since 2h --to codex
   oacp list --box dead_letter
   oacp list --from claude --subject port --json`,
		Flags: c.flagsWith(
			&cli.GenericFlag{Name: "since", Usage: "created at `TIME` or later: an age such as 5m or 2d, or YYYY-MM-DDTHH:MM:SSZ", Value: command.Parsed(&c.query.Since, c.parseTime)},
			&cli.StringFlag{Name: "from", Usage: "sent by `AGENT`", Destination: (*string)(&c.query.From)},
			&cli.StringFlag{Name: "to", Usage: "sent to `AGENT`", Destination: (*string)(&c.query.To)},
			&cli.StringFlag{Name: "agent", Usage: "sent by or to `AGENT`, or in its box", Destination: (*string)(&c.query.Agent)},
			&cli.GenericFlag{Name: "type", Usage: "of `TYPE`", Value: command.Type(&c.query.Type)},
			&cli.StringFlag{Name: "subject", Usage: "with `TEXT` in the subject, ignoring case", Destination: &c.query.Subject},
			&cli.StringFlag{Name: "text", Usage: "with all `WORDS` in subject, choices or body, ignoring case", Destination: &c.query.Text},
			&cli.StringFlag{Name: "conversation", Usage: "of the conversation `ID`, or that of the message ID", Destination: &c.conversation},
			&cli.GenericFlag{Name: "priority", Usage: "of `PRIORITY` P0, P1, P2 or P3", Value: command.Priority(&c.query.Priority)},
			&cli.GenericFlag{Name: "box", Usage: "in `BOX`: inbox, outbox, archive or dead_letter", Value: command.OneOf(&c.query.Box, "box", mailbox.Inbox, mailbox.Outbox, mailbox.Archive, mailbox.DeadLetters)},
			&cli.IntFlag{Name: "limit", Usage: "only the newest `N`", Destination: &c.query.Limit}),
		Action: c.inProject(c.run),
	}
}

func (c *listCall) run(w *mailbox.Workspace) (err error) {
	query := c.query
	switch {
	case c.given(&c.query.Text) && strings.TrimSpace(query.Text) == "":
		return failure.Usagef("--text is empty")
	case query.Limit < 0:
		return failure.Usagef("--limit: %d is negative", query.Limit)
	case c.conversation != "":
		if query.Conversation, err = conversation.Named(c.ctx, w, c.conversation); err != nil {
			return fmt.Errorf("--conversation: %w", err)
		}
	}
	messages, err := track.List(c.ctx, w, query)
	if _, other := mailbox.SplitUnreadable(err); other != nil {
		return other
	}
	if len(messages) == 0 && err == nil {
		// A removed agent may have messages, so only an unknown name without messages is an error.
		for _, name := range []schema.AgentName{query.Agent, query.From, query.To} {
			if name != "" {
				err = errors.Join(err, w.CheckAgent(name))
			}
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(c.answer(newListAnswer(w, messages), func() { printList(messages, strings.Fields(query.Text), c.Streams) }), err)
}

// printList marks the words in subjects, and below a message in the part of its body that has them.
func printList(messages []track.Node, words []string, s *command.Streams) {
	if len(messages) == 0 {
		s.Printf("no message matches\n")
		return
	}
	t := newTable(s, row{"ID", "Created", "From", "To", "Type", "Subject", "Stage"})
	for _, m := range messages {
		created := "?"
		if at := m.Message.CreatedAt.Time(); !at.IsZero() {
			created = s.Time(at)
		}
		stage := stageTexts(m.Recipients, s)
		if held := stageWord(track.StageHeld, s); m.IsHeld() && !slices.Contains(stage, held) {
			stage = append(stage, held)
		} else if m.Err != nil && !m.IsHeld() {
			stage = append(stage, paint(s, red, "not valid"))
		}
		known := func(text string) string { return cmp.Or(visible.Line(text), "?") }
		t.add(known(m.Message.ID.Short()), created, known(string(m.Message.From)), known(spelling.Join(m.Message.To)),
			known(string(m.Message.Type)), marked(s, words, subjectText(s, m.Message.Subject)), strings.Join(stage, ", "))
	}
	for i, line := range t.lines() {
		s.Printf("%s\n", line)
		if i == 0 || messages[i-1].Snippet == "" {
			continue
		}
		snippet := "      " + visible.Line(messages[i-1].Snippet)
		if s.Width > 0 {
			snippet = cells.TruncateString(snippet, s.Width-2, "…") // a mark may follow
		}
		s.Printf("%s\n", marked(s, words, snippet))
	}
}

// marked marks each of the words in the text, in bold on a terminal with colours.
func marked(s *command.Streams, words []string, text string) string {
	if len(words) == 0 {
		return text
	}
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = regexp.QuoteMeta(word)
	}
	return regexp.MustCompile("(?i)"+strings.Join(quoted, "|")).ReplaceAllStringFunc(text, func(hit string) string {
		if s.Color() {
			return paint(s, urgent, hit)
		}
		return "«" + hit + "»"
	})
}

// stageTexts returns the stage of each recipient, or one stage if all have the same.
func stageTexts(recipients []track.Progress, s *command.Streams) (texts []string) {
	same := len(recipients) > 0
	for _, r := range recipients {
		same = same && r.Stage == recipients[0].Stage
		texts = append(texts, visible.Line(string(r.Agent))+" "+stageWord(r.Stage, s))
	}
	if same {
		return []string{stageWord(recipients[0].Stage, s)}
	}
	return texts
}

// stageWord returns a stage in the colour of its tone.
func stageWord(stage track.Stage, s *command.Streams) string {
	switch word := visible.Line(string(stage)); stage.Tone() {
	case track.ToneError:
		return paint(s, red, word)
	case track.ToneOpen:
		return paint(s, yellow, word)
	default:
		return word
	}
}

// listedJSON is a message that list found.
type listedJSON struct {
	head
	ParentID   schema.ID         `json:"parent_message_id,omitempty"`
	Recipients []listedRecipient `json:"recipients"`
	Places     []place           `json:"places"`
	Snippet    string            `json:"snippet,omitempty"`
	Error      string            `json:"error,omitempty"`
}

type listedRecipient struct {
	Agent schema.AgentName `json:"agent"`
	Stage track.Stage      `json:"stage"`
}

// listAnswer is the JSON of list.
type listAnswer struct {
	envelope
	Messages []listedJSON `json:"messages"`
}

func newListAnswer(w *mailbox.Workspace, messages []track.Node) listAnswer {
	listed := make([]listedJSON, len(messages))
	for i, m := range messages {
		listed[i] = listedJSON{head: headOf(m.Message), ParentID: m.Message.ParentID, Snippet: m.Snippet}
		for _, p := range m.Recipients {
			listed[i].Recipients = append(listed[i].Recipients, listedRecipient{p.Agent, p.Stage})
		}
		for _, e := range m.Files {
			listed[i].Places = append(listed[i].Places, place{Agent: e.Agent, Box: e.Box, Path: e.Path})
		}
		if m.Err != nil {
			listed[i].Error = failure.OneLine(m.Err.Error())
		}
	}
	return listAnswer{envelopeOf(w), listed}
}
