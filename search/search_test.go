package search_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/search"
)

func TestMain(m *testing.M) { mailboxtest.Main(m) }

var (
	agents = []schema.AgentName{"anna", "claude", "codex"}
	boxes  = schema.Boxes()
	start  = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
)

// newWorkspace returns an empty workspace with the boxes of all agents.
func newWorkspace(tb testing.TB) *mailbox.Workspace {
	dir := tb.TempDir()
	for _, agent := range agents {
		makeBoxes(tb, dir, agent)
	}
	return mailboxtest.Open(tb, dir)
}

func makeBoxes(tb testing.TB, dir string, agent schema.AgentName) {
	for _, box := range boxes {
		if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(schema.BoxPath(agent, box))), 0o755); err != nil {
			tb.Fatal(err)
		}
	}
}

// A message as the oracle knows it.
type message struct {
	name, from, to, typ, subject, body, conversation string
	at                                               time.Time
	// broken messages are not valid, but can be read; of garbage only the body can.
	broken, garbage bool
	files           map[string]schema.Box // by path
}

func (m *message) bytes() string {
	if m.garbage {
		return m.body
	}
	priority := "P2"
	if m.broken {
		priority = "P99"
	}
	var body strings.Builder
	for line := range strings.Lines(m.body) {
		body.WriteString("  " + line)
	}
	return fmt.Sprintf("id: msg-%s-%s-%s\nfrom: %s\nto: %s\ntype: %s\npriority: %s\ncreated_at_utc: %s\nconversation_id: %s\nsubject: %s\nbody: |\n%s\n",
		m.at.Format("20060102T1504Z"), m.from, m.name, m.from, m.to, m.typ, priority, m.at.Format(time.RFC3339),
		cmp.Or(m.conversation, "conv-20261101-codex-001"), m.subject, body.String())
}

func (m *message) file() string {
	return m.at.Format("20060102T1504Z") + "_" + cmp.Or(m.from, "codex") + "_" + cmp.Or(m.typ, "question") + "_" + m.name + ".yaml"
}

func write(tb testing.TB, path, text string) {
	tb.Helper()
	temp := path + ".new"
	if err := os.WriteFile(temp, []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(temp, path); err != nil {
		tb.Fatal(err)
	}
}

func open(tb testing.TB, w *mailbox.Workspace, runs ...bridge.Run) *search.Index {
	x := search.New(w, func() ([]bridge.Run, error) { return runs, nil })
	tb.Cleanup(func() { x.Close() })
	return x
}

func update(tb testing.TB, x *search.Index) {
	tb.Helper()
	if err := x.Update(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

// names returns the names of all hits, page by page.
func names(tb testing.TB, x *search.Index, q search.Query, limit int) (all []string) {
	tb.Helper()
	last := time.Now().AddDate(100, 0, 0)
	for page := (search.Page{Limit: limit}); ; {
		r, err := x.Search(tb.Context(), q, page)
		if err != nil {
			tb.Fatalf("%+v: %v", q, err)
		}
		if len(r.Hits) > limit {
			tb.Errorf("%+v: %d hits on a page of %d", q, len(r.Hits), limit)
		}
		for _, h := range r.Hits {
			if h.Message.CreatedAt.Time().After(last) {
				tb.Errorf("%+v: %s is newer than the hit before it", q, h.Name)
			}
			if !h.Message.CreatedAt.Time().IsZero() {
				last = h.Message.CreatedAt.Time()
			}
			all = append(all, h.Name)
		}
		if page.After = r.Next; r.Next == "" {
			return all
		}
	}
}

// TestAgainstScan compares the index with a search in the messages as they were written, while they move, vanish and
// change.
func TestAgainstScan(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := model{t: t, r: rand.New(rand.NewPCG(seed, 1)), w: newWorkspace(t)}
			x := open(t, m.w)
			for round := range 8 {
				for range m.r.IntN(30) {
					m.change()
				}
				if round == 4 { // another process's index
					x.Close()
					x = open(t, m.w)
				}
				update(t, x)
				for range 40 {
					m.compare(x)
				}
			}
		})
	}
}

