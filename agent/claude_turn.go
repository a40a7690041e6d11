package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// claudeTurn is a turn of the claude program.
type claudeTurn struct {
	*residentTurn
	process *claudeProcess
	fold    *sdkFold

	// id is the id of the message that carries the prompt.
	id           string
	acknowledged bool
	// word names a failure of the model's service.
	word  string
	final *claudeMessage
	// background is what ran in the background used up since the previous turn.
	background Usage
	// denied are the uses of tools that the driver denied, and the permissions that allow them.
	denied map[string]Permission
}

func (p *claudeProcess) begin(t *residentTurn) exchange {
	turn := &claudeTurn{residentTurn: t, process: p, fold: newSDKFold(), id: newUUID(), denied: make(map[string]Permission)}
	p.counting.Lock()
	turn.background, p.background = p.background, Usage{}
	p.counting.Unlock()
	p.send(claudePrompt(turn.id, t.request.Prompt))
	return turn
}

func (t *claudeTurn) accepted() bool { return t.acknowledged }

func (t *claudeTurn) interrupt() { t.process.send(claudeAsk(newUUID(), "interrupt")) }

func (t *claudeTurn) take(s said) bool {
	m, _ := s.message.(*claudeMessage)
	switch {
	case m == nil:
		t.show(t.fold.said.plain(s))
		return false
	case m.Type == "control_request":
		t.process.send(claudeDecide(m, func(use claudeDenial) string {
			reason := t.denial(ofServer(use.Tool, t.driver.options.MCP), use.command())
			if reason == unattended {
				t.denied[use.ID] = use.permission(t.driver.options.Allow)
			}
			return reason
		}))
		return false
	case m.Type == "control_cancel_request", m.isPartial() && !t.request.Partial:
		return false
	}
	named := slices.Contains(m.UserMessages, t.id)
	if m.Type == "result" && !named && (len(m.UserMessages) > 0 || !t.acknowledged) {
		// The result of something that ran in the background.
		t.background = t.background.Plus(m.used)
		t.show(Event{Raw: s.line})
		return false
	}
	event := Event{Raw: s.line, Text: t.fold.add(m), Acts: m.calls()}
	if failure := m.retried(); failure != nil {
		t.retry(&event, failure)
	}
	if m.SessionID != "" {
		t.driver.adopt(m.SessionID, m.Type == "result")
	}
	t.show(event)
	switch m.Type {
	case "user":
		t.acknowledged = t.acknowledged || m.IsReplay && m.UUID == t.id
	case "assistant":
		t.word = m.Error
	case "result":
		t.final = m
		return true
	}
	t.acknowledged = t.acknowledged || named
	return false
}

func (t *claudeTurn) result() (Result, error) {
	result, failure := t.fold.finish()
	result.Usage = t.background
	if t.final != nil {
		result.Usage = result.Usage.Plus(t.final.used)
		result.Refused = claudeRefusals(t.final.Denials, t.denied)
	}
	if t.final != nil && t.final.IsError {
		if e := t.final.apiError(t.word); e != nil {
			failure = e
		}
	}
	return result, failure
}

// claudeDecide answers a control request. The function returns why the program may not use a tool,
// "" if it may.
func claudeDecide(m *claudeMessage, denial func(use claudeDenial) string) []byte {
	request := cmp.Or(m.Request, &claudeRequest{})
	if request.Subtype != "can_use_tool" {
		text := fmt.Sprintf("this client does not answer requests of type %.40q", request.Subtype)
		return claudeReply(claudeResponse{Subtype: "error", RequestID: m.RequestID, Error: text})
	}
	answer := map[string]any{"behavior": "allow", "updatedInput": request.Input}
	use := request.claudeDenial
	use.Input = request.Input
	if reason := denial(use); reason != "" {
		answer = map[string]any{"behavior": "deny", "message": reason}
	}
	return claudeReply(claudeResponse{Subtype: "success", RequestID: m.RequestID, Response: mustJSON(answer)})
}

// ofServer reports whether a tool belongs to one of the servers, judged by the name that the
// program gives it. The program joins the names of server and tool with two underscores, although
// either may contain some itself: a name that could also belong to another server does not count.
func ofServer(tool string, servers map[string]MCPServer) bool {
	for name := range servers {
		own, ok := strings.CutPrefix(tool, "mcp__"+name+"__")
		if ok && own != "" && !strings.HasPrefix(own, "_") && !strings.Contains(own, "__") {
			return true
		}
	}
	return false
}
