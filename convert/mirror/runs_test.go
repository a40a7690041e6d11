package mirror

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/convert"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// runs are the runs of a repository that share a workspace.
type runs struct {
	t                testing.TB
	root, repository string
	workspace        string
}

func newRuns(t testing.TB) *runs {
	return &runs{t, t.TempDir(), t.TempDir(), newPlace(t, "claude", "codex").workspace.Dir()}
}

// open opens the log of a run, and makes the run, at the time, if there is none.
func (r *runs) open(id int, created time.Time) *place {
	r.t.Helper()
	run, err := bridge.MakeRun(r.root, r.repository, id, created)
	if err != nil {
		r.t.Fatal(err)
	}
	p := openPlace(r.t, r.workspace, run.BridgePath())
	if p.log, err = run.Open(&bridge.Options{NoSync: true}); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := p.log.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return p
}

func at(minute int, text string) schema.Message {
	m := question("", text)
	m.CreatedAt = schema.NewTimestamp(time.Date(2026, 3, 13, 14, minute, 0, 0, time.UTC))
	return m
}

// TestSecondRunBeginsEmpty checks that old mail and the messages of the first run stay out of the
// log of the second.
func TestSecondRunBeginsEmpty(t *testing.T) {
	t.Parallel()
	r := newRuns(t)
	first := r.open(1, time.Date(2026, 3, 13, 14, 30, 0, 0, time.UTC))
	first.append(exampleRecords()...)
	first.send(at(20, "before any run"))
	first.send(at(40, "in the first run"))
	if report := first.run(Both); report.Recorded != 2 || report.Delivered != 6 || report.LeftOut != 0 {
		t.Errorf("the first run: got %+v, want all there was: 2 recorded and 6 delivered", report)
	}

	// The run begins in the middle of a second.
	second := r.open(2, time.Date(2026, 3, 13, 14, 50, 0, 999, time.UTC))
	second.send(at(50, "in the second run"))
	report := second.run(Both)
	if report.Recorded != 1 || report.LeftOut != 8 || report.Delivered != 0 {
		t.Errorf("the second run: got %+v, want 1 recorded and 8 left out", report)
	}
	second.forget()
	second.run(Both)
	if got := second.records(); len(got) != 1 {
		t.Errorf("the second run has %d records, want 1", len(got))
	}

	since := second.mirror(Out)
	since.Since = time.Date(2026, 3, 13, 14, 35, 0, 0, time.UTC)
	if report, err := since.Run(context.Background()); err != nil || report.Recorded != 1 || report.LeftOut != 7 {
		t.Errorf("since 14:35: got %+v, %v, want one more recorded, and what came from the first run left out", report, err)
	}
	if got := len(first.records()); got != 8 {
		t.Errorf("the first run has %d records, want 8", got)
	}
	if report := second.run(In); report.Delivered != 0 {
		t.Errorf("got %+v, want nothing back", report)
	}
}

// TestLeftOutOnce checks that a mirror with another bound looks again at what one mirror left out.
func TestLeftOutOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	ctx := context.Background()
	p.send(at(20, "a question"))
	for range 2 {
		since := p.mirror(Out)
		since.Since = time.Date(2036, 3, 13, 14, 0, 0, 0, time.UTC)
		for _, want := range []int{1, 0} {
			if report, err := since.Run(ctx); err != nil || report.Recorded != 0 || report.LeftOut != want {
				t.Errorf("since a time to come: got %+v, %v, want %d left out", report, err, want)
			}
		}
	}
	if report := p.run(Out); report.Recorded != 1 {
		t.Errorf("without a bound: got %+v, want 1 recorded", report)
	}
	if report := p.run(Out); !report.quiet() {
		t.Errorf("again: got %+v, want nothing new", report)
	}
}

// TestDerivedInBothRuns checks that the record of each run stays in its log.
func TestDerivedInBothRuns(t *testing.T) {
	t.Parallel()
	r := newRuns(t)
	first, second := r.open(1, time.Unix(0, 0)), r.open(2, time.Unix(0, 0))
	first.append(record("task", "", "claude", "codex", "one"))
	second.append(record("task", "", "claude", "codex", "two"))
	for range 2 {
		for _, p := range []*place{first, second} {
			p.run(Both)
			if got := len(p.records()); got != 1 {
				t.Errorf("%s holds %d records, want its own", p.log.Path(), got)
			}
		}
		first.forget()
	}
	if got := len(first.box("codex", mailbox.Inbox)); got != 2 {
		t.Errorf("got %d messages, want both delivered", got)
	}
}

