package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
)

// codexLine is what is read of a line that the exec command prints.
type codexLine struct {
	Type     string     `json:"type"`
	ThreadID string     `json:"thread_id"`
	Item     *codexItem `json:"item"`
	// Usage counts the session.
	Usage *struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"usage"`
	Error *codexFailure `json:"error"`
}

// execArguments is the command line of the exec command. The prompt comes on
// the standard input.
func (c *Codex) execArguments(session string) []string {
	o := &c.options
	args := c.arguments("exec", "--json", "--skip-git-repo-check")
	for _, option := range [][2]string{{"--model", o.Model}, {"--sandbox", o.sandbox}} {
		if option[1] != "" {
			args = append(args, option[0]+"="+option[1])
		}
	}
	if o.approvalPolicy != "" {
		args = append(args, "-c", "approval_policy="+quoted(o.approvalPolicy))
	}
	if session != "" {
		return append(args, "resume", "--", session, "-")
	}
	return append(args, "--", "-")
}

// attemptExec runs the exec command on the prompt.
func (t *codexTurn) attemptExec(ctx context.Context, prompt string) error {
	p, err := t.startExec(ctx)
	if err != nil {
		return err
	}
	p.send([]byte(prompt))
	p.input.close()
	return t.followExec(ctx, p)
}

func (t *codexTurn) startExec(ctx context.Context) (*child, error) {
	c := t.codex
	_, leave, err := c.life.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := startChild(ctx, childSpec{
		path: c.path, command: c.execArguments(c.session), dir: c.options.Dir, env: c.env, grace: c.options.Grace,
		farewell: syscall.SIGINT, // at SIGTERM, it leaves its tools behind
		line: func(p *child, line []byte) {
			var m codexLine
			_ = json.Unmarshal(line, &m) // a line that is no message has no type
			if m.Type == "" {
				p.note(line)
			}
			c.turns.deliver(said{line: line, message: &m})
		},
		complaint: func(text string) { c.turns.deliver(said{complaint: text}) },
	})
	if err != nil {
		return nil, err
	}
	c.command = p
	return p, nil
}

// followExec takes what the command prints until it ends.
func (t *codexTurn) followExec(ctx context.Context, p *child) error {
	done := false
	for {
		select {
		case what := <-t.said:
			done = t.takeExec(what) || done
		case <-p.ended:
			switch {
			case done:
				return t.failure
			case strings.Contains(p.complaints(), "no rollout found"):
				return fmt.Errorf("%w: %s", ErrUnknownSession, t.codex.SessionID())
			}
			return &DiedError{Program: "codex", Complaints: p.complaints(), Err: p.death()}
		case <-t.interrupt:
			return t.halt(ctx, p, ErrInterrupted)
		case <-ctx.Done():
			return t.halt(ctx, p, context.Cause(ctx))
		}
	}
}

// takeExec deals with what the command printed, and reports whether that was
// the end of the turn.
func (t *codexTurn) takeExec(what said) bool {
	if what.line == nil {
		t.spoken.complain(what.complaint)
		t.show(Event{Text: what.complaint, Error: true})
		return false
	}
	m, _ := what.message.(*codexLine)
	event := Event{Raw: what.line}
	switch {
	case m.Type == "":
		event = Event{Text: safeText(string(what.line)) + "\n"}
		t.spoken.complain(event.Text)
	case m.Type == "item.completed" && m.Item != nil && m.Item.Type == "agent_message":
		t.answer, event.Text = m.Item.Text, m.Item.Text
		t.spoken.add(m.Item.Text + "\n")
	}
	if m.Type == "thread.started" {
		t.id = m.ThreadID
		t.codex.adopt(m.ThreadID, false)
	}
	t.show(event)
	switch m.Type {
	case "turn.completed":
		t.failure = nil
		t.countExec(m)
		return true
	case "turn.failed":
		t.failure = &ReportedError{Text: "the turn failed"}
		if m.Error != nil {
			t.failure = m.Error.err()
		}
		return true
	}
	return false
}

// countExec finds out what the turn used up. Of a session that was begun by
// somebody else, that is not known for the first turn.
func (t *codexTurn) countExec(m *codexLine) {
	if m.Usage == nil {
		return
	}
	c := t.codex
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.usedKnown {
		t.usage = Usage{InputTokens: m.Usage.Input - c.used.InputTokens, OutputTokens: m.Usage.Output - c.used.OutputTokens}
	}
	c.used = Usage{InputTokens: m.Usage.Input, OutputTokens: m.Usage.Output}
	c.usedKnown = true
}
