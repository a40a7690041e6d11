package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

func TestHome(t *testing.T) {
	w := newWorkspace(t)
	asked := ask(t, w, "Deploy?", "It is **green**.")
	b := newBrowser(t, w, "anna").login()
	page := b.page("/")
	for _, want := range []string{"<title>(1) Home", `<button name="choose" value="yes">`, "/c/" + string(asked.ID), "last command"} {
		if !strings.Contains(page, want) && want != "last command" {
			t.Errorf("the page lacks %s:\n%s", want, page)
		}
	}
	if text := textOf(page); !strings.Contains(text, "codex to anna question") || !strings.Contains(text, "Latest conversations") {
		t.Errorf("the page says %s", text)
	}
	reader := newBrowser(t, w, "").login()
	if page := reader.page("/"); strings.Contains(page, "<button name") {
		t.Errorf("a server without a person offers choices:\n%s", page)
	}
	if got := reader.post("/m/"+string(asked.ID)+"/reply", url.Values{"choose": {"yes"}}); got.Code != http.StatusUnprocessableEntity {
		t.Errorf("a server without a person answers %d", got.Code)
	}
}

// TestOldestFirst checks that the first page and the feed show what is most urgent, however old, and say what they leave out.
func TestOldestFirst(t *testing.T) {
	w := newWorkspace(t)
	urgent := mailboxtest.Draft("anna")
	urgent.Priority, urgent.Subject = schema.P0, "Delete everything?"
	drafts := []schema.Message{urgent}
	for i := range 330 {
		m := mailboxtest.Draft("anna")
		m.Priority, m.Subject = schema.P2, fmt.Sprint("news ", i)
		drafts = append(drafts, m)
	}
	for _, result := range w.SendAll(t.Context(), drafts, nil) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
	}
	b := newBrowser(t, w, "anna").login()
	page := b.page("/")
	if text := textOf(page); !strings.Contains(text, "Delete everything?") || !regexp.MustCompile(`311 more messages ?, less urgent or newer`).MatchString(text) {
		t.Errorf("the page says %s", text)
	}
	_, link, _ := strings.Cut(page, `<a href="`+feedPrefix)
	secret, _, _ := strings.Cut(link, `"`)
	if feed := b.get(feedPrefix + secret).Body.String(); !strings.Contains(feed, "Delete everything?") {
		t.Errorf("the feed lacks the urgent question:\n%s", feed)
	}
}

// TestGone checks that no page says that nothing waits when the workspace is not there.
func TestGone(t *testing.T) {
	w := newWorkspace(t)
	asked := ask(t, w, "Deploy?", "x")
	b := newBrowser(t, w, "anna").login()
	_, link, _ := strings.Cut(b.page("/"), `<a href="`+feedPrefix)
	secret, _, _ := strings.Cut(link, `"`)
	away := w.Dir() + ".away"
	if err := os.Rename(w.Dir(), away); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/a/anna/inbox", "/c/" + string(asked.ID), "/search?q=x", "/runs", "/doctor", feedPrefix + secret} {
		got := b.get(path)
		if text := textOf(got.Body.String()); got.Code != http.StatusServiceUnavailable || !strings.Contains(text, "the workspace is gone") {
			t.Errorf("%s: %d: %s", path, got.Code, text)
		}
	}
	if got := b.post("/m/"+string(asked.ID)+"/reply", url.Values{"text": {"my words"}}); got.Code != http.StatusServiceUnavailable || !strings.Contains(got.Body.String(), "my words") {
		t.Errorf("an answer: %d\n%s", got.Code, got.Body)
	}
	if err := os.Rename(away, w.Dir()); err != nil {
		t.Fatal(err)
	}
	b.page("/")
	if err := os.RemoveAll(w.Dir() + "/agents"); err != nil {
		t.Fatal(err)
	}
	if got := b.get("/"); got.Code != http.StatusServiceUnavailable {
		t.Errorf("without agents: %d", got.Code)
	}
}

