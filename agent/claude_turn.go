package agent

import (
	"context"
	"errors"
	"slices"
	"time"
)

// claudeTurn is a turn of the claude program.
type claudeTurn struct {
	*ongoing
	claude  *Claude
	observe func(Event)
	fold    *sdkFold

	// id is the id of the message that carries the prompt, and acknowledged
	// says that the program has taken it.
	id           string
	acknowledged bool
	// word tells of a failure of the model's service.
	word  string
	final *claudeMessage
	// background is what was used up by what ran in the background since the
	// turn before.
	background Usage
}

// afterDeath goes before a prompt that the program had taken when it died.
const afterDeath = "[The program that ran you ended unexpectedly in the middle of the request below, and was started again. " +
	"Some of the work may be done already: look at the state of things before you do any of it again.]\n\n"

// run gives the program the prompt, twice if it dies over it.
func (t *claudeTurn) run(ctx context.Context, prompt string) error {
	err := t.attempt(ctx, prompt)
	if _, ok := died(err); !ok || ctx.Err() != nil || t.isInterrupted() || t.claude.life.hasEnded() {
		return err
	}
	if t.acknowledged {
		prompt = afterDeath + prompt
	}
	t.fold.said.restart()
	err = t.attempt(ctx, prompt)
	if errors.Is(err, ErrUnknownSession) && t.claude.forget() {
		err = t.attempt(ctx, prompt)
	}
	if again, ok := died(err); ok {
		again.Again = true
	}
	return err
}

// catchUp tells of what happened since the turn before.
func (t *claudeTurn) catchUp() {
	events, used := t.claude.background.take()
	t.background = used
	for _, event := range events {
		t.show(event)
	}
}

func (t *claudeTurn) attempt(ctx context.Context, prompt string) error {
	starting, done := t.interruptible(ctx)
	p, err := t.claude.running(starting)
	done()
	if err != nil {
		return err
	}
	t.id, t.acknowledged, t.word = newUUID(), false, ""
	p.send(claudePrompt(t.id, prompt))
	return t.follow(ctx, p)
}

// follow takes what the program says until the turn ends.
func (t *claudeTurn) follow(ctx context.Context, p *claudeProcess) error {
	asked := newQuestions(ctx)
	defer asked.end()
	var overdue <-chan time.Time
	interrupt := t.interrupt
	told := true
	for {
		if !told && t.acknowledged {
			// Before it had the prompt, there may have been nothing to end.
			p.send(claudeAsk(newUUID(), "interrupt"))
			told = true
		}
		select {
		case s := <-t.said:
			if t.take(asked, p, s) {
				return nil
			}
		case <-p.ended:
			return p.endError()
		case <-interrupt:
			p.send(claudeAsk(newUUID(), "interrupt"))
			asked.refuse()
			interrupt, told, overdue = nil, t.acknowledged, time.After(t.claude.patience)
		case <-overdue:
			return t.halt(ctx, p, ErrInterrupted)
		case <-ctx.Done():
			return t.halt(ctx, p, context.Cause(ctx))
		}
	}
}

// halt stops the program. The next turn starts it again.
func (t *claudeTurn) halt(ctx context.Context, p *claudeProcess, cause error) error {
	t.claude.turns.end()
	return errors.Join(cause, p.stop(context.WithoutCancel(ctx)))
}

// take deals with what the program said, and reports whether that was the end
// of the turn.
func (t *claudeTurn) take(asked *questions, p *claudeProcess, s said) bool {
	if s.line == nil {
		t.fold.said.complain(s.complaint)
		t.show(Event{Text: s.complaint, Error: true})
		return false
	}
	m, _ := s.message.(*claudeMessage)
	if m == nil {
		text := safeText(string(s.line)) + "\n"
		t.fold.said.complain(text)
		t.show(Event{Text: text})
		return false
	}
	switch m.Type {
	case "control_request":
		asked.ask(m.RequestID, func(ctx context.Context) []byte {
			return claudeReply(claudeDecide(ctx, m, t.claude.options.approve, t.claude.options.MCP))
		}, p.send)
		return false
	case "control_cancel_request":
		asked.withdraw(m.RequestID)
		return false
	}
	named := slices.Contains(m.UserMessages, t.id)
	if m.Type == "result" && !named && (len(m.UserMessages) > 0 || !t.acknowledged) {
		// Of something that ran in the background.
		t.background = t.background.plus(m.used)
		t.show(Event{Raw: s.line})
		return false
	}
	event := Event{Raw: s.line, Text: t.fold.add(s.line)}
	if retry := m.retry(); retry != "" {
		event.Text, event.Error = retry, true
	}
	t.claude.adopt(m.SessionID, m.Type == "result")
	t.show(event)
	switch m.Type {
	case "user":
		t.acknowledged = t.acknowledged || m.IsReplay && m.UUID == t.id
	case "assistant":
		t.word = m.failureWord()
	case "result":
		t.final = m
		return true
	}
	t.acknowledged = t.acknowledged || named
	return false
}

func (t *claudeTurn) show(e Event) {
	if t.observe != nil {
		t.observe(e)
	}
}

// result returns what the turn came to, and an error if the program says that
// it failed.
func (t *claudeTurn) result() (Result, error) {
	result, failure := t.fold.finish()
	result.Usage = t.background
	if t.final != nil {
		result.Usage = result.Usage.plus(t.final.used)
	}
	if t.final != nil && t.final.IsError {
		if e := t.final.apiError(t.word); e != nil {
			failure = e
		}
	}
	return result, failure
}
