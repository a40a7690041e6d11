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
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/notify"
	"github.com/oacp-go/oacp/turn/track"
)

func newDecideCommand(s *command.Streams) *cli.Command {
	c := newCall(s)
	return &cli.Command{
		Name:      "decide",
		Category:  command.CategoryMessages,
		Usage:     "answer what waits for a person",
		ArgsUsage: "[PROJECT] [--agent AGENT]",
		Description: `decide shows each pending message of a person with the conversation so far, and asks
for an answer: the number or the name of a choice, a line of text, or a text from
$VISUAL or $EDITOR. A name may be shortened, except to a key of the prompt; the whole
name of a choice is the choice.
decide answers as oacp reply --ack does. A message that it shows is noticed. It needs a
terminal.

To be told of new messages, set notify: [COMMAND, ARGUMENT…] in agents/NAME/config.yaml
and run oacp allow: oacp watch, run and sync run the command for each, with the body as standard input and
the variables OACP_MESSAGE_…; see docs/people.md.

EXAMPLE:
   oacp decide --agent anna`,
		Flags:  c.flagsWith(c.agentFlag("decide for `AGENT` (default: $OACP_AGENT, or the only person)")),
		Action: c.inProject(c.runDecide),
	}
}

func (c *call) runDecide(w *mailbox.Workspace) error {
	if c.asJSON || !c.InTerminal || !c.OutTerminal {
		return failure.Usagef("decide asks questions, so it needs a terminal and no --json").WithHint("oacp inbox --agent NAME lists what waits")
	}
	acts, err := c.decider(w)
	if err != nil {
		return err
	}
	agent := acts.Agent()
	in, seen := bufio.NewReader(c.In), make(map[string]bool)
	for {
		pending, err := w.List(c.ctx, agent, mailbox.Inbox) // again, because mail may have arrived or left
		if err != nil {
			return err
		}
		unseen := slices.DeleteFunc(slices.Clone(pending), func(e mailbox.Entry) bool { return seen[e.Name] })
		if len(unseen) == 0 {
			skipped := slices.DeleteFunc(pending, func(e mailbox.Entry) bool { return e.Err != nil })
			if len(skipped) > 0 {
				c.Printf("%s skipped: oacp decide shows them again\n", spelling.Plural(len(skipped), "message"))
			} else {
				c.Printf("nothing more waits for %s\n", agent)
			}
			return nil
		}
		e := unseen[0]
		seen[e.Name] = true
		if e.Err != nil {
			c.Warn(e.Name + ": " + failure.OneLine(e.Err.Error()))
			continue
		}
		s := &decision{call: c, w: w, acts: acts, agent: agent, message: e.Message, in: in}
		shown, err := s.show(fmt.Sprintf("\n--- %d of %d ---\n", len(seen), len(seen)+len(unseen)-1))
		quit := false
		if err == nil && shown {
			quit, err = s.decide()
		}
		if err != nil || quit {
			return err
		}
	}
}

// decider returns the person who decides.
func (c *call) decider(w *mailbox.Workspace) (*client.Client, error) {
	acts, err := c.as(c.agent)
	if err == nil {
		err = w.CheckAgent(acts.Agent())
	}
	if !errors.Is(err, project.ErrNoSender) {
		return acts, err
	}
	agents, listErr := w.Agents()
	var people []schema.AgentName
	for _, a := range agents {
		if project.IsPerson(w, a) {
			people = append(people, a)
		}
	}
	if len(people) == 1 {
		return c.as(people[0])
	}
	return nil, cmp.Or(listErr, failure.WithHint(err, "oacp decide --agent NAME; oacp add-agent NAME --runtime human adds a person"))
}

// notify tells people about new mail until the caller calls stop, or only then if the command ends by itself. If it is
// brief, stop does not wait for a command that takes its time.
func (c *call) notify(ends, brief bool, workspaces ...*mailbox.Workspace) (stop func()) {
	warn := func(err error) { c.Warn(failure.OneLine(err.Error())) }
	switch {
	case ends && brief:
		return func() { notify.Briefly(c.ctx, warn, workspaces...) }
	case ends:
		return func() { notify.Once(c.ctx, warn, workspaces...) }
	}
	return notify.Start(c.ctx, warn, workspaces...)
}