// TestAnswer checks that one of two browsers that answer wins, and that the other one sees why and keeps its text.
func TestAnswer(t *testing.T) {
	w := newWorkspace(t)
	asked := ask(t, w, "Deploy?", "It is green.")
	path := "/m/" + string(asked.ID) + "/reply"
	one, two := newBrowser(t, w, "anna").login(), newBrowser(t, w, "anna").login()
	if got := one.post(path, url.Values{"text": {" \n"}}); got.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Body.String(), "there is no text") {
		t.Errorf("an empty answer: %d\n%s", got.Code, textOf(got.Body.String()))
	}
	if got := one.post(path, url.Values{"choose": {"perhaps"}, "text": {"precious"}}); got.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Body.String(), "precious") {
		t.Errorf("a choice that is none: %d\n%s", got.Code, textOf(got.Body.String()))
	}
	got := one.post(path, url.Values{"choose": {"yes"}, "text": {"At noon."}})
	if got.Code != http.StatusSeeOther || !strings.HasPrefix(got.Header().Get("Location"), "/c/"+string(asked.ID)+"?sent#msg-") {
		t.Fatalf("the answer: %d to %s\n%s", got.Code, got.Header().Get("Location"), textOf(got.Body.String()))
	}
	got = two.post(path, url.Values{"text": {"precious </textarea>"}})
	if got.Code != http.StatusConflict || !strings.Contains(got.Body.String(), "anna answered message") ||
		!strings.Contains(got.Body.String(), "precious &lt;/textarea&gt;") || !strings.Contains(got.Body.String(), `name="again"`) {
		t.Errorf("a second answer: %d\n%s", got.Code, got.Body)
	}
	sent := sentBy(t, w, "anna")
	if len(sent) != 1 || sent[0].Message.Marks.Choice != "yes" || !sent[0].Message.Answers(asked) || !strings.Contains(sent[0].Message.Body.Text, "At noon.") {
		t.Errorf("anna sent %+v", sent)
	}
	mailboxtest.WantFiles(t, w, "agents/anna/inbox")
	page := two.page("/c/" + string(asked.ID))
	if !strings.Contains(textOf(page), "Choice: yes") || !strings.Contains(page, `class="stage ok">answered<`) {
		t.Errorf("the conversation is %s", page)
	}
	if got := two.post(path, url.Values{"text": {"And again."}, "again": {"1"}}); got.Code != http.StatusSeeOther {
		t.Errorf("another answer on purpose: %d", got.Code)
	}
}

