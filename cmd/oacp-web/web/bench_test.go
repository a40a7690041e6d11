package web

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// fill puts messages into a workspace, as files alone: conversations of ten between claude and codex, which are handled
// or, each hundredth message, dead letters. It returns an id from the middle.
func fill(b testing.TB, w *mailbox.Workspace, count int) (middle schema.ID) {
	b.Helper()
	var parent schema.ID
	var in schema.ConversationID
	for i := range count {
		at := mailboxtest.Time.Add(time.Duration(i) * time.Minute / 4)
		m := schema.Message{
			From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Question, Priority: schema.P2, CreatedAt: schema.NewTimestamp(at),
			ID: schema.ID(fmt.Sprintf("msg-%s-claude-%016d", at.Format("20060102T150405Z"), i)), Subject: fmt.Sprint("Message ", i),
			Body: schema.TextValue(fmt.Sprintf("The **body** of message %d, which says what there is to say about it.", i)),
		}
		if i%2 == 1 {
			m.From, m.To, m.Type = "codex", []schema.AgentName{"claude"}, schema.Notification
			m.ID = schema.ID(fmt.Sprintf("msg-%s-codex-%016d", at.Format("20060102T150405Z"), i))
		}
		if i%10 == 0 {
			in, parent = schema.NewConversationID(at, "claude", uint64(i+1)), ""
		}
		m.ConversationID, m.ParentID = in, parent
		parent = m.ID
		data, err := schema.Encode(&m)
		if err != nil {
			b.Fatal(err)
		}
		name, err := m.LongFileName()
		if err != nil {
			b.Fatal(err)
		}
		box := mailbox.Archive
		if i%100 == 0 {
			box = mailbox.DeadLetters
		}
		for _, path := range []string{w.BoxPath(m.From, mailbox.Outbox), w.BoxPath(m.To[0], box)} {
			if err := os.MkdirAll(path, 0o755); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(path, name), data, 0o644); err != nil {
				b.Fatal(err)
			}
		}
		if i == count/2+5 {
			middle = m.ID
		}
	}
	return middle
}

// BenchmarkPages makes pages beside many messages. A page after an arrival lists the changed folder again.
func BenchmarkPages(b *testing.B) {
	for _, count := range []int{1_000, 100_000} {
		w := newWorkspace(b)
		middle := fill(b, w, count)
		question := ask(b, w, "Deploy?", "It is green.")
		browser := newBrowser(b, w, "anna").unlimited().login()
		browser.page("/")
		for name, path := range map[string]string{
			"home": "/", "outbox": "/a/claude/outbox", "last": "/a/claude/outbox?page=100000", "dead": "/a/codex/dead_letter",
			"message": "/m/" + string(question.ID), "conversation": "/c/" + string(question.ID), "old": "/c/" + string(middle),
		} {
			b.Run(fmt.Sprintf("%s/messages=%d", name, count), func(b *testing.B) {
				for b.Loop() {
					browser.page(path)
				}
			})
		}
		b.Run(fmt.Sprintf("arrival/messages=%d", count), func(b *testing.B) {
			for b.Loop() {
				mailboxtest.Send(b, w, schema.Message{
					From: "codex", To: []schema.AgentName{"anna"}, Type: schema.Notification, Subject: "x", Body: schema.TextValue("x"),
				})
				browser.page("/")
			}
		})
	}
}
