package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/notify"
	"github.com/oacp-go/oacp/turn/track"
)

func newDecideCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "decide",
		Category:  command.CategoryMessages,
		Usage:     "answer what waits for a person",
		ArgsUsage: "[PROJECT] [--agent AGENT]",
		Description: `decide shows each pending message of a person with the conversation so far, and asks
for an answer: the number of a choice, a line of text, or a text from $VISUAL or
$EDITOR. It answers as oacp reply --ack does. A message that it shows is noticed. It
needs a terminal.

EXAMPLE:
   oacp decide --agent anna`,
		Flags: flagsWith(&cli.StringFlag{Name: "agent", Usage: "decide for `AGENT` (default: $OACP_AGENT, or the only person)"}),
		Action: ofProject(s, func(c *call) error {
			return c.open(runDecide)
		}),
	}
}

func runDecide(c *call, w *mailbox.Workspace) error {
	agent, err := decider(c, w)
	if err != nil {
		return err
	}
	if c.json() || !c.InTerminal || !c.OutTerminal {
		return failure.Usagef("decide asks questions, so it needs a terminal and no --json").
			WithHint(fmt.Sprintf("oacp inbox --agent %s lists what waits, oacp --as-person reply ID --from %[1]s answers", agent))
	}
	entries, err := w.List(c.ctx, agent, mailbox.Inbox)
	if err != nil {
		return err
	}
	in, skipped := bufio.NewReader(c.In), 0
	for n, e := range entries {
		if e.Err != nil {
			c.Warn(e.Name + ": " + failure.OneLine(e.Err.Error()))
			continue
		}
		s, waits := &decision{call: c, w: w, agent: agent, message: e.Message, in: in}, false
		err := track.WhileReading(c.ctx, w, agent, func() error {
			if _, err := w.Pending(c.ctx, string(e.Message.ID), agent); err != nil {
				return nil // it was handled meanwhile
			}
			waits = true
			c.printf("\n--- %d of %d ---\n", n+1, len(entries))
			s.show()
			return c.noteRead(w, agent, []mailbox.Entry{e})
		})
		if err != nil {
			return err
		}
		if !waits {
			continue
		}
		if quit, err := s.decide(); err != nil || quit {
			return err
		}
		if s.skipped {
			skipped++
		}
	}
	if skipped > 0 {
		c.printf("%s skipped: oacp decide shows them again\n", spelling.Plural(skipped, "message"))
		return nil
	}
	c.printf("nothing more waits for %s\n", agent)
	return nil
}

// decider returns the person who decides.
func decider(c *call, w *mailbox.Workspace) (schema.AgentName, error) {
	agent, err := c.actsFor(command.ActingAgent(w, c.text("agent"), c.Streams))
	if !errors.Is(err, project.ErrNoSender) {
		return agent, cmp.Or(err, w.CheckAgent(agent))
	}
	agents, listErr := w.Agents()
	var people []schema.AgentName
	for _, a := range agents {
		if project.IsPerson(w, a) {
			people = append(people, a)
		}
	}
	if len(people) == 1 {
		return c.actsFor(people[0], nil)
	}
	return "", cmp.Or(listErr, failure.WithHint(err, "oacp decide --agent NAME; oacp add-agent NAME --runtime human adds a person"))
}

// notify tells people about new mail: until the caller calls stop or, if the command ends by itself, then.
func (c *call) notify(ends bool, workspaces ...*mailbox.Workspace) (stop func()) {
	warn := func(err error) { c.Warn(failure.OneLine(err.Error())) }
	if ends {
		return func() { notify.Once(c.ctx, warn, workspaces...) }
	}
	return notify.Start(c.ctx, warn, workspaces...)
}

// A decision is about a message that waits for a person.
type decision struct {
	*call
	w       *mailbox.Workspace
	agent   schema.AgentName
	message *schema.Message
	in      *bufio.Reader
	skipped bool
}

// recent is how many messages of the conversation are shown.
const recent = 5