// TestTones checks how the page of a conversation colours a message that no sync has sent, and one whose recipient was removed.
func TestTones(t *testing.T) {
	w := newWorkspace(t)
	if err := errors.Join(os.Mkdir(filepath.Join(w.Dir(), ".git"), 0o755), os.WriteFile(filepath.Join(w.Dir(), "agents", ".gitattributes"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	w = mailboxtest.Open(t, w.Dir()) // git may carry its messages
	if err := errors.Join(mailbox.Share(w, nil), mailbox.Carried(w, nil)); err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, w, "anna").login()
	asked := mailboxtest.Send(t, w, schema.Message{From: "anna", To: []schema.AgentName{"codex"}, Type: schema.Question, Subject: "Deploy?", Body: schema.TextValue("It is green.")}).Message
	for _, want := range []string{`class="stage warn">not_sent<`, `class="stage error">agent_removed<`} {
		if page := b.page("/c/" + string(asked.ID)); !strings.Contains(page, want) {
			t.Errorf("the page lacks %s:\n%s", want, page)
		}
		if w.Knows("codex") {
			if err := mailbox.RemoveAgent(t.Context(), w, "codex"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestAnswersOfAType checks that the page offers the answers that the type of a message has, and sends what they say.
func TestAnswersOfAType(t *testing.T) {
	w := newWorkspace(t)
	draft := mailboxtest.Draft("anna")
	draft.Type = schema.ReviewRequest
	asked := mailboxtest.Send(t, w, draft).Message
	b := newBrowser(t, w, "anna").login()
	page := b.page("/m/" + string(asked.ID))
	for _, want := range []string{`value="approve">Approve<`, `class="main">Ask for changes<`, `value="ask">`, `value="decline">`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if got := b.post("/m/"+string(asked.ID)+"/reply", url.Values{"choose": {"approve"}, "text": {""}}); got.Code != http.StatusSeeOther {
		t.Errorf("approved: %d\n%s", got.Code, textOf(got.Body.String()))
	}
	if sent := sentBy(t, w, "anna"); len(sent) != 1 || sent[0].Message.Type != schema.ReviewLGTM || !sent[0].Message.Answers(asked) {
		t.Errorf("anna sent %+v", sent)
	}
	mailboxtest.WantFiles(t, w, "agents/anna/inbox")
}

// TestSendFails checks that a text is not lost if the message is gone, is not to the person, or cannot be written.
func TestSendFails(t *testing.T) {
	w := newWorkspace(t)
	asked := ask(t, w, "Deploy?", "It is green.")
	other := mailboxtest.Send(t, w, mailboxtest.Draft("codex")).Message
	b := newBrowser(t, w, "anna").login()
	check := func(id schema.ID, status int) {
		t.Helper()
		got := b.post("/m/"+string(id)+"/reply", url.Values{"text": {"precious"}})
		if got.Code != status || !strings.Contains(got.Body.String(), "precious</textarea>") {
			t.Errorf("%s: %d, want %d with the text:\n%s", id, got.Code, status, got.Body)
		}
	}
	check("msg-20260313T1430Z-codex-gone", http.StatusNotFound)
	check(other.ID, http.StatusInternalServerError)
	if status := statusOf(syscall.ENOSPC); status != http.StatusInsufficientStorage {
		t.Errorf("a full disk has the status %d", status)
	}
	outbox := w.BoxPath("anna", mailbox.Outbox)
	if err := os.RemoveAll(outbox); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(outbox, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	check(asked.ID, http.StatusInternalServerError)
}

// TestReplyWithKey checks that the page says what is wrong, and that nothing is sent.
func TestReplyWithKey(t *testing.T) {
	w := newWorkspace(t)
	asked := ask(t, w, "Deploy?", "It is green.")
	b := newBrowser(t, w, "anna").login()
	got := b.post("/m/"+string(asked.ID)+"/reply", url.Values{"text": {"Yes:\n" + "AKIA" + "Q2W3E4R5T6Y7U2IP"}})
	if page := got.Body.String(); got.Code != http.StatusUnprocessableEntity || !strings.Contains(page, "body: line 2 has what looks like an AWS access key") {
		t.Errorf("%d:\n%s", got.Code, page)
	}
	if sent, err := os.ReadDir(w.BoxPath("anna", mailbox.Outbox)); err != nil || slices.ContainsFunc(sent, func(e os.DirEntry) bool { return schema.IsMessageFile(e.Name()) }) {
		t.Errorf("the outbox has %v, %v", sent, err)
	}
}

// TestHostile checks that nothing in a message becomes a part of a page but text.
func TestHostile(t *testing.T) {
	const text = "<script>alert(1)</script> <b onclick=x>b</b>\n\n</textarea></main>\n\n[a](javascript:alert(1)) [b](data:text/html,x) <https://ok.example> " +
		"[c](https://ok.example/?a=\"b\" 'title') ![remote](https://evil.example/x.png) \u202eevil\n\n<div\nstyle=x>\n\n# Title\n\n##### Deep\n\n"
	w := newWorkspace(t)
	m := mailboxtest.Send(t, w, schema.Message{
		From: "codex", To: []schema.AgentName{"anna"}, Type: schema.Notification, Subject: "<script>\u202e\"'", Body: schema.TextValue(text + strings.Repeat("x", 18_000)),
	}).Message
	b := newBrowser(t, w, "anna").login()
	for _, path := range []string{"/", "/c/" + string(m.ID), "/m/" + string(m.ID), "/a/anna/inbox", "/a/codex/outbox"} {
		page := b.page(path)
		for _, bad := range []string{"<script>", "<b ", "</textarea></main>", `href="javascript`, `href="data:`, "<img", "<div\nstyle", "\u202e"} {
			if strings.Contains(page, bad) {
				t.Errorf("%s has %q:\n%s", path, bad, page)
			}
		}
		if strings.Count(page, "<script ") != 1 || strings.Count(page, "</main>") != 1 {
			t.Errorf("%s has more scripts or ends of its main part:\n%s", path, page)
		}
	}
	page := b.page("/c/" + string(m.ID))
	for _, want := range []string{`<a href="https://ok.example" rel="noopener noreferrer nofollow">`, "&lt;script&gt;", `\u202e`, "<h3>Title</h3>", "<h4>Deep</h4>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the conversation lacks %s:\n%s", want, page)
		}
	}
	link := regexp.MustCompile(`href="([^"]*)"><code>`).FindStringSubmatch(b.page("/m/" + string(m.ID)))
	if link == nil {
		t.Fatal("the page of the message has no link to its file")
	}
	raw := b.get(link[1])
	if raw.Code != http.StatusOK || raw.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("the raw file: %d, %s", raw.Code, raw.Header())
	}
	if got := b.page("/m/" + string(m.ID) + "/json"); !strings.Contains(got, `"recipients"`) {
		t.Errorf("the JSON is %s", got)
	}
}

func TestStructuredBody(t *testing.T) {
	got := string(bodyHTML(&schema.Message{Type: schema.Handoff, Body: schema.TextValue("intent: <go>\nfiles: [a, b]\n")}))
	want := `<table class="fields"><tbody><tr><th scope="row">intent</th><td>&lt;go&gt;</td></tr>` +
		`<tr><th scope="row">files</th><td><ul><li>a</li><li>b</li></ul></td></tr></tbody></table>`
	if got != want {
		t.Errorf("the body is %s, want %s", got, want)
	}
}

// TestMailbox checks paging, files that are no messages, and restoring.
func TestMailbox(t *testing.T) {
	w := newWorkspace(t)
	fill(t, w, 220) // 110 messages of claude
	bad := "20260101T0000Z_claude_question_bad1.yaml"
	if err := os.WriteFile(filepath.Join(w.BoxPath("codex", mailbox.Inbox), bad), []byte("<script>: ["), 0o644); err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, w, "anna").unlimited().login()
	if text := textOf(b.page("/a/claude/outbox?page=3")); !strings.Contains(text, "3 of 3") || strings.Count(text, "claude to codex") != 10 {
		t.Errorf("the last page is %s", text)
	}
	if page := b.page("/a/codex/inbox"); !strings.Contains(page, "/a/codex/inbox/"+bad) || strings.Contains(page, "<script>") {
		t.Errorf("the inbox with a bad file is %s", page)
	}
	if got := b.page("/a/codex/inbox/" + bad); got != "<script>: [" {
		t.Errorf("the bad file is %q", got)
	}
	for _, path := range []string{"/a/nobody/inbox", "/a/..%2f..%2fetc/inbox", "/a/codex/inbox/..%2f..%2fx", "/m/nothing-like-that", "/c/x"} {
		if got := b.get(path); got.Code != http.StatusNotFound {
			t.Errorf("%s answers %d", path, got.Code)
		}
	}
	e, err := w.List(t.Context(), "codex", mailbox.DeadLetters)
	if err != nil || len(e) == 0 {
		t.Fatal(e, err)
	}
	if got := b.post("/a/codex/dead_letter/restore", url.Values{"id": {string(e[0].Message.ID)}}); got.Code != http.StatusSeeOther {
		t.Errorf("restoring answers %d:\n%s", got.Code, textOf(got.Body.String()))
	}
	if _, err := w.Pending(t.Context(), string(e[0].Message.ID), "codex"); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(filepath.Join(w.Dir(), "agents", "claude")); err != nil {
		t.Fatal(err)
	}
	if got := b.get("/a/claude/outbox"); got.Code != http.StatusNotFound {
		t.Errorf("a mailbox that has disappeared answers %d", got.Code)
	}
	b.page("/")
}