// TestBrokenManifest checks that a log whose run cannot be dated takes in nothing unless asked to.
func TestBrokenManifest(t *testing.T) {
	t.Parallel()
	r := newRuns(t)
	p := r.open(2, time.Unix(0, 0))
	p.send(at(20, "a question"))
	if err := os.WriteFile(filepath.Join(filepath.Dir(p.log.Path()), "manifest.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if report, err := p.mirror(Both).Run(context.Background()); err == nil {
		t.Errorf("got %+v, want an error that names the manifest", report)
	}
	m := p.mirror(Out)
	m.Since = time.Unix(1, 0)
	if report, err := m.Run(context.Background()); err != nil || report.Recorded != 1 {
		t.Errorf("since 1970: got %+v, %v, want 1 recorded", report, err)
	}
	if report, err := p.mirror(In).Run(context.Background()); err == nil {
		t.Errorf("got %+v, want an error, because the run may be finished", report)
	}
}

// TestTheSameWordsInTwoRuns checks that records of two runs with the same content are two messages,
// in any order of mirroring.
func TestTheSameWordsInTwoRuns(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"codex", ""} {
		for _, id := range []string{"", "0123456789abcdef0123", "no-hash"} {
			r := newRuns(t)
			var logs []*place
			for i, fraction := range []string{".1", ".25", ""} {
				p := r.open(i+1, time.Unix(0, 0))
				one := record("chat", "", "claude", to, "hello")
				one.Timestamp, one.RunID = "2024-03-28T10:00:00"+fraction+"Z", i+1
				if id != "" {
					one.ID = id
				}
				p.append(one)
				logs = append(logs, p)
			}
			wantAll := func(what string) {
				t.Helper()
				if got := len(logs[0].box("codex", mailbox.Inbox)); got != len(logs) {
					t.Errorf("to %q, id %q: %s: got %d messages, want %d", to, id, what, got, len(logs))
				}
				for _, p := range logs {
					if got := len(p.records()); got != 1 {
						t.Errorf("to %q, id %q: %s: %s holds %d records, want 1", to, id, what, p.log.Path(), got)
					}
				}
			}
			for _, p := range logs {
				if report := p.run(Both); report.Delivered != 1 {
					t.Errorf("to %q, id %q: got %+v, want 1 delivered", to, id, report)
				}
			}
			wantAll("once")
			for range 2 {
				for i := range logs {
					logs[len(logs)-1-i].run(Both)
				}
				wantAll("again")
				logs[0].forget()
				for _, p := range logs {
					p.run(Both)
				}
				wantAll("with nothing remembered")
				logs[0].forget()
			}
			for _, e := range logs[0].box("codex", mailbox.Inbox) {
				if _, ok := convert.OriginOf(e.Message); !ok || e.Message.Body.Text != "hello" {
					t.Errorf("to %q, id %q: message %s does not name its record", to, id, e.Message.ID)
				}
			}
		}
	}
}

// TestCopyOfALog checks that a copy of a log delivers nothing again.
func TestCopyOfALog(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	p.append(exampleRecords()...)
	p.run(Both)
	data, err := os.ReadFile(p.log.Path())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "bridge.jsonl")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if report := openPlace(t, p.workspace.Dir(), path).run(Both); report.Delivered != 0 || report.Recorded != 0 {
		t.Errorf("got %+v, want nothing new", report)
	}
}

// TestReservedSender checks that a sender who can have no mailbox does not stop the records behind it.
func TestReservedSender(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	p.append(record("task", "", "con", "codex", "one"), record("task", "", "Claude", "codex", "two"), record("task", "", "claude", "codex", "three"))
	if report := p.run(In); len(report.DeadLetters) != 2 || report.Delivered != 1 {
		t.Errorf("%+v, want two dead letters and one message", report)
	}
}