// A decision is about a message that waits for a person.
type decision struct {
	*call
	w       *mailbox.Workspace
	acts    *client.Client
	agent   schema.AgentName
	message *schema.Message
	in      *bufio.Reader
}

// recent is how many messages of the conversation are shown.
const recent = 5

// show prints a title and the message, and notes that the person has noticed it, unless it was handled meanwhile.
func (s *decision) show(title string) (shown bool, err error) {
	e, err := s.w.Pending(s.ctx, string(s.message.ID), s.agent)
	if err != nil {
		return false, nil // it was handled meanwhile
	}
	err = s.call.show(s.agent, []mailbox.Entry{e}, func() error {
		s.Printf("%s", title)
		s.print()
		return nil
	})
	if errors.Is(err, errMoved) {
		return false, nil
	}
	return true, err
}

// print prints the latest messages of the conversation before the message, the message, those after it, and the choices.
func (s *decision) print() {
	m := s.message
	before, since := s.conversation()
	if more := len(before) - recent; more > 0 {
		s.Printf("earlier: %s (oacp thread %s)\n", spelling.Plural(more, "message"), m.ID.Short())
		before = before[more:]
	}
	s.printLines(before)
	verb, about := "tells you", fmt.Sprintf("%s %s, %s ago", m.Type, m.ID.Short(), spelling.Age(m.CreatedAt.Time(), s.Now()))
	if m.Type.IsRequest() {
		verb = "asks"
	}
	if m.ExpiresAt != "" {
		about += ", " + expiry(m, s.Now())
	}
	s.Printf("%s %s (%s): %s\n", visible.Line(string(m.From)), verb, visible.Line(about), paint(s.Streams, bold, visible.Line(m.Subject)))
	s.printQuestionsBack()
	s.Printf("\n%s\n\n", strings.TrimSuffix(visible.Lines(m.BodyText()), "\n"))
	if more := len(since) - recent; more > 0 {
		since = since[more:]
	}
	if len(since) > 0 {
		s.Printf("since then:\n")
		s.printLines(since)
		s.Printf("\n")
	}
	for _, w := range wordsFor(m) {
		if w.isNumbered() {
			s.Printf("  %s  %s\n", w.key, visible.Line(w.option.Label))
		}
	}
}

// conversation returns a line for each other message of the conversation that came before the message and after it, by age.
func (s *decision) conversation() (before, since []string) {
	thread, err := track.Thread(s.ctx, s.w, string(s.message.ID))
	if err != nil {
		s.Warn("the conversation may have more: " + failure.OneLine(err.Error()))
	}
	thread = slices.DeleteFunc(thread, func(n track.Node) bool { return n.Err != nil || n.Message.ID == s.message.ID })
	slices.SortStableFunc(thread, func(a, b track.Node) int { return schema.CompareAge(a.Message, b.Message) })
	for _, n := range thread {
		first, _, _ := strings.Cut(strings.TrimSpace(n.Message.BodyText()), "\n")
		if n.Stage() == track.StageRecalled {
			first = "taken back"
		}
		line := visible.Line(fmt.Sprintf("%s: %s: %s", n.Message.From, n.Message.Subject, first))
		if schema.CompareAge(n.Message, s.message) < 0 {
			before = append(before, line)
		} else {
			since = append(since, line)
		}
	}
	return before, since
}

func (s *decision) printLines(lines []string) {
	for _, line := range lines {
		s.Printf("%s\n", cells.TruncateString(line, max(s.Width, 20), "…"))
	}
}

// printQuestionsBack prints what the person asked the sender, and whether that is answered.
func (s *decision) printQuestionsBack() {
	progress, err := track.Track(s.ctx, s.w, string(s.message.ID))
	if err != nil {
		s.Warn("there may be questions back: " + failure.OneLine(err.Error()))
	}
	for _, p := range progress {
		for _, r := range p.Replies {
			if p.Agent == s.agent && r.AsksBack() {
				s.Printf("%s\n", visible.Line(r.Asked()))
			}
		}
	}
}

