package web

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
)

// enforced opens a workspace in which codex and anna sign, trust each other and read only verified messages.
func enforced(t *testing.T) *mailbox.Workspace {
	t.Helper()
	home := t.TempDir()
	options := trust.Options(func() (string, error) { return home, nil })
	options.NoSync = true
	w := mailboxtest.OpenWith(t, newWorkspace(t).Dir(), options)
	if _, err := trust.SetUp(t.Context(), w, []schema.AgentName{"codex", "anna"}, true, time.Now()); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestEnforcedPages plants forged files in every box of agents that read only verified messages, and asks every address
// that the server knows. No page shows a field of them.
func TestEnforcedPages(t *testing.T) {
	const marker, name = "Xyzzy", "20260313T1431Z_codex_question.yaml"
	w := enforced(t)
	proven := mailboxtest.Send(t, w, schema.Message{From: "codex", To: []schema.AgentName{"anna"}, Type: schema.Question,
		Subject: "Plugh?", Body: schema.TextValue("It is proven.")}).Message
	forged := schema.Message{ID: "msg-20260313T1431Z-codex-zzz1", From: "codex", To: []schema.AgentName{"anna"}, Type: schema.Question,
		Priority: schema.P0, CreatedAt: "2026-03-13T14:31:00Z", Subject: marker, ContextKeys: marker, ParentID: proven.ID,
		ConversationID: proven.ConversationID, Body: schema.TextValue(marker)}
	answer := forged
	answer.ID, answer.From, answer.To, answer.Type = "msg-20260313T1431Z-anna-zzz2", "anna", []schema.AgentName{"codex"}, schema.Notification
	for _, agent := range []schema.AgentName{"codex", "anna"} {
		for _, box := range schema.Boxes() {
			mailboxtest.Place(t, w, agent, box, name, forged)
			mailboxtest.Place(t, w, agent, box, "20260313T1431Z_anna_notification.yaml", answer)
			check.WriteFile(t, filepath.Join(w.BoxPath(agent, box), "20260313T1431Z_codex_question_bad.yaml"), marker+": [")
		}
	}
	b := newBrowser(t, w, "anna").login().unlimited()
	values := map[string][]string{
		"{id}": {string(proven.ID), string(forged.ID), string(answer.ID), proven.ID.Short(), "zzz1"}, "{agent}": {"codex", "anna"}, "{box}": {},
		"{name}": {name, "20260313T1431Z_anna_notification.yaml", "20260313T1431Z_codex_question_bad.yaml"}, "{chart}": {"tokens", "time"},
		"{repository}": {"none"}, "{$}": {""},
	}
	for _, box := range schema.Boxes() {
		values["{box}"] = append(values["{box}"], string(box))
	}
	asked := 0
	for _, pattern := range b.server.patterns {
		method, path, _ := strings.Cut(pattern, " ")
		if pattern == "/" || path == "/events" || strings.HasPrefix(path, "/static/") {
			continue // no page, a stream of hints to load again, and our own files
		}
		paths := []string{path}
		for key, list := range values {
			var all []string
			for _, p := range paths {
				if !strings.Contains(p, key) {
					all = append(all, p)
					continue
				}
				for _, value := range list {
					all = append(all, strings.Replace(p, key, url.PathEscape(value), 1))
				}
			}
			paths = all
		}
		for _, path := range paths {
			if strings.Contains(path, "{") {
				t.Fatalf("%s is new: say here what stands for its parts", pattern)
			}
			if path == "/search" {
				path += "?q=" + marker
			}
			asked++
			answer := b.get(path)
			if method == http.MethodPost {
				answer = b.post(path, url.Values{"text": {"Yes."}, "id": {string(forged.ID)}})
			}
			body := answer.Body.String()
			if path == "/search?q="+marker { // the page repeats the question
				body = textOf(body)
				body = strings.Replace(body, marker, "", 1)
			}
			if strings.Contains(body, marker) {
				t.Errorf("%s %s shows what is not verified: %d\n%s", method, path, answer.Code, body)
			}
			isFile := strings.HasSuffix(path, ".yaml")
			if isFile && answer.Code != http.StatusForbidden {
				t.Errorf("%s answers %d", path, answer.Code)
			}
		}
	}
	if feed := b.get(feedPrefix + b.server.feed); feed.Code != http.StatusOK || strings.Contains(feed.Body.String(), marker) {
		t.Errorf("the feed: %d\n%s", feed.Code, feed.Body)
	}
	if asked < 50 {
		t.Errorf("asked only %d addresses", asked)
	}
	if page := b.page("/m/" + string(proven.ID)); !strings.Contains(page, `class="signature verified"`) || !strings.Contains(page, "It is proven.") {
		t.Errorf("the page of a verified message:\n%s", textOf(page))
	}
	for _, e := range sentBy(t, w, "anna") {
		if e.Err == nil && e.Message.ParentID == forged.ID {
			t.Errorf("a forged message was answered: %+v", e.Message)
		}
	}
	exported := filepath.Join(t.TempDir(), "public")
	if _, err := Export(t.Context(), w, exported, Options{Person: "anna", Warn: func(error) {}}, func(int, int) {}); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(exported, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(check.ReadFile(t, path), marker) {
			t.Errorf("the export shows what is not verified in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
