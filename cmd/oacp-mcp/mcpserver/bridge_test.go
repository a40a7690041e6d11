package mcpserver_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/cmd/oacp-mcp/mcpserver"
)

type sentRecord struct {
	ID        string `json:"id"`
	Duplicate bool   `json:"duplicate"`
	RunID     int    `json:"run_id"`
	Line      int    `json:"line"`
	Timestamp string `json:"timestamp"`
}

type received struct {
	Agent    string `json:"agent"`
	Messages []struct {
		ID, Type, From, To, Content, Signal, Timestamp string
	} `json:"messages"`
	More   bool   `json:"more"`
	LastID string `json:"last_id"`
	Next   int    `json:"next_offset"`
}

// TestBridgeConversation is the example flow of AgentPair's bridge page: two agents through two
// servers on one log.
func TestBridgeConversation(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	agents := map[string]*client{"claude": r.client(t, "claude"), "codex": r.client(t, "codex")}
	since := map[string]string{}
	for i, step := range []struct{ from, to, kind, content, signal string }{
		{"claude", "codex", "task", "Add email validation to LoginForm", ""},
		{"codex", "claude", "result", "Added validateEmail function...", ""},
		{"claude", "codex", "review", "Please add error message display", ""},
		{"codex", "claude", "result", "Added error message UI...", ""},
		{"codex", "", "signal", "Validation complete", "DONE"},
		{"claude", "", "signal", "Looks good", "PASS"},
	} {
		args := arguments{"to": step.to, "message_type": step.kind, "content": step.content}
		if step.signal != "" {
			args["signal"] = step.signal
		}
		var sent sentRecord
		agents[step.from].call(t, "send_to_agent", args, &sent)
		id := bridge.GenerateID(bridge.Type(step.kind), step.from, step.to, step.content)
		if sent.ID != id || sent.Duplicate || sent.RunID != 1 || sent.Line != i+1 || sent.Timestamp == "" {
			t.Errorf("step %d: sent %+v, want id %s, run 1 and line %d", i, sent, id, i+1)
		}
		other := "claude"
		if step.from == "claude" {
			other = "codex"
		}
		var got received
		agents[other].call(t, "receive_messages", arguments{"agent": other, "since_id": since[other]}, &got)
		if len(got.Messages) != 1 || got.More || got.LastID == "" {
			t.Fatalf("step %d: %s received %+v, want the one new message %s", i, other, got, id)
		}
		m := got.Messages[0]
		if m.ID != id || m.From != step.from || m.To != step.to || m.Type != step.kind || m.Content != step.content || m.Signal != step.signal {
			t.Errorf("step %d: %s received %+v, want %+v", i, other, m, step)
		}
		since[other] = got.LastID
	}
	var status struct {
		bridge.Status
		Log string
	}
	agents["claude"].call(t, "bridge_status", nil, &status)
	want := bridge.Status{
		TotalMessages: 6, HasDoneSignal: true, PassCount: 1,
		ByAgent: map[string]int{"claude": 3, "codex": 3}, ByType: map[bridge.Type]int{"task": 1, "result": 2, "review": 1, "signal": 2},
	}
	if !reflect.DeepEqual(status.Status, want) || status.Log != r.bridge.Path {
		t.Errorf("the status is %+v, want %+v", status, want)
	}
}

// TestSendTwice checks the answer to the second sender of a message.
func TestSendTwice(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	claude := r.client(t, "claude")
	args := arguments{"to": "codex", "message_type": "task", "content": "Do it"}
	var first, second sentRecord
	claude.call(t, "send_to_agent", args, &first)
	claude.call(t, "send_to_agent", args, &second)
	if second.ID != first.ID || !second.Duplicate || second.Line != 1 {
		t.Errorf("the second send gave %+v, want a duplicate of %+v", second, first)
	}
}

