package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// codexTurn is a turn of the codex program.
type codexTurn struct {
	*residentTurn
	server *codexServer
	// request is the id of the request that starts the turn.
	request json.RawMessage

	// spoken is all that the agent said, answer the last of it.
	spoken *output
	answer string
	usage  Usage
	// refusals is what the agent was not permitted to do.
	refusals []Refusal
	// before is what the session had used before the turn, once it is known.
	before *codexTokens
	// id is the program's own id of the turn, which it has from the moment it has taken the prompt.
	id string
	// failure is how the turn ended, if it did not end well.
	failure error
}

func (s *codexServer) begin(t *residentTurn) exchange {
	line, id := s.calls.request("turn/start", map[string]any{
		"threadId": s.thread, "input": []any{map[string]any{"type": "text", "text": t.request.Prompt}},
	})
	s.send(line)
	return &codexTurn{residentTurn: t, server: s, request: id, spoken: newOutput(nil)}
}

func (t *codexTurn) accepted() bool { return t.id != "" }

func (t *codexTurn) interrupt() {
	line, _ := t.server.calls.request("turn/interrupt", map[string]any{"threadId": t.server.thread, "turnId": t.id})
	t.server.send(line)
}

func (t *codexTurn) take(s said) bool {
	m, _ := s.message.(*rpcMessage)
	switch {
	case m == nil:
		t.show(t.spoken.plain(s))
		return false
	case m.isRequest():
		t.server.send(codexAnswer(m, func(server, command string) string {
			_, trusted := t.driver.options.MCP[server]
			reason := t.denial(trusted, command)
			if reason == unattended && server != "" { // the items of a turn report other refusals
				t.refuse(Refusal{Tool: "MCP server", What: server, Count: 1, Allow: PermitAll})
			}
			return reason
		}))
		return false
	case m.isResponse():
		return bytes.Equal(m.ID, t.request) && t.refused(m)
	}
	var notice codexNotice
	var mistyped *json.UnmarshalTypeError // items of other types have fields of other shapes
	if err := json.Unmarshal(m.Params, &notice); err != nil && !errors.As(err, &mistyped) || notice.ThreadID != t.server.thread {
		notice = codexNotice{} // of another shape, or about another thread
	}
	event := Event{Raw: s.line}
	if item := notice.Item; m.Method == "item/completed" && item != nil && item.Type == "agentMessage" {
		t.answer, event.Text = item.Text, item.Text
		t.spoken.add(item.Text + "\n")
	} else if m.Method == "item/completed" && item != nil {
		t.noteRefusal(item)
	}
	switch {
	case m.Method == "item/started" && notice.Item != nil:
		event.Acts = notice.Item.calls()
	case m.Method == "error" && notice.Error != nil:
		event.Text, event.Error = safeText(notice.Error.Message)+"\n", true
		if notice.WillRetry {
			t.retry(&event, notice.Error.retried())
		}
	}
	t.show(event)
	return t.note(m.Method, &notice)
}

// noteRefusal notes an item that was not permitted. A sandbox in which the agent may work permits
// changes of files in its folder.
func (t *codexTurn) noteRefusal(item *codexItem) {
	refusal, ok := item.refusal()
	if !ok || t.isInterrupted() {
		return
	}
	if item.Type == "fileChange" && t.driver.options.Allow != PermitEdits {
		refusal.Allow = PermitEdits
	}
	t.refuse(refusal)
}

func (t *codexTurn) refuse(r Refusal) { t.refusals = mergeRefusals(t.refusals, []Refusal{r}) }

// refused takes the answer to the request that starts the turn. It reports whether the server
// refused to start it.
func (t *codexTurn) refused(m *rpcMessage) bool {
	var started struct {
		Turn codexDone `json:"turn"`
	}
	if err := m.decode(&started); err != nil {
		t.failure = fmt.Errorf("codex did not take the prompt: %w", err)
		return true
	}
	t.begun(started.Turn.ID)
	return false
}

// begun notes that the turn runs.
func (t *codexTurn) begun(id string) {
	t.id = id
	t.driver.adopt(t.server.thread, false)
}

// note handles a notification about the turn itself, and reports whether the turn is over.
func (t *codexTurn) note(method string, notice *codexNotice) bool {
	switch {
	case method == "turn/started" && notice.Turn != nil && t.id == "":
		t.begun(notice.Turn.ID)
	case method == "thread/tokenUsage/updated" && notice.TokenUsage != nil:
		t.count(notice)
	case method == "turn/completed" && notice.Turn != nil && notice.Turn.ID == t.id:
		t.driver.adopt(t.server.thread, true)
		t.failure = notice.Turn.err()
		return true
	}
	return false
}

// count derives what the turn has used up from what the session has.
func (t *codexTurn) count(notice *codexNotice) {
	s := t.server
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

// result returns the last that the agent said as the answer, or all of it if the turn broke off.
func (t *codexTurn) result() (Result, error) {
	result := t.spoken.result()
	if t.answer != "" {
		result.setAnswer(t.answer)
	}
	result.Usage, result.Refused = t.usage, t.refusals
	return result, t.failure
}
