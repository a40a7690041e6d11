package web

import (
	"html"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

func TestMain(m *testing.M) { mailboxtest.Main(m) }

// address is where the server of a test seems to listen.
const address = "127.0.0.1:7070"

// A browser asks a server, and keeps its cookies.
type browser struct {
	t       testing.TB
	handler http.Handler
	guard   *guard
	server  *Server
	invited []string
	cookies []*http.Cookie
	// header is sent with each request.
	header http.Header
}

// newWorkspace makes a workspace with claude, codex and the person anna.
func newWorkspace(t testing.TB) *mailbox.Workspace {
	t.Helper()
	w := mailboxtest.New(t, "claude", "codex")
	if _, err := project.AddAgent(w, "anna", project.AgentOptions{Runtime: "human", Now: mailboxtest.Time}); err != nil {
		t.Fatal(err)
	}
	return w
}

// newBrowser returns a browser of a server that acts for a person. It is not logged in.
func newBrowser(t testing.TB, w *mailbox.Workspace, person schema.AgentName) *browser {
	t.Helper()
	server, err := New(w, Options{Person: person, Warn: func(err error) { t.Log(err) }})
	if err != nil {
		t.Fatal(err)
	}
	return browserOf(t, server, place{local: true})
}

func browserOf(t testing.TB, server *Server, p place) *browser {
	t.Helper()
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, server: server, header: make(http.Header)}
	b.guard = newGuard(server, at, p, func(url string) { b.invited = append(b.invited, url) })
	b.handler = b.guard
	return b
}

// login lets the browser in.
func (b *browser) login() *browser {
	b.t.Helper()
	link, err := url.Parse(b.guard.inviteOne())
	if err != nil {
		b.t.Fatal(err)
	}
	if got := b.get(link.RequestURI()); got.Code != http.StatusOK || len(b.cookies) != 1 {
		b.t.Fatalf("the login answers %d with cookies %v:\n%s", got.Code, b.cookies, got.Body)
	}
	return b
}

// send sends a request and keeps the cookies of the answer.
func (b *browser) send(r *http.Request) *httptest.ResponseRecorder {
	b.t.Helper()
	for name, values := range b.header {
		r.Header[name] = values
	}
	if host := b.header.Get("Host"); host != "" {
		r.Host = host
	}
	for _, cookie := range b.cookies {
		r.AddCookie(cookie)
	}
	answer := httptest.NewRecorder()
	b.handler.ServeHTTP(answer, r)
	b.cookies = append(b.cookies, answer.Result().Cookies()...)
	return answer
}

func (b *browser) get(path string) *httptest.ResponseRecorder {
	b.t.Helper()
	return b.send(httptest.NewRequestWithContext(b.t.Context(), http.MethodGet, "http://"+address+path, nil))
}

// page returns the HTML of a page that must be there.
func (b *browser) page(path string) string {
	b.t.Helper()
	answer := b.get(path)
	if answer.Code != http.StatusOK {
		b.t.Fatalf("%s answers %d:\n%s", path, answer.Code, textOf(answer.Body.String()))
	}
	return answer.Body.String()
}

// post sends a form of the current session.
func (b *browser) post(path string, form url.Values) *httptest.ResponseRecorder {
	b.t.Helper()
	if form.Get("csrf") == "" {
		form.Set("csrf", b.csrf())
	}
	return b.postBody(path, form.Encode())
}

func (b *browser) postBody(path, body string) *httptest.ResponseRecorder {
	b.t.Helper()
	r := httptest.NewRequestWithContext(b.t.Context(), http.MethodPost, "http://"+address+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return b.send(r)
}

// csrf returns the token of the forms of the session.
func (b *browser) csrf() string {
	b.guard.mutex.Lock()
	defer b.guard.mutex.Unlock()
	for _, s := range b.guard.sessions {
		return s.csrf
	}
	return ""
}

// textOf returns the text of a page's main part, on one line.
func textOf(page string) string {
	_, main, _ := strings.Cut(page, "<main")
	main, _, _ = strings.Cut(main, "</main>")
	text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString("<main"+main, " ")
	return strings.Join(strings.Fields(html.UnescapeString(text)), " ")
}

// ask sends anna a question of codex with choices.
func ask(t testing.TB, w *mailbox.Workspace, subject, body string) *schema.Message {
	t.Helper()
	m := schema.Message{From: "codex", To: []schema.AgentName{"anna"}, Type: schema.Question, Subject: subject, Body: schema.TextValue(body)}
	if err := m.Offer([]string{"yes", "no"}); err != nil {
		t.Fatal(err)
	}
	return mailboxtest.Send(t, w, m).Message
}

// sentBy returns the messages in the outbox of an agent.
func sentBy(t testing.TB, w *mailbox.Workspace, agent schema.AgentName) []mailbox.Entry {
	t.Helper()
	entries, err := w.List(t.Context(), agent, mailbox.Outbox)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// unlimited lets a test ask as often as it likes.
func (b *browser) unlimited() *browser {
	b.guard.all.SetBurst(1e9)
	b.guard.all.SetLimit(1e9)
	b.guard.posts.SetBurst(1e9)
	b.guard.posts.SetLimit(1e9)
	return b
}
