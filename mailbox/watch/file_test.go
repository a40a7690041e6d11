package watch

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/schema"
)

// fileBench looks at one file of a box, with its own clock.
type fileBench struct {
	t    *testing.T
	box  *box
	path string
	now  time.Time
}

// write writes a file in place at the time of the bench's clock; "" means no file.
func (b *fileBench) write(text string) {
	b.t.Helper()
	if text == "" {
		if err := os.Remove(b.path); err != nil && !os.IsNotExist(err) {
			b.t.Fatal(err)
		}
		return
	}
	check.WriteFile(b.t, b.path, text)
	b.age(0)
}

// age makes the file look as if it was written that long ago.
func (b *fileBench) age(age time.Duration) {
	b.t.Helper()
	if err := os.Chtimes(b.path, b.now.Add(-age), b.now.Add(-age)); err != nil {
		b.t.Fatal(err)
	}
}

// look looks at the file and returns the kinds of the changes.
func (b *fileBench) look(follow bool) (kinds []EventKind) {
	b.t.Helper()
	dir, err := b.box.openDir()
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() {
		if err := dir.Close(); err != nil {
			b.t.Error(err)
		}
	}()
	c, unchanged := b.box.find(dir, "m.yaml", b.now)
	if unchanged {
		return nil
	}
	for _, c := range b.box.compare(c, b.now, follow) {
		b.box.apply(c)
		kinds = append(kinds, c.kind)
	}
	return kinds
}

// TestFile follows one file through its states.
func TestFile(t *testing.T) {
	t.Parallel()
	one, two := messageText("codex", "m1.yaml", "one"), messageText("codex", "m2.yaml", "two")
	edited, half := strings.Replace(one, "Last line", "A better last line", 1), one[:len(one)-14]
	const bad, none, forget = "id: [\n", "", EventKind("")
	type step struct {
		after time.Duration // since the step before
		text  string        // that the file gets; "=" if it stays as it is
		want  []EventKind
	}
	arrived, archived := []EventKind{EventArrived}, []EventKind{EventArchived}
	failed := []EventKind{EventError}
	for name, steps := range map[string][]step{
		"written in place": {
			{0, half, nil}, {Quiet - 1, "=", nil}, {0, one, nil}, {Quiet - 1, "=", nil}, {1, "=", arrived}, {time.Hour, "=", nil},
		},
		"bad, then good": {
			{0, bad, nil}, {Quiet, "=", failed}, {time.Hour, "=", nil}, {0, one, nil}, {Quiet, "=", arrived},
			{0, none, nil}, {Quiet, none, archived}, {Quiet, none, nil},
		},
		"bad, and bad in another way": {{0, bad, nil}, {Quiet, "=", failed}, {time.Hour, "id: [x\n", nil}, {Quiet, "=", failed}},
		"bad, then gone": {
			{0, bad, nil}, {Quiet, "=", failed}, {0, none, []EventKind{forget}}, {0, none, nil},
		},
		"never quiet": {{0, bad, nil}, {Quiet - 1, bad + "x", nil}, {Quiet - 1, bad + "xx", nil}, {Quiet, "=", failed}},
		"edited": {
			{0, one, nil}, {Quiet, "=", arrived}, {0, bad, nil}, {1, edited, []EventKind{forget}}, {time.Hour, "=", nil},
		},
		"broken and mended": {
			{0, one, nil}, {Quiet, "=", arrived}, {0, bad, nil}, {Quiet, "=", failed}, {time.Hour, one, []EventKind{forget}}, {0, "=", nil},
		},
		"gone for a moment": {
			{0, one, nil}, {Quiet, "=", arrived}, {0, none, nil}, {Quiet - 1, one, []EventKind{forget}}, {time.Hour, "=", nil},
		},
		"replaced": {
			{0, one, nil}, {Quiet, "=", arrived}, {0, two, nil}, {Quiet, "=", []EventKind{EventArchived, EventArrived}},
		},
		"gone before it settled": {{0, one, nil}, {1, none, nil}, {Quiet, none, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFileBench(t)
			for i, s := range steps {
				b.now = b.now.Add(s.after)
				if s.text != "=" {
					b.write(s.text)
				}
				if got := b.look(true); !slices.Equal(got, s.want) {
					t.Fatalf("step %d reports %q, want %q", i, got, s.want)
				}
			}
		})
	}
}

func newFileBench(t *testing.T) *fileBench {
	w := mailboxtest.NewBare(t, "codex", "gemini")
	b, err := openBox(Target{Workspace: w, Agent: "codex"}, &Options{})
	if err != nil {
		t.Fatal(err)
	}
	// A file with a time to come is not one that was renamed into its place.
	return &fileBench{t: t, box: b, path: b.entry("m.yaml").Path, now: time.Now().Add(time.Second)}
}

// TestFileThatIsReportedAtOnce covers the changes that are reported before a file is quiet.
func TestFileThatIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	text := messageText("codex", "m1.yaml", "one")
	b := newFileBench(t)
	addFile(t, b.box.path, "m.yaml", text)
	if got := b.look(true); !slices.Equal(got, []EventKind{EventArrived}) {
		t.Errorf("a file that was renamed into its place reports %q, want its arrival", got)
	}
	b.write("")
	if got := b.look(false); !slices.Equal(got, []EventKind{EventArchived}) {
		t.Errorf("a scan of a missing file reports %q, want that it has left", got)
	}
	b.write(messageText("codex", "m2.yaml", "two"))
	b.now = b.now.Add(2 * oldAfter)
	if got := b.look(true); !slices.Equal(got, []EventKind{EventArrived}) {
		t.Errorf("an old file reports %q, want its arrival", got)
	}
	// Truncating a file sets its size a moment before its time.
	if err := os.Truncate(b.path, 0); err != nil {
		t.Fatal(err)
	}
	b.age(time.Hour)
	if got := b.look(true); got != nil {
		t.Errorf("a reported file that was just truncated reports %q, want nothing", got)
	}
}

// TestSummaryKeepsNoFile checks that nothing of a message's file stays in memory but its summary.
func TestSummaryKeepsNoFile(t *testing.T) {
	t.Parallel()
	const id, from, kind, priority, subject = "msg-20260313T1430Z-claude-ab12", "claude", "question", "P2", "Which port?"
	file := strings.Join([]string{id, from, kind, priority, subject, strings.Repeat("body ", 1000)}, "\n")
	part := func(text string) string {
		i := strings.Index(file, text)
		return file[i : i+len(text)]
	}
	got := summarize("m.yaml", &schema.Message{
		ID: schema.ID(part(id)), From: schema.AgentName(part(from)), Type: schema.Type(part(kind)),
		Priority: schema.Priority(part(priority)), Subject: part(subject),
	}, Version{})
	begin := uintptr(unsafe.Pointer(unsafe.StringData(file)))
	for want, text := range map[string]string{
		id: string(got.ID), from: string(got.From), kind: string(got.Type), priority: string(got.Priority), subject: got.Subject,
	} {
		if text != want {
			t.Errorf("got %q, want %q", text, want)
		}
		if at := uintptr(unsafe.Pointer(unsafe.StringData(text))); at >= begin && at < begin+uintptr(len(file)) {
			t.Errorf("%q is a part of the file, want a copy", text)
		}
	}
}
