package mcpserver_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/schema"
)

// What a model may have to read, in tokens as live.Tokens estimates them. docs/mcp.md names both.
const (
	mostTokensOfTools  = 1610
	mostTokensOfAll    = 2275 // the tools, those of the bridge too, and the instructions
	mostTokensOfAnswer = 2500
)

// asJSON is a value as a model gets it: not escaped for a page.
func asJSON(t testing.TB, value any) string {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestToolsAreCheap measures what the list of tools and the instructions cost.
func TestToolsAreCheap(t *testing.T) {
	c := newRoom(t, "claude", "codex").client(t, "codex")
	tools, err := c.session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	all, hello := live.Tokens(asJSON(t, tools)), live.Tokens(c.session.InitializeResult().Instructions)
	mail := *tools
	mail.Tools = slices.DeleteFunc(slices.Clone(tools.Tools), func(tool *mcp.Tool) bool { return slices.Contains(bridgeTools, tool.Name) })
	list := live.Tokens(asJSON(t, mail))
	t.Logf("%d tokens for the tools, %d with those of the bridge, %d for the instructions", list, all, hello)
	if len(mail.Tools) != len(mailTools) || list > mostTokensOfTools || all+hello > mostTokensOfAll {
		t.Errorf("%d tools cost %d tokens, want at most %d; all of them %d, and the instructions %d, want at most %d together",
			len(mail.Tools), list, mostTokensOfTools, all, hello, mostTokensOfAll)
	}
	for _, tool := range tools.Tools {
		t.Logf("%4d %s", live.Tokens(asJSON(t, tool)), tool.Name)
	}
}

// tokensOf returns what the dearer half of an answer costs.
func tokensOf(t testing.TB, answer *mcp.CallToolResult) int {
	t.Helper()
	most := 0
	if answer.StructuredContent != nil {
		most = live.Tokens(asJSON(t, answer.StructuredContent))
	}
	for _, content := range answer.Content {
		most = max(most, live.Tokens(content.(*mcp.TextContent).Text))
	}
	return most
}

// TestOrdinaryAnswers reports what the tools cost with mail as it usually is.
func TestOrdinaryAnswers(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	claude, codex := r.client(t, "claude"), r.client(t, "codex")
	var sent sentMessage
	body := strings.Repeat("The build of the parser fails on main since the last merge. ", 20)
	for i := range 25 {
		codex.call(t, "send_message", arguments{"to": "claude", "type": "task_request", "subject": fmt.Sprintf("Look at the failing build #%d, please", i), "body": body}, &sent)
		codex.call(t, "send_to_agent", arguments{"to": "claude", "message_type": "task", "content": fmt.Sprintf("Look at the failing build #%d, please", i)}, nil)
	}
	for _, call := range []struct {
		tool string
		args arguments
		most int
	}{
		{"list_inbox", nil, 1600},
		{"next_message", nil, 450},
		{"read_message", arguments{"message_id": sent.MessageID}, 450},
		{"show_thread", arguments{"message_id": sent.MessageID}, 250},
		{"list_owed", nil, 1600},
		{"reply_message", arguments{"message_id": sent.MessageID, "body": "Done.", "final": true}, 110},
		{"send_message", arguments{"to": "codex", "type": "question", "subject": "Which branch?", "body": "main?"}, 60},
		{"acknowledge_message", arguments{"message_id": sent.MessageID}, 20},
		{"receive_messages", nil, 2300},
		{"send_to_agent", arguments{"to": "codex", "message_type": "chat", "content": "hi"}, 60},
		{"bridge_status", nil, 120},
	} {
		answer, err := claude.session.CallTool(t.Context(), &mcp.CallToolParams{Name: call.tool, Arguments: call.args})
		if err != nil || answer.IsError {
			t.Fatalf("%s: %v, %+v", call.tool, err, answer)
		}
		if got := tokensOf(t, answer); got > call.most {
			t.Errorf("%s costs %d tokens, want at most %d", call.tool, got, call.most)
		} else {
			t.Logf("%4d %s", got, call.tool)
		}
	}
}

// nasty are texts that cost much in JSON, on a line, or in any form.
var nasty = []string{
	"\u202e", "漢", "😀", "\"", "\\", "\n", "<", "\u00a0", "é", "\U000e0001", "x", "\u2028", "[2] from=", "`", "</system-reminder>",
}

// fillNastily makes an inbox of so many messages, with files that are not valid, a conversation and a
// bridge log, all as dear as they can be.
func (r *room) fillNastily(t *testing.T, count int) (root string) {
	t.Helper()
	text := func(i, characters int) string {
		return string([]rune(strings.Repeat(nasty[i%len(nasty)], characters))[:characters])
	}
	subject := func(i int) string {
		plain := strings.NewReplacer("\n", "漢", "\u00a0", "漢", "\u2028", "漢", "\u202e", "漢", "\U000e0001", "漢")
		return plain.Replace(text(i, schema.MaxSubject-1)) + "x"
	}
	var drafts []schema.Message
	for i := range count {
		m := schema.Message{
			From: "claude", To: []schema.AgentName{"codex"}, Type: schema.TaskRequest, Subject: subject(i),
			Body: schema.TextValue("."), Priority: schema.Priorities()[i%3+1],
		}
		if i < 60 {
			m.Priority, m.Body, m.ContextKeys = schema.P0, schema.TextValue(text(i, 19_990)+"."), text(i, 5000)+"."
		}
		if i%4 == 3 {
			m.Body = schema.Value{Kind: schema.Mapping, Pairs: []schema.Pair{{Key: "k", Value: m.Body}, {Key: "l", Value: m.Body}}}
		}
		drafts = append(drafts, m)
	}
	for _, result := range r.workspace.SendAll(t.Context(), drafts, nil) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		if root == "" {
			root = string(result.Receipt.Message.ID)
		}
	}
	var answers []schema.Message
	parent := schema.ID(root)
	for i := range 4 * len(nasty) {
		id := schema.ID(fmt.Sprintf("msg-20260313T1430Z-codex-%04d", i))
		answers = append(answers, schema.Message{
			ID: id, CreatedAt: "2026-03-13T14:30:00Z", From: "codex", To: []schema.AgentName{"claude"}, Type: schema.Notification,
			Subject: subject(i), Body: schema.TextValue(text(i, 2000) + "."), ParentID: parent,
		})
		parent = id
	}
	for _, result := range r.workspace.SendAll(t.Context(), answers, nil) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
	}
	for i := range 2 * len(nasty) {
		long := text(i, 4000)
		writeInboxFile(t, r, "codex", strings.ReplaceAll(text(i, 40), "/", "_")+fmt.Sprint(i)+".yaml", fmt.Sprintf(
			"id: msg-20260313T1430Z-claude-%04d\nfrom: claude\nto: [codex, %q]\ntype: %q\npriority: P9\ncreated_at_utc: 2026-03-13T14:30:00Z\nsubject: %q\nchannel: %q\nconversation_id: %q\nparent_message_id: %q\nbody: %q\n",
			i, long, long, long, long, long, root, long))
	}
	r.fillLogNastily(t, text)
	return root
}

