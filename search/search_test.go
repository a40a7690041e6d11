package search_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
		for _, box := range boxes {
			if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(schema.BoxPath(agent, box))), 0o755); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return mailboxtest.Open(tb, dir)
}

// a message as the oracle knows it.
type message struct {
	name, from, to, typ, subject, body string
	at                                 time.Time
	files                              map[string]string // path to bytes
}

func (m *message) bytes() string {
	var body strings.Builder
	for line := range strings.Lines(m.body) {
		body.WriteString("  " + line)
	}
	return fmt.Sprintf("id: msg-%s-%s-%s\nfrom: %s\nto: %s\ntype: %s\npriority: P2\ncreated_at_utc: %s\nsubject: %s\nbody: |\n%s\n",
		m.at.Format("20060102T1504Z"), m.from, m.name, m.from, m.to, m.typ, m.at.Format(time.RFC3339), m.subject, body.String())
}

func (m *message) file() string {
	return m.at.Format("20060102T1504Z") + "_" + m.from + "_" + m.typ + "_" + m.name + ".yaml"
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

func open(tb testing.TB, w *mailbox.Workspace) *search.Index {
	tb.Helper()
	x, err := search.Open(tb.Context(), w, nil)
	if err != nil {
		tb.Fatal(err)
	}
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
func names(tb testing.TB, find func(context.Context, search.Query, search.Page) (search.Result, error), q search.Query, limit int) (all []string) {
	tb.Helper()
	last := time.Now().AddDate(100, 0, 0)
	for page := (search.Page{Limit: limit}); ; {
		r, err := find(tb.Context(), q, page)
		if err != nil {
			tb.Fatalf("%+v: %v", q, err)
		}
		for _, h := range r.Hits {
			if h.CreatedAt.After(last) {
				tb.Errorf("%+v: %s is newer than the hit before it", q, h.Name)
			}
			last = h.CreatedAt
			all = append(all, h.Name)
		}
		if page.After = r.Next; r.Next == "" {
			return all
		}
	}
}

// TestAgainstScan compares the index and Scan with a search in the messages as they were written, while they move,
// vanish and change.
func TestAgainstScan(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { compare(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

var vocabulary = strings.Fields(`port retry Timeout é日本 日本語 zq v2 → naïve İstanbul "quoted" from:codex a b the server's 100% x_y *star`)

func text(r *rand.Rand, words int) string {
	var b strings.Builder
	for range words {
		b.WriteString(vocabulary[r.IntN(len(vocabulary))])
		b.WriteString([]string{" ", "  ", "\n", ""}[r.IntN(4)])
	}
	return strings.TrimSpace(b.String())
}

func compare(t *testing.T, r *rand.Rand) {
	w := newWorkspace(t)
	x := open(t, w)
	var all []*message
	for round := range 8 {
		for range r.IntN(30) {
			change(t, r, w, &all)
		}
		if round == 4 { // another process's index
			x.Close()
			x = open(t, w)
		}
		update(t, x)
		for range 40 {
			q := search.Query{}
			for range r.IntN(3) {
				term := text(r, 1+r.IntN(2))
				if runes := []rune(term); len(runes) > 1 && r.IntN(2) == 0 {
					term = string(runes[r.IntN(len(runes)):])
				}
				q.Terms = append(q.Terms, term)
			}
			if r.IntN(3) == 0 {
				q.From = string(agents[r.IntN(3)])
			}
			if r.IntN(4) == 0 {
				q.Is = search.States()[r.IntN(4)]
			}
			if r.IntN(4) == 0 {
				q.After = start.Add(time.Duration(r.IntN(200)) * time.Minute)
			}
			if r.IntN(4) == 0 {
				q.Before = start.Add(time.Duration(r.IntN(200)) * time.Minute)
			}
			var want []string
			for _, m := range all {
				if m.fits(q) {
					want = append(want, m.file())
				}
			}
			slices.Sort(want)
			for what, find := range map[string]func(context.Context, search.Query, search.Page) (search.Result, error){
				"index": x.Search,
				"scan": func(ctx context.Context, q search.Query, p search.Page) (search.Result, error) {
					return search.Scan(ctx, w, nil, q, p)
				},
			} {
				got := names(t, find, q, 1+r.IntN(20))
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Fatalf("round %d, %s, %+v:\ngot  %q\nwant %q", round, what, q, got, want)
				}
			}
		}
	}
}

// change sends, moves, removes or edits a message.
func change(t *testing.T, r *rand.Rand, w *mailbox.Workspace, all *[]*message) {
	place := func(m *message, agent string, box schema.Box) string {
		return filepath.Join(w.BoxPath(schema.AgentName(agent), box), m.file())
	}
	if len(*all) == 0 || r.IntN(2) == 0 {
		m := &message{name: fmt.Sprintf("%016x", r.Uint64()), from: string(agents[r.IntN(3)]), to: string(agents[r.IntN(3)]), typ: "notification",
			subject: "s" + fmt.Sprint(r.IntN(100)), body: text(r, 1+r.IntN(8)), at: start.Add(time.Duration(r.IntN(200*60)) * time.Second), files: map[string]string{}}
		for _, path := range []string{place(m, m.from, mailbox.Outbox), place(m, m.to, mailbox.Inbox)} {
			write(t, path, m.bytes())
			m.files[path] = m.bytes()
		}
		*all = append(*all, m)
		return
	}
	m := (*all)[r.IntN(len(*all))]
	for path := range m.files {
		switch r.IntN(4) {
		case 0:
			to := place(m, m.to, boxes[r.IntN(3)])
			if err := os.Rename(path, to); err != nil {
				t.Fatal(err)
			}
			delete(m.files, path)
			m.files[to] = m.bytes()
		case 1:
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			delete(m.files, path)
		case 2: // an edit of all copies
			m.body = text(r, 1+r.IntN(8))
			for path := range m.files {
				write(t, path, m.bytes())
			}
		}
		return
	}
}

// fits is the oracle: it knows nothing of the index.
func (m *message) fits(q search.Query) bool {
	states := map[search.State]bool{}
	for path := range m.files {
		states[map[string]search.State{"archive": "handled", "inbox": "pending", "outbox": "sent", "dead_letter": "dead"}[filepath.Base(filepath.Dir(path))]] = true
	}
	switch {
	case len(m.files) == 0, q.From != "" && q.From != m.from, q.Is != "" && !states[q.Is],
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
