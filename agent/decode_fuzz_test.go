package agent

import (
	"encoding/json"
	"testing"
)

// FuzzClaudeLine checks that the driver copes with any line from claude, and answers requests for
// permission with a line of JSON.
func FuzzClaudeLine(f *testing.F) {
	for _, seed := range []string{
		`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"hi"}]},"error":"rate_limit","session_id":"s"}`,
		`{"type":"result","is_error":true,"result":"API Error: 5","errors":["x"],"usage":{"input_tokens":-1},"model_usage_since_last_result":{"a":{"costUSD":1}}}`,
		`{"type":"control_request","request_id":"1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"a":1e400}}}`,
		`{"type":"control_request","request":{"subtype":"can_use_tool"}}`, `{"type":"system","subtype":"api_retry","error":7}`, `{"type":7}`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		fold := &sdkFold{said: newOutput(nil)}
		fold.add(readClaude(line))
		_, _ = fold.finish()
		m := readClaude(line)
		if m == nil {
			return
		}
		if m.Type == "" {
			t.Errorf("%q is read as a message without a type", line)
		}
		if e := m.apiError(m.Error); e != nil && e.Error() == "" {
			t.Errorf("%q is a failure that says nothing", line)
		}
		_, _, _ = m.retried(), m.isRefusal(), m.cost(1)
		for _, r := range claudeRefusals(m.Denials, nil) {
			if len(r.Tool) > maxQuote || len(r.What) > maxQuote+len("…") || r.Count < 1 {
				t.Errorf("%q has the refusal %+v", line, r)
			}
		}
		for _, reason := range []string{"", "no"} {
			answer := claudeDecide(m, func(claudeDenial) string { return reason })
			if !json.Valid(answer) || readClaude(answer).Type != "control_response" {
				t.Errorf("%q is answered with %q", line, answer)
			}
		}
	})
}

// FuzzCodexLine does the same for the lines of codex.
func FuzzCodexLine(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"method":"item/commandExecution/requestApproval","params":{"threadId":"t"}}`,
		`{"id":"x","method":"mcpServer/elicitation/request","params":{"serverName":"oacp","_meta":{"codex_approval_kind":"mcp_tool_call"}}}`,
		`{"id":null,"method":"item/permissions/requestApproval","params":{"permissions":{"a":[]}}}`,
		`{"id":7,"error":{"code":-32600,"message":"no rollout found"}}`, `{"method":"turn/completed","params":7}`, `{"id":{}}`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m := readRPC(line)
		if m == nil {
			return
		}
		if m.isResponse() {
			_ = m.decode(&struct{}{})
			return
		}
		if !m.isRequest() {
			return
		}
		for _, reason := range []string{"", "no"} {
			answer := readRPC(codexAnswer(m, func(string, string) string { return reason }))
			if answer == nil || !answer.isResponse() || answer.Error == nil && answer.Result == nil {
				t.Errorf("%q is answered with %+v", line, answer)
			}
		}
	})
}