// show prints the message, what preceded it, and the choices.
func (s *decision) show() {
	m := s.message
	thread, err := conversation.Thread(s.ctx, s.w, string(m.ID))
	if err != nil {
		s.Warn("the conversation may have more: " + failure.OneLine(err.Error()))
	}
	var before []string
	for _, n := range thread {
		if n.Err == nil && n.Message.ID != m.ID && schema.CompareAge(n.Message, m) < 0 {
			first, _, _ := strings.Cut(strings.TrimSpace(bodyText(n.Message)), "\n")
			before = append(before, visible.Line(fmt.Sprintf("%s: %s: %s", n.Message.From, n.Message.Subject, first)))
		}
	}
	if more := len(before) - recent; more > 0 {
		s.printf("earlier: %s (oacp thread %s)\n", spelling.Plural(more, "message"), m.ID.Short())
		before = before[more:]
	}
	for _, line := range before {
		s.printf("%s\n", cells.TruncateString(line, max(s.Width, 20), "…"))
	}
	s.printf("%s asks (%s, %s ago): %s\n\n%s\n", visible.Line(string(m.From)), m.Type, spelling.Age(m.CreatedAt.Time(), s.Now()),
		paint(s.Streams, bold, visible.Line(m.Subject)), strings.TrimSuffix(visible.Lines(bodyText(m)), "\n"))
	s.printf("\n")
	for i, choice := range m.Choices() {
		s.printf("  %d  %s\n", i+1, visible.Line(choice))
	}
}

// decide asks until the message is answered or skipped, and reports whether the person quits.
func (s *decision) decide() (quit bool, err error) {
	keys := "t text, e editor, a acknowledge without an answer, s skip, q quit"
	if s.message.Choices() != nil {
		keys = "number, " + keys
	}
	for {
		line, err := s.ask(keys + "> ")
		if err != nil {
			return true, err
		}
		switch line {
		case "q":
			return true, nil
		case "s", "":
			s.skipped = true
			return false, nil
		case "a":
			held, err := conversation.FindCopy(s.ctx, s.w, string(s.message.ID), s.agent)
			if err == nil {
				err = held.Acknowledge(s.w)
			}
			return false, err
		case "t":
			if line, err = s.ask("text> "); err != nil {
				return true, err
			}
			err = s.answer("", line)
		case "e":
			if line, err = s.edit(); err == nil {
				err = s.answer("", line)
			}
		default:
			err = s.answer(line, "")
		}
		if errors.Is(err, errNothing) {
			s.printf("nothing is sent\n")
			continue
		}
		if _, wrong := errors.AsType[*schema.NoChoiceError](err); wrong {
			s.printf("%s is none of: %s\n", visible.Quote(line), keys)
			continue
		}
		if err != nil { // such as an answer from another terminal
			s.printf("not sent: %s\n", visible.Line(failure.Of(err).Message()))
		}
		_, answered := errors.AsType[*track.AnsweredError](err)
		_, gone := errors.AsType[*mailbox.NotPendingError](err)
		if err == nil || answered || gone {
			return false, nil
		}
	}
}

// ask reads a line. The end of the input quits, without an error.
func (s *decision) ask(prompt string) (line string, err error) {
	s.printf("%s", prompt)
	if err := s.Out.Flush(); err != nil {
		return "", err
	}
	line, err = s.in.ReadString('\n')
	if errors.Is(err, io.EOF) {
		return "q", nil
	}
	return strings.TrimSpace(line), err
}

// errNothing reports that the person wrote no answer.
var errNothing = errors.New("there is no text")

// answer sends a choice or a text as oacp reply --ack does.
func (s *decision) answer(choice, text string) error {
	if choice == "" && strings.TrimSpace(text) == "" {
		return errNothing
	}
	d := &delivery{call: s.call, w: s.w, draft: conversation.Reply(s.message, s.agent), answered: s.message}
	d.draft.Body = schema.TextValue(text)
	if choice != "" {
		if err := d.draft.Choose(s.message, choice); err != nil {
			return err
		}
	}
	conversation.Conclude(&d.draft, d.answered, false, true)
	held, err := conversation.FindCopy(s.ctx, s.w, string(s.message.ID), s.agent)
	if err != nil {
		return err
	}
	d.pending = &held
	return d.deliver()
}

// edit returns what the person writes in an editor.
func (s *decision) edit() (text string, err error) {
	words := strings.Fields(cmp.Or(s.Getenv("VISUAL"), s.Getenv("EDITOR"), "vi"))
	dir, err := os.MkdirTemp("", "oacp-decide-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "answer.md")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return "", err
	}
	editor := exec.CommandContext(s.ctx, words[0], append(words[1:], path)...)
	editor.Stdin, editor.Stdout, editor.Stderr = os.Stdin, os.Stdout, os.Stderr
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt) // ^C is for the editor
	defer signal.Stop(interrupts)
	if err := editor.Run(); err != nil {
		return "", fmt.Errorf("editor %s: %w", visible.ShellCommand(words...), err)
	}
	return readInput(path, s.Streams)
}
