package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/schema"
)

// TestOrderOfSends sends messages one after the other, within a second or two, and checks that
// everything that lists them, works them or passes them on does so in that order.
func TestOrderOfSends(t *testing.T) {
	c := newSession(t, "a,b")
	var want []string
	for i := range 5 {
		subject := fmt.Sprintf("m%02d", i)
		want = append(want, subject)
		mustRun(t, c.Dir, "oacp", "send", "--from", "a", "--to", "b", "--type", "question", "--subject", subject, "--body", "x",
			"--conversation-id", "conv-20260313-a-1")
	}
	wantOrder(t, c, want)
}

// TestOrderOfMailbox does the same with messages from several senders, made within two seconds, with ids of
// every form.
func TestOrderOfMailbox(t *testing.T) {
	senders := []schema.AgentName{"a", "a-c", "d"}
	c := newSession(t, "a,a-c,b,d")
	text := func(length int) string {
		const alphabet = "0123456789abcdefghijklmnopqrstuvwxyz"
		out := make([]byte, length)
		for i := range out {
			out[i] = alphabet[rand.IntN(len(alphabet))]
		}
		return string(out)
	}
	messages := make([]schema.Message, 18) // a conversation gets 20 turns
	for i := range messages {
		from := senders[rand.IntN(len(senders))]
		second := 6 + rand.IntN(2)
		stamp := []string{"20260313T1430Z", "20260313T1430Z", fmt.Sprintf("20260313T1430%02dZ", second), fmt.Sprintf("202603131430%02d", second)}[rand.IntN(4)]
		m := schema.Message{
			ID:   schema.ID("msg-" + stamp + "-" + string(from) + "-" + text([]int{4, 10, 16}[rand.IntN(3)])),
			From: from, To: []schema.AgentName{"b"}, Type: schema.Question, Priority: schema.P2,
			CreatedAt:      schema.Timestamp(fmt.Sprintf("2026-03-13T14:30:%02dZ", second)),
			ConversationID: "conv-20260313-a-1", Subject: fmt.Sprintf("m%02d", i), Body: schema.TextValue("x"),
		}
		data, err := schema.Encode(&m)
		if err != nil {
			t.Fatal(err)
		}
		name, err := m.LongFileName()
		if err != nil {
			t.Fatal(err)
		}
		written := time.Now().Add(-time.Duration(1+rand.IntN(100)) * time.Hour)
		for _, box := range []string{string(from) + "/outbox", "b/inbox"} {
			path := filepath.Join(c.Dir, "agents", box, name)
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, written, written); err != nil {
				t.Fatal(err)
			}
		}
		messages[i] = m
	}
	slices.SortFunc(messages, func(a, b schema.Message) int { return schema.CompareAge(&a, &b) })
	var want []string
	for _, m := range messages {
		want = append(want, m.Subject)
	}
	wantOrder(t, c, want)
}

// TestOrderOfFuture checks that a message dated in the future has its place by its arrival.
func TestOrderOfFuture(t *testing.T) {
	c := newSession(t, "a,b")
	now := time.Now()
	var want []string
	for i, created := range []time.Time{now.Add(-5 * time.Hour), now.Add(-3 * time.Hour), now.AddDate(73, 0, 0), now.AddDate(0, 0, 3), now.Add(-time.Hour)} {
		m := schema.Message{
			ID:   schema.ID("msg-" + created.UTC().Format("20060102T1504Z") + "-a-" + fmt.Sprintf("%04d", i)),
			From: "a", To: []schema.AgentName{"b"}, Type: schema.Question, Priority: schema.P2, CreatedAt: schema.NewTimestamp(created),
			ConversationID: "conv-20260313-a-1", Subject: fmt.Sprintf("m%02d", i), Body: schema.TextValue("x"),
		}
		data, err := schema.Encode(&m)
		if err != nil {
			t.Fatal(err)
		}
		name, err := m.LongFileName()
		if err != nil {
			t.Fatal(err)
		}
		for _, box := range []string{"a/outbox", "b/inbox"} {
			path := filepath.Join(c.Dir, "agents", box, name)
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			arrived := now.Add(time.Duration(i-5) * 40 * time.Minute)
			if err := os.Chtimes(path, arrived, arrived); err != nil {
				t.Fatal(err)
			}
		}
		want = append(want, m.Subject)
	}
	if inbox := mustRun(t, c.Dir, "oacp", "inbox", "--agent", "b"); strings.Count(inbox, "dated in the future: ") != 2 || strings.Contains(inbox, " 0m ") {
		t.Errorf("inbox does not say which messages are dated in the future, or how old they are:\n%s", inbox)
	}
	wantOrder(t, c, want)
}

// wantOrder checks in which order commands show the messages of b's inbox, which all have one type,
// priority and conversation. Their subjects are m and two digits, and nothing else in the output is.
func wantOrder(t *testing.T, c *session, want []string) {
	t.Helper()
	subject := regexp.MustCompile(`\bm\d\d\b`)
	check := func(what, out string) {
		t.Helper()
		var got []string
		for _, one := range subject.FindAllString(out, -1) {
			if !slices.Contains(got, one) {
				got = append(got, one)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has the order\n%v, want\n%v\n%s", what, got, want, out)
		}
	}
	inbox := mustRun(t, c.Dir, "oacp", "inbox", "--agent", "b", "--json")
	check("inbox", inbox)
	id := regexp.MustCompile(`msg-[\w-]+`).FindString(inbox)
	check("thread", mustRun(t, c.Dir, "oacp", "thread", id, "--json"))
	check("watch", mustRun(t, c.Dir, "oacp", "watch", "--agent", "b", "--once", "--since", "epoch", "--json"))
	check("dashboard", mustRun(t, c.Dir, "oacp", "dashboard", "--once", "--json"))
	mustRun(t, c.Dir, "oacp", "mirror", "--bridge", "log.jsonl")
	log, err := os.ReadFile(filepath.Join(c.Dir, "log.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	check("mirror", string(log))

	command := exec.Command("oacp", "mcp", "--agent", "b")
	command.Dir, command.Stderr = c.Dir, os.Stderr
	tools := connectTools(t, &mcp.CommandTransport{Command: command})
	check("the tool list_inbox", tools.call(t, "list_inbox", map[string]any{"limit": len(want)}))
	check("the tool show_thread", tools.call(t, "show_thread", map[string]any{"message_id": id}))
	if err := tools.session.Close(); err != nil {
		t.Errorf("closing the MCP server: %v", err)
	}

	check("run", mustRun(t, c.Dir, "oacp", "run", "--agent", "b", "--once", "--json", "--", "oacp", "version"))
}
