package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A changingInbox is the inbox of codex while others send and codex acknowledges.
type changingInbox struct {
	*room
	random *rand.Rand
	files  int
}

// grow adds a message of any class and age, or a file that is not one.
func (c *changingInbox) grow(t *testing.T) {
	t.Helper()
	if c.random.IntN(5) == 0 {
		c.files++
		writeInboxFile(t, c.room, "codex", fmt.Sprintf("%03d%d.yaml", c.random.IntN(1000), c.files), "no message")
		return
	}
	types := []schema.Type{schema.TaskRequest, schema.Question, schema.Notification}
	draft := schema.Message{
		From: "claude", To: []schema.AgentName{"codex", "gemini"}, Type: types[c.random.IntN(3)], Subject: "S", Body: schema.TextValue("B"),
		Priority: schema.Priorities()[c.random.IntN(4)],
	}
	if c.random.IntN(2) == 0 {
		draft.CreatedAt = schema.Timestamp(fmt.Sprintf("2026-03-13T14:%02d:00Z", c.random.IntN(3)))
	}
	if _, err := c.workspace.Send(t.Context(), draft, nil); err != nil {
		t.Fatal(err)
	}
}

func (c *changingInbox) entries(t *testing.T) []mailbox.Entry {
	t.Helper()
	entries, err := c.workspace.Inbox(t.Context(), "codex")
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// change adds or removes something.
func (c *changingInbox) change(t *testing.T) {
	t.Helper()
	entries := c.entries(t)
	if c.random.IntN(2) == 0 || len(entries) == 0 {
		c.grow(t)
		return
	}
	e := entries[c.random.IntN(len(entries))]
	if err := os.Remove(filepath.Join(c.workspace.Dir(), "agents", "codex", "inbox", e.Name)); err != nil {
		t.Fatal(err)
	}
}

// keys are the names of what is in the inbox, in its order.
func (c *changingInbox) keys(t *testing.T) (keys []string) {
	var files []string
	for _, e := range c.entries(t) {
		if e.Err != nil {
			files = append(files, e.Name)
		} else {
			keys = append(keys, string(e.Message.ID))
		}
	}
	slices.Sort(files)
	return append(keys, files...)
}

// checkPages checks what was listed: everything that was there all the time once, nothing twice.
func checkPages(t *testing.T, what string, listed []string, always [][]string) {
	t.Helper()
	seen := map[string]bool{}
	for _, key := range listed {
		if seen[key] {
			t.Errorf("%s: %s is listed twice", what, key)
		}
		seen[key] = true
	}
	var stayed []string
	for _, key := range always[0] {
		if !slices.ContainsFunc(always, func(keys []string) bool { return !slices.Contains(keys, key) }) {
			stayed = append(stayed, key)
		}
	}
	got := slices.DeleteFunc(slices.Clone(listed), func(key string) bool { return !slices.Contains(stayed, key) })
	if !slices.Equal(got, stayed) {
		t.Errorf("%s: of what was there all the time, %q is listed, want %q", what, got, stayed)
	}
}

// TestPagesWhileMailChanges lists an inbox page by page while messages come and go, also the one that a
// page ended with.
func TestPagesWhileMailChanges(t *testing.T) {
	for seed := range uint64(12) {
		c := &changingInbox{newRoom(t, "claude", "codex", "gemini"), rand.New(rand.NewPCG(seed, 1)), 0}
		codex := c.client(t, "codex")
		for range 25 {
			c.grow(t)
		}
		always := [][]string{c.keys(t)}
		var listed []string
		for args := (arguments{}); ; {
			args["limit"] = 1 + c.random.IntN(6)
			var got inbox
			text, gone, structured := codex.try(t, "list_inbox", args)
			if gone { // the last entry of the page before is
				wantText(t, "the page after an entry that is gone", text, "usage: the argument after is not the next")
				delete(args, "after")
				listed, always = nil, [][]string{c.keys(t)}
				continue
			}
			if err := json.Unmarshal(structured, &got); err != nil {
				t.Fatal(err)
			}
			for _, m := range got.Messages {
				listed = append(listed, m.MessageID)
			}
			for _, u := range got.Unreadable {
				listed = append(listed, u.File)
			}
			if n := len(got.Messages) + len(got.Unreadable); n > args["limit"].(int) || (got.Left > 0) != (got.Next != "") {
				t.Errorf("seed %d: %v gave %d entries, left %d and next %q", seed, args, n, got.Left, got.Next)
			}
			if args["after"] = got.Next; got.Next == "" {
				break
			}
			for range c.random.IntN(4) {
				c.change(t)
				always = append(always, c.keys(t))
			}
		}
		checkPages(t, fmt.Sprint("inbox, seed ", seed), listed, always)
	}
}

// TestPagesOfRequests lists what is owed page by page, of requests that several agents owe, while some
// are answered and others come.
func TestPagesOfRequests(t *testing.T) {
	for seed := range uint64(4) {
		c := &changingInbox{newRoom(t, "claude", "codex", "gemini"), rand.New(rand.NewPCG(seed, 2)), 0}
		claude, codex := c.client(t, "claude"), c.client(t, "codex")
		type page struct {
			Mine, Theirs []struct {
				ID, To string
			}
			Total, Left int
			Next        string
		}
		keys := func(p page) (keys []string) {
			for _, r := range slices.Concat(p.Mine, p.Theirs) {
				keys = append(keys, r.ID+" "+r.To)
			}
			return keys
		}
		all := func() []string {
			var p page
			claude.call(t, "list_owed", arguments{"limit": 500}, &p)
			if p.Left > 0 || p.Total != len(p.Mine)+len(p.Theirs) {
				t.Fatalf("listed %+v, want all on one page", p)
			}
			return keys(p)
		}
		for i := range 12 {
			to := []string{"codex", "gemini, codex", "claude"}[i%3]
			from := claude
			if to == "claude" {
				from = codex
			}
			from.call(t, "send_message", arguments{"to": to, "type": "task_request", "subject": "S", "body": "B"}, nil)
		}
		always := [][]string{all()}
		var listed []string
		for args := (arguments{}); ; {
			args["limit"] = 1 + c.random.IntN(3)
			var got page
			_, gone, structured := claude.try(t, "list_owed", args)
			if gone { // the last request of the page before was answered
				delete(args, "after")
				listed, always = nil, [][]string{all()}
				continue
			}
			if err := json.Unmarshal(structured, &got); err != nil {
				t.Fatal(err)
			}
			listed = append(listed, keys(got)...)
			if args["after"] = got.Next; got.Next == "" {
				break
			}
			var pending inbox
			if codex.call(t, "list_inbox", nil, &pending); c.random.IntN(2) == 0 && len(pending.Messages) > 0 {
				codex.call(t, "reply_message", arguments{
					"message_id": pending.Messages[c.random.IntN(len(pending.Messages))].MessageID, "body": "x", "acknowledge": true,
				}, nil)
			} else {
				codex.call(t, "send_message", arguments{"to": "claude", "type": "task_request", "subject": "S", "body": "B"}, nil)
			}
			always = append(always, all())
		}
		checkPages(t, fmt.Sprint("owed, seed ", seed), listed, always)
	}
}

// TestPagesOfThread lists a conversation page by page while answers arrive and are acknowledged.
func TestPagesOfThread(t *testing.T) {
	for seed := range uint64(4) {
		c := &changingInbox{newRoom(t, "claude", "codex", "gemini"), rand.New(rand.NewPCG(seed, 3)), 0}
		claude := c.client(t, "claude")
		var root sentMessage
		claude.call(t, "send_message", arguments{"to": "codex", "type": "question", "subject": "S", "body": "B"}, &root)
		ids := []string{root.MessageID}
		answer := func() {
			var sent sentMessage
			claude.call(t, "send_message", arguments{
				"to": "codex", "type": "notification", "subject": "S", "body": "B", "in_reply_to": ids[c.random.IntN(len(ids))],
			}, &sent)
			ids = append(ids, sent.MessageID)
		}
		for range 15 {
			answer()
		}
		type page struct {
			Messages []struct {
				ID    string `json:"message_id"`
				Depth int
			}
			Total, Left int
			Next        string
		}
		var listed []string
		var first page
		claude.call(t, "show_thread", arguments{"message_id": root.MessageID, "limit": 500}, &first)
		var always []string
		for _, m := range first.Messages {
			always = append(always, m.ID)
		}
		if first.Total != 16 || len(always) != 16 {
			t.Fatalf("the thread is %+v, want 16 messages", first)
		}
		for args := (arguments{"message_id": root.MessageID}); ; {
			args["limit"] = 1 + c.random.IntN(4)
			var got page
			claude.call(t, "show_thread", args, &got)
			for _, m := range got.Messages {
				listed = append(listed, m.ID)
			}
			if args["after"] = got.Next; got.Next == "" {
				break
			}
			answer()
			c.change(t)
		}
		checkPages(t, fmt.Sprint("thread, seed ", seed), listed, [][]string{always})
	}
	c := newRoom(t, "claude", "codex").client(t, "claude")
	var sent sentMessage
	c.call(t, "send_message", arguments{"to": "codex", "type": "question", "subject": "S", "body": "B"}, &sent)
	wantText(t, "a page after nothing", c.refuse(t, "show_thread", arguments{"message_id": sent.MessageID, "after": "x"}), "usage: the argument after is not")
}

// TestReadOn reads long bodies in parts.
func TestReadOn(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	claude, codex := r.client(t, "claude"), r.client(t, "codex")
	letters := make([]rune, 19_000)
	for i := range letters {
		letters[i] = []rune(`aé漢😀"\<` + "\n ")[i%9]
	}
	structured := arguments{"files": []any{string(letters), "b"}, "count": "3"}
	for name, test := range map[string]struct{ body, want any }{
		"text":       {string(letters) + ".", string(letters) + "."},
		"structured": {structured, asJSON(t, structured)},
		"short":      {"short", "short"},
	} {
		var sent sentMessage
		codex.call(t, "send_message", arguments{"to": "claude", "type": "question", "subject": "S", "body": test.body}, &sent)
		type part struct {
			Message struct{ Body string }
			Length  int `json:"body_length"`
			Next    int `json:"next_offset"`
		}
		var first part
		claude.call(t, "next_message", nil, &first)
		whole, next := first.Message.Body, first.Next
		for parts := 1; next > 0 && parts < 100; parts++ {
			var more part
			claude.call(t, "read_message", arguments{"message_id": sent.MessageID, "offset": next}, &more)
			whole += more.Message.Body
			if more.Next > 0 && more.Next <= next || more.Length != first.Length {
				t.Fatalf("%s: after offset %d of %d came next_offset %d of %d", name, next, first.Length, more.Next, more.Length)
			}
			next = more.Next
		}
		want := test.want.(string)
		if name == "structured" {
			want, whole = inOrder(t, want), inOrder(t, whole)
		}
		if whole != want {
			t.Errorf("%s: read %d bytes, want %d: the same", name, len(whole), len(want))
		}
		if first.Length > 0 {
			wantText(t, "a wrong offset", claude.refuse(t, "read_message", arguments{"message_id": sent.MessageID, "offset": first.Length}), "offset is")
		}
		claude.call(t, "acknowledge_message", arguments{"message_id": sent.MessageID}, nil)
	}
}

// inOrder returns a JSON text with its keys in order.
func inOrder(t *testing.T, text string) string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%.100s is not JSON: %v", text, err)
	}
	return asJSON(t, value)
}