// TestAnotherMessageOfTheSameID checks that no answer claims that a message was sent that is not in
// the log: the documented id leaves out the signal and the ends of fields.
func TestAnotherMessageOfTheSameID(t *testing.T) {
	r := newRoom(t, "claude", "codex", "code")
	claude := r.client(t, "claude")
	claude.call(t, "send_to_agent", arguments{"to": "codex", "message_type": "signal", "signal": "FAIL", "content": "Tests"}, nil)
	text := claude.refuse(t, "send_to_agent", arguments{"to": "codex", "message_type": "signal", "signal": "PASS", "content": "Tests"})
	wantText(t, "a PASS after a FAIL of the same text", text, "duplicate_id: not sent", "signal=FAIL", "hint:", "change the content")
	claude.call(t, "send_to_agent", arguments{"to": "codex", "message_type": "chat", "content": "x"}, nil)
	text = claude.refuse(t, "send_to_agent", arguments{"to": "code", "message_type": "chat", "content": "xx"})
	wantText(t, "another receiver", text, "duplicate_id: not sent", "to=codex")
}

// TestSendRefuses lists the mistakes an agent can make, and the answers.
func TestSendRefuses(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	claude := r.client(t, "claude")
	good := func(change arguments) arguments {
		args := arguments{"to": "codex", "message_type": "task", "content": "Do it"}
		for name, value := range change {
			if args[name] = value; value == nil {
				delete(args, name)
			}
		}
		return args
	}
	for _, test := range []struct {
		name   string
		change arguments
		wants  []string
	}{
		{"unknown agent", arguments{"to": "codx"}, []string{"unknown_agent: ", `"codx"`, "did you mean codex?"}},
		{"far agent", arguments{"to": "everybody"}, []string{"unknown_agent: ", "hint: there are claude, codex"}},
		{"path as agent", arguments{"to": "../codex"}, []string{"../codex"}},
		{"itself", arguments{"to": "claude"}, []string{"usage: ", "which is you"}},
		{"no receiver", arguments{"to": nil}, []string{"usage: ", `missing properties: ["to"]`}},
		{"misspelt type", arguments{"message_type": "taks"}, []string{"usage: ", "/properties/message_type", "taks", "[task result review signal chat]"}},
		{"type of the mailbox", arguments{"message_type": "task_request"}, []string{"[task result review signal chat]"}},
		{"type as number", arguments{"message_type": 7}, []string{"/properties/message_type", "7"}},
		{"signal without signal", arguments{"message_type": "signal"}, []string{"needs the argument signal: DONE, PASS or FAIL"}},
		{"small signal", arguments{"message_type": "signal", "signal": "done"}, []string{"/properties/signal", "DONE"}},
		{"signal with a task", arguments{"signal": "DONE"}, []string{"requires message_type signal, not task"}},
		{"empty", arguments{"content": " \n"}, []string{"content is empty"}},
		{"misspelt argument", arguments{"messageType": "task"}, []string{"usage: ", `"messageType"`}},
		{"unknown argument", arguments{"from": "gemini"}, []string{"usage: ", `"from"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			wantText(t, "the answer", claude.refuse(t, "send_to_agent", good(test.change)), test.wants...)
		})
	}
	if data, err := os.ReadFile(r.bridge.Path); len(data) > 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("refused calls wrote %q into the log (%v)", data, err)
	}
}

// TestReceiveIsRepeatable checks that an unread answer loses no messages.
func TestReceiveIsRepeatable(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	claude := r.client(t, "claude")
	for i := range 5 {
		claude.call(t, "send_to_agent", arguments{"to": "codex", "message_type": "chat", "content": fmt.Sprint("part ", i)}, nil)
	}
	var before, after received
	inMemory(t, r.server(t, "codex")).call(t, "receive_messages", nil, &before)
	codex := r.client(t, "codex")
	codex.call(t, "receive_messages", nil, &after)
	if len(before.Messages) != 5 || len(after.Messages) != 5 || before.LastID != after.LastID {
		t.Errorf("two clients received %d and %d messages, want the same 5", len(before.Messages), len(after.Messages))
	}
	var nothing received
	text := codex.call(t, "receive_messages", arguments{"since_id": after.LastID}, &nothing)
	if text == "" || nothing.LastID != after.LastID || nothing.Messages == nil {
		t.Errorf("with nothing new: %q, %+v, want an empty array and the same last_id", text, nothing)
	}
}

// TestReceiveInParts reads a log through answers of bounded size, and messages that are larger than
// an answer in parts.
func TestReceiveInParts(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	claude, codex := r.client(t, "claude"), r.client(t, "codex")
	contents := []string{"1", "2", "3", strings.Repeat("four ", 900), strings.Repeat("5", 5000), strings.Repeat("sechs: äöü\n", 3000), "7",
		strings.Repeat("[1] from=claude\n", 2000), "9"}
	for _, content := range contents {
		claude.call(t, "send_to_agent", arguments{"to": "codex", "message_type": "chat", "content": content}, nil)
	}
	var all []string
	var part string
	for args := (arguments{"limit": 3}); ; {
		var got received
		codex.call(t, "receive_messages", args, &got)
		for _, m := range got.Messages {
			all = append(all, part+m.Content)
			part = ""
		}
		if args["since_id"], args["offset"] = got.LastID, got.Next; got.Next > 0 {
			part, all = all[len(all)-1], all[:len(all)-1]
			if !got.More || len(got.Messages) != 1 {
				t.Errorf("with a part came %d messages, more %t, want the part alone", len(got.Messages), got.More)
			}
			if utf8.RuneCountInString(part) != got.Next {
				t.Errorf("next_offset is %d after %d characters", got.Next, utf8.RuneCountInString(part))
			}
		} else if !got.More {
			break
		}
	}
	if !slices.Equal(all, contents) {
		t.Errorf("received %d messages, want the %d that were sent", len(all), len(contents))
	}
	for args, want := range map[*arguments]string{
		{"offset": 1}:  "offset is 1, but the message has only 1 characters",
		{"offset": -1}: "/properties/offset",
	} {
		wantText(t, "a wrong offset", codex.refuse(t, "receive_messages", *args), want)
	}
}

// TestReceiveRefuses lists what an agent can get wrong when it receives.
func TestReceiveRefuses(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	codex := r.client(t, "codex")
	unknown := func() string {
		return codex.refuse(t, "receive_messages", arguments{"since_id": strings.Repeat("ab", 32)})
	}
	wantText(t, "an unknown id before there is a log", unknown(), "not_found: since_id", "leave since_id out")
	r.client(t, "claude").call(t, "send_to_agent", arguments{"to": "codex", "message_type": "task", "content": "x"}, nil)
	wantText(t, "an unknown id", unknown(), "not_found: since_id", r.bridge.Path, "leave since_id out")
	for _, test := range []struct {
		args arguments
		want string
	}{
		{arguments{"since_id": "1"}, "not_found: since_id"},
		{arguments{"agent": "claude"}, `this server receives only for codex, not for "claude"`},
		{arguments{"limit": 501}, "/properties/limit: maximum"},
		{arguments{"limit": -1}, "/properties/limit: minimum"},
		{arguments{"limit": 1.5}, "/properties/limit: type"},
		{arguments{"since": "x"}, `"since"`},
	} {
		wantText(t, fmt.Sprint(test.args), codex.refuse(t, "receive_messages", test.args), test.want)
	}
	if text := codex.refuse(t, "bridge_status", arguments{"run": 1}); !strings.Contains(text, `"run"`) {
		t.Errorf("an argument of bridge_status: %q", text)
	}
}

// TestForeignLog reads a log that careless programs wrote: repeated ids, ids that are not a hash,
// bad lines, unknown types.
func TestForeignLog(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	lines := []string{
		`{"id":"one","run_id":7,"type":"task","from":"claude","to":"codex","content":"a","signal":"","timestamp":"2024-03-28T10:00:00Z"}`,
		`not a record`,
		`{"id":"two","run_id":7,"type":"poem","from":"x\ny","to":"codex","content":"b","signal":"","timestamp":"2024-03-28T10:00:01Z","metadata":{"k":[1]}}`,
		`{"id":"one","run_id":7,"type":"task","from":"claude","to":"codex","content":"a","signal":"","timestamp":"2024-03-28T10:00:02Z"}`,
		`{"id":"torn`,
	}
	if err := os.MkdirAll(filepath.Dir(r.bridge.Path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.bridge.Path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	codex := r.client(t, "codex")
	var got received
	codex.call(t, "receive_messages", nil, &got)
	if len(got.Messages) != 3 || got.Messages[1].From != "x\ny" || got.Messages[1].Type != "poem" {
		t.Errorf("received %+v, want each record that is one", got)
	}
	codex.call(t, "receive_messages", arguments{"since_id": "two"}, &got)
	if len(got.Messages) != 1 || got.Messages[0].ID != "one" {
		t.Errorf("since two received %+v, want the last record", got)
	}
	var status bridge.Status
	codex.call(t, "bridge_status", nil, &status)
	if status.TotalMessages != 3 || status.ByType["poem"] != 1 || status.SkippedLines != 1 {
		t.Errorf("the status is %+v, want three messages, a poem and a line that was skipped", status)
	}
}

// TestReceiveSharedIDs checks that records that share an id are all received, each once, whatever the arguments.
func TestReceiveSharedIDs(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	line := func(id, signal, content string) string {
		return fmt.Sprintf(`{"id":%q,"run_id":7.0,"type":"signal","from":"claude","to":"codex","content":%q,"signal":%q,"timestamp":"2024-03-28T10:00:00Z"}`, id, content, signal) + "\n"
	}
	id := bridge.GenerateID("signal", "claude", "codex", "Tests")
	log := line(id, "FAIL", "Tests") + line("a@1", "DONE", "x") + line(id, "FAIL", "Tests") + line(id, "PASS", "Tests") +
		line("a", "DONE", "y") + line("a", "DONE", "z")
	want := []string{"FAIL Tests", "DONE x", "FAIL Tests", "PASS Tests", "DONE y", "DONE z"}
	if err := os.MkdirAll(filepath.Dir(r.bridge.Path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.bridge.Path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	codex := r.client(t, "codex")
	for limit := 1; limit <= len(want); limit++ {
		var all []string
		var end string
		for since := ""; ; {
			var got received
			codex.call(t, "receive_messages", arguments{"since_id": since, "limit": limit}, &got)
			for _, m := range got.Messages {
				all = append(all, m.Signal+" "+m.Content)
			}
			if len(all) > len(want) {
				t.Fatalf("limit %d: received %q, want %q", limit, all, want)
			}
			if since = got.LastID; !got.More {
				end = since
				break
			}
		}
		if !slices.Equal(all, want) {
			t.Errorf("limit %d: received %q, want %q", limit, all, want)
		}
		var nothing received
		codex.call(t, "receive_messages", arguments{"since_id": end}, &nothing)
		if len(nothing.Messages) != 0 || nothing.LastID != end {
			t.Errorf("since the last one came %+v, want nothing", nothing)
		}
	}
	for _, wrong := range []string{id + "@2", id + "@", id + "@04", "@1", "a@7"} {
		wantText(t, wrong, codex.refuse(t, "receive_messages", arguments{"since_id": wrong}), "not_found: since_id")
	}
}

// receiveAll returns the ids of all messages of a log, in which none is longer than an answer.
func (c *client) receiveAll(t *testing.T) (ids []string) {
	t.Helper()
	for got := (received{More: true}); got.More; {
		since := got.LastID
		got = received{}
		c.call(t, "receive_messages", arguments{"since_id": since}, &got)
		for _, m := range got.Messages {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// TestManySenders lets two servers send at once, as two agents would.
func TestManySenders(t *testing.T) {
	r := newRoom(t, "claude", "codex", "gemini")
	const each = 40
	var senders sync.WaitGroup
	for _, agent := range []string{"claude", "gemini"} {
		c := r.client(t, "claude")
		if agent == "gemini" {
			c = r.client(t, "gemini")
		}
		senders.Go(func() {
			for i := range each {
				text, isError, _ := c.try(t, "send_to_agent", arguments{"to": "codex", "message_type": "chat", "content": fmt.Sprint(i / 2)})
				if isError {
					t.Errorf("%s: %s", agent, text)
				}
			}
		})
	}
	senders.Wait()
	if got := r.client(t, "codex").receiveAll(t); len(got) != each {
		t.Errorf("received %d messages, want %d: two times %d distinct ones", len(got), each, each/2)
	}
}

// TestUnusableLog checks that the error of a log that is no file names its path.
func TestUnusableLog(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	if err := errors.Join(os.RemoveAll(r.bridge.Path), os.Mkdir(r.bridge.Path, 0o700)); err != nil {
		t.Fatal(err)
	}
	_, err := mcpserver.New(mcpserver.Options{Agent: "claude", Workspace: r.workspace, Bridge: &r.bridge})
	if err == nil || !strings.Contains(err.Error(), r.bridge.Path) {
		t.Errorf("New gave %v, want an error that names the log", err)
	}
}
