package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// codexTurn is a turn of the codex program.
type codexTurn struct {
	*ongoing
	codex   *Codex
	observe func(Event)

	// spoken is all that the agent said, answer the last of it in this attempt.
	spoken *output
	answer string
	// usage is what this attempt used up, spent what those before did.
	usage, spent Usage
	// before is what the session had used before the turn, once it is known.
	before *codexTokens
	// items are the changes of files that have begun and not ended: a request
	// to approve one names it by its id.
	items map[string]*codexItem
	// id is the program's own id of the turn. With it, the prompt was taken.
	id string
	// failure is the end of a turn that was not a good one.
	failure error
}

// run gives the program the prompt, twice if it dies over it.
func (t *codexTurn) run(ctx context.Context, prompt string, attempt func(context.Context, string) error) error {
	err := attempt(ctx, prompt)
	if _, ok := died(err); !ok || ctx.Err() != nil || t.isInterrupted() || t.codex.life.hasEnded() {
		return err
	}
	if t.id != "" {
		prompt = afterDeath + prompt
	}
	t.id, t.before, t.answer = "", nil, ""
	t.spent, t.usage = t.usage, Usage{}
	t.spoken.restart()
	err = attempt(ctx, prompt)
	if again, ok := died(err); ok {
		again.Again = true
	}
	return err
}

func (t *codexTurn) attempt(ctx context.Context, prompt string) error {
	starting, done := t.interruptible(ctx)
	s, err := t.codex.running(starting)
	done()
	if err != nil {
		return err
	}
	line, answer := s.calls.begin("turn/start", map[string]any{
		"threadId": s.thread, "input": []any{map[string]any{"type": "text", "text": prompt}},
	})
	s.send(line)
	return t.follow(ctx, s, answer)
}

// follow takes what the server says until the turn ends.
func (t *codexTurn) follow(ctx context.Context, s *codexServer, answer <-chan *rpcMessage) error {
	asked := newQuestions(ctx)
	defer asked.end()
	var overdue <-chan time.Time
	interrupt := t.interrupt
	told := true
	for {
		if !told && t.id != "" {
			line, _ := s.calls.begin("turn/interrupt", map[string]any{"threadId": s.thread, "turnId": t.id})
			s.send(line)
			asked.refuse() // after the interrupt, so that no turn goes on without
			told = true
		}
		select {
		case m := <-answer:
			if err := t.accepted(s, m); err != nil {
				return err
			}
		case what := <-t.said:
			if t.take(asked, s, what) {
				return t.failure
			}
		case <-s.ended:
			return &DiedError{Program: "codex", Complaints: s.complaints(), Err: s.death()}
		case <-interrupt:
			interrupt, told, overdue = nil, false, time.After(t.codex.patience)
		case <-overdue:
			return t.halt(ctx, s.child, ErrInterrupted)
		case <-ctx.Done():
			return t.halt(ctx, s.child, context.Cause(ctx))
		}
	}
}

// accepted takes the answer to the request that starts the turn.
func (t *codexTurn) accepted(s *codexServer, m *rpcMessage) error {
	var started struct {
		Turn codexDone `json:"turn"`
	}
	if err := m.decode(&started); err != nil {
		return fmt.Errorf("codex did not take the prompt: %w", err)
	}
	t.begun(s, started.Turn.ID)
	return nil
}

// begun notes that the turn runs.
func (t *codexTurn) begun(s *codexServer, id string) {
	t.id = id
	t.codex.adopt(s.thread, false)
}

// halt stops the program. The next turn starts it again.
func (t *codexTurn) halt(ctx context.Context, p *child, cause error) error {
	t.codex.turns.end()
	return errors.Join(cause, p.stop(context.WithoutCancel(ctx)))
}

// take deals with what the server said, and reports whether that was the end
// of the turn.
func (t *codexTurn) take(asked *questions, s *codexServer, what said) bool {
	if what.line == nil {
		t.spoken.complain(what.complaint)
		t.show(Event{Text: what.complaint, Error: true})
		return false
	}
	m, _ := what.message.(*rpcMessage)
	switch {
	case m == nil:
		text := safeText(string(what.line)) + "\n"
		t.spoken.complain(text)
		t.show(Event{Text: text})
		return false
	case m.isRequest():
		request := readAsked(m, t.items)
		asked.ask(string(m.ID), func(ctx context.Context) []byte {
			return request.decide(ctx, t.codex.options.approve, t.codex.options.MCP)
		}, s.send)
		return false
	}
	var notice codexNotice
	if json.Unmarshal(m.Params, &notice) != nil {
		notice = codexNotice{} // of another shape
	}
	switch m.Method {
	case "serverRequest/resolved":
		asked.withdraw(string(notice.RequestID))
	case "item/started":
		if notice.Item != nil && len(notice.Item.Changes) > 0 {
			t.items[notice.Item.ID] = notice.Item
		}
	case "item/completed":
		if notice.Item != nil {
			delete(t.items, notice.Item.ID)
		}
	}
	if notice.ThreadID != s.thread {
		notice = codexNotice{}
	}
	event := Event{Raw: what.line}
	if item := notice.Item; m.Method == "item/completed" && item != nil && item.Type == "agentMessage" {
		t.answer, event.Text = item.Text, item.Text
		t.spoken.add(item.Text + "\n")
	}
	if m.Method == "error" && notice.Error != nil {
		event.Text, event.Error = safeText(notice.Error.Message)+"\n", true
	}
	t.show(event)
	return t.note(s, m.Method, &notice)
}

// note deals with a notification that concerns the turn itself, and reports
// whether it was its end.
func (t *codexTurn) note(s *codexServer, method string, notice *codexNotice) bool {
	switch {
	case method == "turn/started" && notice.Turn != nil && t.id == "":
		t.begun(s, notice.Turn.ID)
	case method == "thread/tokenUsage/updated" && notice.TokenUsage != nil:
		t.count(s, notice)
	case method == "turn/completed" && notice.Turn != nil && notice.Turn.ID == t.id:
		t.codex.adopt(s.thread, true)
		t.failure = notice.Turn.err()
		return true
	}
	return false
}

// count finds out what the turn has used up from what the session has.
func (t *codexTurn) count(s *codexServer, notice *codexNotice) {
	total, last := notice.TokenUsage.Total, notice.TokenUsage.Last
	if notice.TurnID == t.id {
		if t.before == nil {
			t.before = &codexTokens{total.Input - last.Input, total.Output - last.Output}
			if s.used != nil {
				t.before = s.used
			}
		}
		t.usage = Usage{InputTokens: total.Input - t.before.Input, OutputTokens: total.Output - t.before.Output}
	}
	s.used = &total
}

// err says how a turn ended that did not end well.
func (d *codexDone) err() error {
	switch {
	case d.Status == "interrupted":
		return ErrInterrupted
	case d.Error != nil:
		return d.Error.err()
	case d.Status != "completed":
		return &ReportedError{Text: "the turn ended with status " + d.Status}
	}
	return nil
}

func (t *codexTurn) show(e Event) {
	if t.observe != nil {
		t.observe(e)
	}
}

// result returns what the turn came to. The answer is the last that the agent
// said, or all of it where the turn broke off.
func (t *codexTurn) result() Result {
	result := t.spoken.result()
	if t.answer != "" {
		answer := newOutput(nil)
		answer.add(t.answer)
		last := answer.result()
		result.Text, result.Truncated = last.Text, last.Truncated
	}
	result.Usage = t.spent.plus(t.usage)
	return result
}