// decide asks until the message is answered or skipped, or waits no more, and reports whether the person quits.
func (s *decision) decide() (quit bool, err error) {
	words := wordsFor(s.message)
	for {
		line, err := s.ask(words.prompt())
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return true, err
		}
		if line == "" {
			continue
		}
		chosen, err := words.find(line)
		if err != nil {
			s.Printf("%s\n", visible.Line(err.Error()))
			continue
		}
		if chosen.does == skips || chosen.does == quits {
			return chosen.does == quits, nil
		}
		if err = s.checkWaits(); err == nil {
			err = s.act(chosen)
		}
		if errors.Is(err, io.EOF) { // instead of a text
			return true, nil
		}
		if errors.Is(err, errNothing) {
			s.Printf("nothing is sent\n")
			continue
		}
		if gone, ok := errors.AsType[goneError](err); ok {
			s.Printf("%s; nothing is sent\n", visible.Line(gone.Error()))
			return false, nil
		}
		if err != nil { // such as an answer from another terminal
			s.Printf("not sent: %s\n", visible.Line(failure.Of(err).Message()))
		}
		if _, answered := errors.AsType[*track.AnsweredError](err); err == nil || answered {
			return false, nil
		}
	}
}

// act does what a word says.
func (s *decision) act(chosen word) (err error) {
	text := ""
	switch {
	case chosen.option.Type == "":
		done, err := s.acts.Acknowledge(s.ctx, string(s.message.ID))
		if err == nil {
			s.Printf("acknowledged: %s, without an answer\n", done.ID.Short())
		}
		return err
	case chosen.does == edits:
		text, err = s.edit()
	case chosen.option.NeedsText:
		text, err = s.ask(chosen.textPrompt())
	}
	if err != nil {
		return err
	}
	return s.answer(chosen.option, text)
}

// A goneError says what became of a message that the person was asked about.
type goneError string

func (e goneError) Error() string { return string(e) }

// checkWaits returns a goneError if the message was taken back or answered meanwhile.
func (s *decision) checkWaits() error {
	_, err := s.w.Pending(s.ctx, string(s.message.ID), s.agent)
	if _, gone := errors.AsType[*mailbox.NotPendingError](err); !gone {
		return err
	}
	progress, err := track.Track(s.ctx, s.w, string(s.message.ID))
	for _, p := range progress {
		switch {
		case p.Agent != s.agent:
		case p.Stage == track.StageRecalled:
			return goneError("taken back by " + string(s.message.From))
		case p.Answer != "":
			return goneError(fmt.Sprintf("handled meanwhile: %s answered with %s", s.agent, p.Answer.Short()))
		}
	}
	return err // it was acknowledged, which is no answer
}

// ask reads a line.
func (s *decision) ask(prompt string) (line string, err error) {
	s.Printf("%s", prompt)
	if err := s.Out.Flush(); err != nil {
		return "", err
	}
	line, err = s.in.ReadString('\n')
	return strings.TrimSpace(line), err
}

// errNothing reports that the person wrote no answer.
var errNothing = errors.New("there is no text")

// answer sends an option with a text.
func (s *decision) answer(option client.Option, text string) error {
	if option.NeedsText && strings.TrimSpace(text) == "" {
		return errNothing
	}
	if err := s.checkWaits(); err != nil { // the person may have written for long
		return err
	}
	request, err := s.acts.Request(s.ctx, string(s.message.ID))
	if err != nil {
		return err
	}
	answer := request.Draft()
	answer.Body, answer.Acknowledge = schema.TextValue(text), option.Acknowledges
	if err := answer.Take(s.message, option); err != nil {
		return err
	}
	p, err := request.Prepare(s.ctx, answer)
	if err != nil {
		return err
	}
	return (&delivery{call: s.call, w: s.w, request: request}).deliver(p)
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