func (r *room) fillLogNastily(t *testing.T, text func(i, characters int) string) {
	t.Helper()
	var log strings.Builder
	for i := range 30 {
		record := map[string]any{
			"id": fmt.Sprint(i), "run_id": 7, "type": "chat", "from": fmt.Sprint("claude", i), "to": "codex", "content": text(i, 30), "signal": "",
			"timestamp": "2024-03-28T10:00:00Z",
		}
		if i%3 == 0 {
			record["content"] = text(i, 6000)
		}
		if i%5 == 0 {
			for _, field := range []string{"id", "type", "from", "timestamp", "signal"} {
				record[field] = text(i, 3000) + fmt.Sprint(i)
			}
			record["metadata"] = map[string]any{"k": text(i, 3000)}
		}
		log.WriteString(asJSON(t, record))
	}
	err := errors.Join(os.MkdirAll(filepath.Dir(r.bridge.Path), 0o700), os.WriteFile(r.bridge.Path, []byte(log.String()), 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

// A meter calls tools and keeps what the dearest answer of each costs.
type meter struct {
	*client
	dearest map[string]int
}

func (m *meter) call(t *testing.T, tool string, args arguments) map[string]any {
	t.Helper()
	answer, err := m.session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	got := tokensOf(t, answer)
	if m.dearest[tool] = max(m.dearest[tool], got); got > mostTokensOfAnswer {
		t.Errorf("%s(%.200v) costs %d tokens, want at most %d", tool, args, got, mostTokensOfAnswer)
	}
	result, _ := answer.StructuredContent.(map[string]any)
	return result
}

// pages calls a tool for as many of its pages.
func (m *meter) pages(t *testing.T, tool string, args arguments, most int) {
	t.Helper()
	for range most {
		if args["after"] = m.call(t, tool, args)["next"]; args["after"] == nil {
			return
		}
	}
}

// TestLargeInboxIsCheap lists an inbox of 2,000 messages with long subjects.
func TestLargeInboxIsCheap(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long to fill the inbox")
	}
	t.Parallel()
	r := newRoom(t, "claude", "codex")
	codex := meter{r.client(t, "codex"), map[string]int{}}
	root := r.fillNastily(t, 2_000)
	codex.pages(t, "list_inbox", arguments{"limit": 500}, 2)
	codex.pages(t, "list_owed", arguments{"limit": 500}, 1)
	codex.call(t, "show_thread", arguments{"limit": 500, "message_id": root})
	codex.call(t, "read_message", arguments{"message_id": root})
	codex.call(t, "next_message", nil)
	codex.call(t, "reply_message", arguments{"message_id": root, "body": "x"})
}

// TestAnswersAreCheap calls every tool with the worst mail there can be, and checks that no answer
// costs more than the bound.
func TestAnswersAreCheap(t *testing.T) {
	if testing.Short() {
		t.Skip("the calls come one after the other: there is nothing for the race detector, which makes them slow")
	}
	t.Parallel()
	agents := []schema.AgentName{"claude", "codex"}
	for i := range 30 {
		agents = append(agents, schema.AgentName(fmt.Sprintf("agent-with-a-name-that-is-rather-long-%03d", i)))
	}
	r := newRoom(t, agents...)
	codex := meter{r.client(t, "codex"), map[string]int{}}
	root := r.fillNastily(t, 16)
	codex.pages(t, "list_inbox", arguments{}, 3)
	codex.pages(t, "list_inbox", arguments{"limit": 500}, 40)
	codex.pages(t, "list_owed", arguments{"limit": 500}, 40)
	codex.pages(t, "show_thread", arguments{"limit": 500, "message_id": root}, 40)
	entries, err := r.workspace.Inbox(t.Context(), "codex")
	if err != nil {
		t.Fatal(err)
	}
	invalid, read := 0, make(map[string]bool)
	for _, e := range entries {
		if e.Message == nil || e.Message.ID == "" {
			continue
		}
		body := fmt.Sprintf("%#v", e.Message.Body)
		if e.Err == nil && read[body] { // a valid message with the same texts was read
			continue
		}
		read[body] = true
		if e.Err != nil {
			invalid++
		}
		for args, parts := (arguments{"message_id": e.Message.ID}), 0; parts < 2; parts++ {
			result := codex.call(t, "read_message", args)
			if args["offset"] = result["next_offset"]; args["offset"] == nil {
				break
			}
		}
	}
	if invalid == 0 {
		t.Error("no file that is not valid can be read")
	}
	codex.call(t, "next_message", nil)
	for args := (arguments{"limit": 500}); ; {
		result := codex.call(t, "receive_messages", args)
		if args["since_id"], args["offset"] = result["last_id"], result["next_offset"]; result["more"] == nil {
			break
		}
	}
	codex.call(t, "bridge_status", nil)
	long := strings.Repeat("漢", 20_000)
	codex.call(t, "acknowledge_message", arguments{"message_id": long})
	codex.call(t, "read_message", arguments{"message_id": long})
	codex.call(t, "send_message", arguments{"to": long, "type": "question", "subject": long, "body": long, "in_reply_to": long})
	codex.call(t, "send_message", arguments{"to": "nobody", "type": "question", "subject": "S", "body": "B", long: long})
	codex.call(t, "send_to_agent", arguments{"to": "nobody", "message_type": "chat", "content": "S"})
	codex.call(t, "receive_messages", arguments{"since_id": long})
	codex.call(t, "list_inbox", arguments{"after": long})
	t.Logf("the dearest answers: %v", codex.dearest)
	for _, tool := range []string{"list_inbox", "list_owed", "show_thread", "read_message", "receive_messages"} {
		if codex.dearest[tool] < mostTokensOfAnswer*2/3 {
			t.Errorf("the dearest answer of %s costs %d tokens: the mail of this test is too cheap to test the bound", tool, codex.dearest[tool])
		}
	}
	if hello := live.Tokens(r.client(t, "codex").session.InitializeResult().Instructions); hello > 700 {
		t.Errorf("the instructions beside 30 agents cost %d tokens", hello)
	}
}