// A model is the oracle: it knows nothing of the index.
type model struct {
	t   *testing.T
	r   *rand.Rand
	w   *mailbox.Workspace
	all []*message
}

func pick[T any](m *model, from []T) T { return from[m.r.IntN(len(from))] }

var (
	vocabulary    = strings.Fields(`port retry Timeout é日本 日本語 zq v2 → naïve İstanbul "quoted" from:codex a b the server's 100% x_y *star`)
	types         = []string{"notification", "question"}
	conversations = []string{"conv-20261101-codex-001", "conv-20261101-anna-002"}
)

func (m *model) text(words int) string {
	var b strings.Builder
	for range words {
		b.WriteString(pick(m, vocabulary))
		b.WriteString(pick(m, []string{" ", "  ", "\n", ""}))
	}
	return strings.TrimSpace(b.String())
}

func (m *model) compare(x *search.Index) {
	m.t.Helper()
	var q search.Query
	for range m.r.IntN(3) {
		term := m.text(1 + m.r.IntN(2))
		if runes := []rune(term); len(runes) > 1 && m.r.IntN(2) == 0 {
			term = string(runes[m.r.IntN(len(runes)):])
		}
		q.Terms = append(q.Terms, term)
	}
	for _, set := range []func(){
		func() { q.From = strings.ToUpper(string(pick(m, agents))) },
		func() { q.To = string(pick(m, agents)) },
		func() { q.Type = pick(m, types) },
		func() { q.In = schema.ConversationID(pick(m, conversations)) },
		func() { q.Is = pick(m, search.States()) },
		func() { q.After = start.Add(time.Duration(m.r.IntN(200*60)) * time.Second) },
		func() { q.Before = start.Add(time.Duration(m.r.IntN(200*60)) * time.Second) },
	} {
		if m.r.IntN(6) == 0 {
			set()
		}
	}
	var want []string
	for _, message := range m.all {
		if message.fits(q) {
			want = append(want, message.file())
		}
	}
	got := names(m.t, x, q, 1+m.r.IntN(20))
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		m.t.Fatalf("%+v:\ngot  %q\nwant %q", q, got, want)
	}
}

// change sends, moves, removes or edits a message, or removes an agent.
func (m *model) change() {
	if len(m.all) == 0 || m.r.IntN(2) == 0 {
		m.send()
		return
	}
	message := pick(m, m.all)
	path := ""
	for path = range message.files {
		break
	}
	switch n := m.r.IntN(20); {
	case n == 0:
		agent := pick(m, agents)
		dir := filepath.Join(m.w.Dir(), filepath.FromSlash(schema.AgentPath(agent, "")))
		m.must(os.RemoveAll(dir))
		for _, message := range m.all {
			maps.DeleteFunc(message.files, func(path string, _ schema.Box) bool { return strings.HasPrefix(path, dir) })
		}
		if m.r.IntN(2) == 0 {
			makeBoxes(m.t, m.w.Dir(), agent)
		}
	case path == "":
	case n < 6:
		box := pick(m, boxes[:3])
		agent := schema.AgentName(cmp.Or(message.to, "claude"))
		makeBoxes(m.t, m.w.Dir(), agent)
		to := filepath.Join(m.w.BoxPath(agent, box), message.file())
		m.must(os.Rename(path, to))
		delete(message.files, path)
		message.files[to] = box
	case n < 12:
		m.must(os.Remove(path))
		delete(message.files, path)
	case n < 16: // of all copies
		message.body = message.prefix() + m.text(1+m.r.IntN(8))
		for path := range message.files {
			write(m.t, path, message.bytes())
		}
	}
}

// prefix keeps garbage from being a message.
func (m *message) prefix() string {
	if m.garbage {
		return "{{{ "
	}
	return ""
}

