package agent

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestSDKFold(t *testing.T) {
	tests := []struct {
		name     string
		messages []string
		want     Result
		failure  string // empty means none
	}{
		{
			name: "a whole turn",
			messages: []string{
				`{"type":"system","subtype":"init","session_id":"s-1","tools":["Bash"]}`,
				`{"type":"assistant","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"Looking."},{"type":"tool_use","name":"Bash","input":{}}]},"session_id":"s-1"}`,
				`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"ok"}]}}`,
				`{"type":"stream_event","event":{"type":"content_block_delta","delta":{"text":"x"}}}`,
				`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"Done."}]}}`,
				`{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s-2","duration_ms":1200,"total_cost_usd":0.25,"num_turns":2,"permission_denials":[{"tool_name":"Bash","tool_input":{"command":"npm test"}},{"tool_name":"Bash","tool_input":{"command":"npm test"}}],"usage":{"input_tokens":10,"cache_read_input_tokens":5,"cache_creation_input_tokens":1,"output_tokens":7}}`,
			},
			want: Result{
				Text: "Done.", Tail: "Looking.\nDone.\n", LastLine: "Done.", SessionID: "s-2",
				Usage: Usage{Turns: 2, InputTokens: 16, OutputTokens: 7, CostUSD: 0.25}, Refused: []Refusal{{Tool: "Bash", What: "npm test", Count: 2}},
			},
		},
		{
			name:     "no result message",
			messages: []string{`{"type":"assistant","text":"one"}`, `{"type":"assistant","message":{"content":"two"}}`},
			want:     Result{Text: "one\ntwo\n", Tail: "one\ntwo\n", LastLine: "two"},
		},
		{
			name:     "result without text",
			messages: []string{`{"type":"assistant","text":"said"}`, `{"type":"result","subtype":"success"}`},
			want:     Result{Text: "said\n", Tail: "said\n", LastLine: "said"},
		},
		{
			name:     "failure by subtype",
			messages: []string{`{"type":"assistant","text":"so far"}`, `{"type":"result","subtype":"error_during_execution","errors":["too long"],"session_id":"s"}`},
			want:     Result{Text: "so far\n", Tail: "so far\n", LastLine: "so far", SessionID: "s"},
			failure:  "error_during_execution: too long",
		},
		{
			name:     "failure by mark",
			messages: []string{`{"type":"result","subtype":"success","is_error":true,"result":"Credit balance is too low"}`},
			want:     Result{Text: "Credit balance is too low"},
			failure:  "Credit balance is too low",
		},
		{
			name:     "unknown shapes",
			messages: []string{`"text"`, `[1]`, `null`, `{"type":7}`, `{"type":"assistant","message":{"content":{"a":1}}}`, `{"type":"assistant","message":7}`},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fold := &sdkFold{said: newOutput(nil)}
			for _, raw := range test.messages {
				fold.add(readClaude([]byte(raw)))
			}
			got, err := fold.finish()
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("result %+v, want %+v", got, test.want)
			}
			var reported *ReportedError
			if test.failure == "" && err != nil || test.failure != "" && (!errors.As(err, &reported) || !strings.Contains(err.Error(), test.failure)) {
				t.Errorf("error %v, want %q", err, test.failure)
			}
		})
	}
}
