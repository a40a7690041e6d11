package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// TestFailures lists the answers for errors of other packages that a test cannot provoke from
// outside.
func TestFailures(t *testing.T) {
	cause := errors.New("disk is full")
	for _, test := range []struct {
		err  error
		want []string
	}{
		{cause, []string{"failed: disk is full"}},
		{&mailbox.QueuedError{ID: "msg-1", Agents: []schema.AgentName{"codex"}, Err: cause}, []string{"queued: ", "msg-1 is sent", "codex", "disk is full", "hint: do not send it again"}},
		{&mailbox.NotDurableError{Done: "message msg-1 is sent", Err: cause}, []string{"not_durable: ", "msg-1 is sent, but", "hint: it is done: do not repeat it"}},
		{fmt.Errorf("append: %w: %w", bridge.ErrNotSynced, cause), []string{"not_durable: ", "do not repeat it"}},
		{fmt.Errorf("lock: %w", context.DeadlineExceeded), []string{"timeout: ", "check before you repeat it"}},
		{fmt.Errorf("call: %w", context.Canceled), []string{"cancelled: ", "check before you repeat it"}},
		{&fs.PathError{Op: "open", Path: "/x/inbox", Err: fs.ErrPermission}, []string{"permission: ", "/x/inbox", "a person"}},
		{&mailbox.UnknownAgentError{Agent: "x", Workspace: "/w"}, []string{"unknown_agent: ", "hint: there are none"}},
		{argumentErrorf("one"), []string{"usage: one"}},
	} {
		got := failed(test.err)
		text := got.Content[0].(*mcp.TextContent).Text
		for _, want := range test.want {
			if !got.IsError || !strings.Contains(text, want) {
				t.Errorf("%v became %q (error: %t), want an error that holds %q", test.err, text, got.IsError, want)
			}
		}
	}
}

func resolved[In any](t testing.TB) *jsonschema.Resolved {
	t.Helper()
	s, err := inputSchema[In]().Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestArguments lists arguments that no client of the SDK sends.
func TestArguments(t *testing.T) {
	send := resolved[sendMessageInput](t)
	for _, test := range []struct{ raw, want string }{
		{``, `missing properties: ["to"`},
		{`null`, `missing properties: ["to"`},
		{`[]`, "not a JSON object"},
		{`{"to":`, "not a JSON object"},
		{`{"TO":"codex"}`, `["TO"]`},
	} {
		var in sendMessageInput
		err := decodeArguments([]byte(test.raw), send, &in)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s gave %v, want an error that holds %q", test.raw, err, test.want)
		}
	}
	if err := decodeArguments([]byte("{\"to\":\"codex\",\"type\":\"question\",\"subject\":\"S\",\"body\":\"\xff\"}"), send, new(sendMessageInput)); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Errorf("bytes that are not UTF-8 gave %v, want them refused", err)
	}
	s := resolved[replyMessageInput](t)
	var in replyMessageInput
	if err := decodeArguments([]byte(`{"message_id":"x","body":{"a":1,"a":2}}`), s, &in); err == nil || !strings.Contains(err.Error(), `"a" is repeated`) {
		t.Errorf("a repeated key of a body gave %v, want an error that names it", err)
	}
}

// TestWholeNumbers checks that a whole number is an integer however it is written, since JSON has
// only one kind of number.
func TestWholeNumbers(t *testing.T) {
	for _, test := range []struct {
		limit, want string // the number that is read, or what the error says
	}{
		{"100", "100"}, {"1e2", "100"}, {"1.0", "1"}, {"100.00E0", "100"}, {"5e-1", "type: "}, {"1.5", "type: "},
		{"1e20", "maximum: "}, {"99999999999999999999", "maximum: "}, {"1e999999999", "cannot be read"},
	} {
		var in receiveMessagesInput
		err := decodeArguments([]byte(`{"limit":`+test.limit+`}`), resolved[receiveMessagesInput](t), &in)
		if got := fmt.Sprint(in.Limit, err); !strings.Contains(got, test.want) {
			t.Errorf("limit %s: got %s, want %s", test.limit, got, test.want)
		}
	}
	var in sendMessageInput
	args := `{"to":"codex","type":"question","subject":"S","body":"B","related_pr":4.2e1}`
	if err := decodeArguments([]byte(args), resolved[sendMessageInput](t), &in); err != nil || in.RelatedPR != "42" {
		t.Errorf("related_pr 4.2e1: got %q, %v, want 42", in.RelatedPR, err)
	}
}

// FuzzArguments checks that whatever a client sends is refused with a reason, or read with values
// that the schema allows.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		`{"to":"codex","type":"question","subject":"S","body":"B"}`,
		`{"to":"a,b","type":"handoff","subject":"S","body":{"a":[1,null,{"b":"c"}]},"related_pr":42,"priority":null}`,
		`{"to":7}`, `null`, `[`, `{"to":"a","to":"b"}`, "{\"subject\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	s := resolved[sendMessageInput](f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var in sendMessageInput
		err := decodeArguments(raw, s, &in)
		if err != nil {
			var reason *argumentError
			if !errors.As(err, &reason) || reason.problem == "" {
				t.Errorf("%q gave %v, want an error for the caller that says something", raw, err)
			}
			return
		}
		if !in.Type.Known() || in.Priority != "" && !in.Priority.Known() {
			t.Errorf("%q was read with type %q and priority %q, want known ones", raw, in.Type, in.Priority)
		}
	})
}