func (m *model) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) send() {
	message := &message{name: fmt.Sprintf("%016x", m.r.Uint64()), at: start.Add(time.Duration(m.r.IntN(200*60)) * time.Second),
		broken: m.r.IntN(8) == 0, garbage: m.r.IntN(8) == 0, files: make(map[string]schema.Box)}
	from, to := pick(m, agents), pick(m, agents)
	if message.garbage {
		message.at = message.at.Truncate(time.Minute)
	} else {
		message.from, message.to, message.typ, message.subject = string(from), string(to), pick(m, types), fmt.Sprint("s", m.r.IntN(100))
		message.conversation = pick(m, conversations)
	}
	message.body = message.prefix() + m.text(1+m.r.IntN(8))
	for box, agent := range map[schema.Box]schema.AgentName{mailbox.Outbox: from, mailbox.Inbox: to} {
		makeBoxes(m.t, m.w.Dir(), agent)
		path := filepath.Join(m.w.BoxPath(agent, box), message.file())
		write(m.t, path, message.bytes())
		message.files[path] = box
	}
	m.all = append(m.all, message)
}

func (m *message) fits(q search.Query) bool {
	states := make(map[search.State]bool)
	for _, box := range m.files {
		states[map[schema.Box]search.State{mailbox.Archive: search.Handled, mailbox.Inbox: search.Pending, mailbox.Outbox: search.Sent, mailbox.DeadLetters: search.Dead}[box]] = true
	}
	switch {
	case len(m.files) == 0, q.From != "" && strings.ToLower(q.From) != m.from, q.To != "" && q.To != m.to, q.Type != "" && q.Type != m.typ,
		q.In != "" && string(q.In) != m.conversation, q.Is != "" && !states[q.Is],
		!q.After.IsZero() && m.at.Before(q.After), !q.Before.IsZero() && !m.at.Before(q.Before):
		return false
	}
	space := func(s string) string { return strings.Join(strings.Fields(strings.ToLower(s)), " ") }
	for _, term := range q.Terms {
		if !strings.Contains(space(m.subject), space(term)) && !strings.Contains(space(m.body), space(term)) {
			return false
		}
	}
	return true
}

func FuzzParseQuery(f *testing.F) {
	for _, text := range []string{`port "a phrase" from:codex`, `type:question after:2026-11-01 before:2026-11-02T00:00:00Z`, `is:dead in:conv-20261101-codex-001`,
		`"`, `from:"`, `http://x is:`, "\xff:\x00", `from:"a"b`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := search.ParseQuery(text)
		if err == nil {
			for _, term := range q.Terms {
				if term == "" || term != strings.ToLower(term) {
					t.Errorf("the term %q", term)
				}
			}
			return
		}
		e, ok := err.(*search.QueryError)
		if !ok || e.Position < 0 || e.Position > len(text) || e.Problem == "" || e.Fix == "" {
			t.Errorf("%q: %#v", text, err)
		}
	})
}

func TestParseQuery(t *testing.T) {
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	q, err := search.ParseQuery(`Retry "the  Port" from:codex to:claude type:question after:2026-11-01 before:2026-11-01T08:00:00Z is:dead http://x "from:me"`)
	if err != nil {
		t.Fatal(err)
	}
	want := search.Query{Terms: []string{"retry", "the port", "http://x", "from:me"}, From: "codex", To: "claude", Type: "question", After: day, Before: day.Add(8 * time.Hour), Is: search.Dead}
	if fmt.Sprintf("%+v", q) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", q, want)
	}
	for text, position := range map[string]int{`a "b`: 2, `is:deaf`: 3, `x after:soon`: 8, `from:a from:b`: 7, `from:`: 5, `in:x`: 3, `type:qestion`: 5, strings.Repeat("a ", 17): 32, strings.Repeat("a", 501): 500} {
		_, err := search.ParseQuery(text)
		if e, ok := err.(*search.QueryError); !ok || e.Position != position || e.Fix == "" {
			t.Errorf("%q: %#v, want one at %d", text, err, position)
		}
	}
}
