package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTornTail checks that the next Send closes off whatever a crash left after the last newline:
// it is reported, never merged, never fatal.
func TestTornTail(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	whole := `{"id":"1","type":"task","from":"a","to":"b","content":"first"}` + "\n"
	for _, test := range []struct {
		name, before, torn string
		reads              []string // after the next send
		skipped            int
	}{
		{"half a record", whole, `{"id":"2","type":"ta`, []string{"first", "next"}, 1},
		{"one byte", whole, `{`, []string{"first", "next"}, 1},
		{"a record but for its newline", whole, `{"id":"2","type":"task","from":"a","to":"b","content":"second"}`, []string{"first", "second", "next"}, 0},
		{"nothing else", "", `{"id":`, []string{"next"}, 1},
		{"spaces", whole, "   ", []string{"first", "next"}, 1},
		{"zeros of a lost block", whole, strings.Repeat("\x00", 5000), []string{"first", "next"}, 1},
		{"half a character", whole, "{\"id\":\"2\",\"content\":\"\xc3", []string{"first", "next"}, 1},
		{"long", whole, `{"content":"` + strings.Repeat("x", 300<<10), []string{"first", "next"}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := logPath(t)
			writeFile(t, path, test.before+test.torn)
			var warnings []error
			l := openLog(t, path, quiet(&warnings))
			status, err := l.Status(ctx)
			if err != nil || status.TornBytes != int64(len(test.torn)) || status.SkippedLines != 0 {
				t.Errorf("want %d torn bytes, got %+v, %v", len(test.torn), status, err)
			}
			if got := mustRead(t, path); got != test.before+test.torn {
				t.Errorf("reading changed the log to %q", got)
			}
			mustSend(t, l, task("a", "b", "next"))
			var torn *LineError
			line := strings.Count(test.before, "\n") + 1
			if len(warnings) != 1 || !errors.As(warnings[0], &torn) || torn.Line != line {
				t.Errorf("want one warning about line %d, got %v", line, warnings)
			}
			if !strings.HasPrefix(mustRead(t, path), test.before+test.torn+"\n{") {
				t.Errorf("want the fragment on a line of its own, got %q", mustRead(t, path))
			}
			for _, log := range []*Log{l, openLog(t, path, nil)} {
				wantContents(t, log.Drain(ctx, "b", ""), test.reads...)
				if status, err := log.Status(ctx); err != nil || status.SkippedLines != test.skipped || status.TornBytes != 0 {
					t.Errorf("want %d skipped lines, got %+v, %v", test.skipped, status, err)
				}
			}
		})
	}
}

// A whole record without its newline counts for the duplicate check of the send that closes it off.
func TestTornRecordIsADuplicate(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	r := task("a", "b", "1")
	r.ID = GenerateID(r.Type, r.From, r.To, r.Content)
	line, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, string(line))
	var warnings []error
	l := openLog(t, path, quiet(&warnings))
	if receipt := mustSend(t, l, task("a", "b", "1"))[0]; !receipt.Duplicate || receipt.Line != 1 {
		t.Errorf("want a duplicate of line 1, got %+v", receipt)
	}
	if got := mustRead(t, path); got != string(line)+"\n" {
		t.Errorf("want the line closed, got %q", got)
	}
}

func TestBadLines(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path := logPath(t)
	good := func(n string) string {
		return `{"id":"` + n + `","type":"task","from":"a","to":"b","content":"` + n + `"}`
	}
	lines := []string{good("1"), "garbage", good("3"), "null", "", "{\"id\":\"6\",\"type\":\"chat\",\"from\":\"a\",\"to\":\"b\",\"content\":\"\xff\"}", `{"id":5}`, good("8"), "\x00\x01", good("10") + "\r"}
	writeFile(t, path, "\ufeff"+strings.Join(lines, "\n")+"\n")
	check := func(l *Log) {
		t.Helper()
		wantContents(t, l.Drain(ctx, "b", ""), "1", "3", "\ufffd", "8", "10")
		var numbers []int
		skipped, err := l.Skipped(ctx)
		must(t, err)
		for _, line := range skipped {
			numbers = append(numbers, line.Line)
		}
		want := []int{2, 4, 5, 7, 9}
		if !slices.Equal(numbers, want) {
			t.Errorf("want lines %v skipped, got %v", want, numbers)
		}
		var all []string
		for e, err := range l.Records(ctx, "") {
			var line *LineError
			if errors.As(err, &line) {
				all = append(all, fmt.Sprint("skipped ", line.Line))
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, fmt.Sprint(e.ID, " ", e.Line))
		}
		wantAll := []string{"1 1", "skipped 2", "3 3", "skipped 4", "skipped 5", "6 6", "skipped 7", "8 8", "skipped 9", "10 10"}
		if !slices.Equal(all, wantAll) {
			t.Errorf("want %q, got %q", wantAll, all)
		}
		if status, err := l.Status(ctx); err != nil || status.TotalMessages != 5 || status.SkippedLines != 5 {
			t.Errorf("want 5 records and 5 skipped lines, got %+v, %v", status, err)
		}
		if e, err := get(l, "8"); err != nil || e.Line != 8 {
			t.Errorf("want line 8, got %+v, %v", e, err)
		}
	}
	l := openLog(t, path, nil)
	check(l)
	l.mu.Lock()
	again := l.extendIndex()
	l.mu.Unlock()
	if again || l.read.Lines != l.index.Lines {
		t.Fatal("the lines are not in the index")
	}
	check(l)
	check(openLog(t, path, nil))
}

func TestLongLine(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path := logPath(t)
	l := openLog(t, path, nil)
	content := strings.Repeat("5 MB of text. ", 5<<20/14)
	mustSend(t, l, task("a", "b", "before"), task("a", "b", content), task("a", "b", "after"))
	got := contents(t, openLog(t, path, nil).Drain(ctx, "b", ""))
	if len(got) != 3 || got[0] != "before" || got[1] != content || got[2] != "after" {
		t.Fatalf("want three records, got %d", len(got))
	}
	if !mustSend(t, l, task("a", "b", content))[0].Duplicate {
		t.Error("want a duplicate")
	}
}

// FuzzPrefix checks that any prefix of a valid log opens, loses only its last line, and takes the
// next record.
func FuzzPrefix(f *testing.F) {
	for _, cut := range []int{0, 1, 100, 200, 300} {
		f.Add(cut, "a\nb", 3)
	}
	f.Add(1<<20, "ü\u2028", 100)
	f.Fuzz(func(t *testing.T, cut int, content string, records int) {
		path := logPath(t)
		content = strings.ToValidUTF8(content, "")
		var sent []Record
		for i := range max(0, records%150) {
			sent = append(sent, task("a", "b", fmt.Sprint(i, content)))
		}
		mustSend(t, openLog(t, path, nil), sent...)
		whole := []byte{}
		if len(sent) > 0 {
			whole = []byte(mustRead(t, path))
		}
		prefix := whole[:max(0, cut)%(len(whole)+1)]
		if err := os.WriteFile(path, prefix, 0o600); err != nil {
			t.Fatal(err)
		}
		var warnings []error
		l := openLog(t, path, quiet(&warnings))
		lines := bytes.Count(prefix, []byte("\n"))
		if got := contents(t, l.Drain(context.Background(), "b", "")); len(got) != lines {
			t.Fatalf("want %d records, got %d", lines, len(got))
		}
		mustSend(t, l, append(sent, task("a", "b", "next"))...)
		got := contents(t, l.Drain(context.Background(), "b", ""))
		slices.Sort(got)
		if n := len(slices.Compact(got)); n != len(got) || n != distinct(append(sent, task("a", "b", "next"))) {
			t.Fatalf("want every record once, got %d, %d distinct", len(got), n)
		}
	})
}

func distinct(records []Record) int {
	ids := map[string]bool{}
	for _, r := range records {
		ids[GenerateID(r.Type, r.From, r.To, r.Content)] = true
	}
	return len(ids)
}

// TestLineInPieces checks that Send waits for a line that a writer without the lock writes piece by
// piece, as long as the pieces come, and does not split it.
func TestLineInPieces(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path := logPath(t)
	l := openLog(t, path, nil)
	line := `{"id":"1","type":"task","from":"a","to":"b","content":"in pieces"}` + "\n"
	pieces := strings.SplitAfter(line, ",")
	writePiece := func() {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		must(t, err)
		_, err = file.WriteString(pieces[0])
		must(t, errors.Join(err, file.Close()))
		pieces = pieces[1:]
	}
	writePiece()
	waited := time.Duration(0)
	l.pause = func(_ context.Context, d time.Duration) error {
		if waited += d; waited%(quietTime-quietPause) == 0 && len(pieces) > 0 {
			writePiece() // the last moment
		}
		// Others read meanwhile.
		if status, err := l.Status(ctx); err != nil || status.TotalMessages != 1-min(1, len(pieces)) {
			t.Errorf("with %d pieces to come: got %+v, %v", len(pieces), status, err)
		}
		return nil
	}
	mustSend(t, l, task("a", "b", "next"))
	wantContents(t, l.Drain(ctx, "b", ""), "in pieces", "next")
	if len(pieces) > 0 {
		t.Errorf("Send did not wait for %q", pieces)
	}
}

// TestStoppedBeforeATornLine checks that a sender that is stopped while it waits writes nothing.
func TestStoppedBeforeATornLine(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	writeFile(t, path, `{"id":`)
	l := openLog(t, path, nil)
	ctx, stop := context.WithCancel(context.Background())
	l.pause = func(ctx context.Context, d time.Duration) error {
		stop()
		return pause(ctx, d)
	}
	if _, err := l.Send(ctx, task("a", "b", "next")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if got := mustRead(t, path); got != `{"id":` {
		t.Errorf("got %q, want the log as it was", got)
	}
	l.pause = pause
	if status, err := l.Status(context.Background()); err != nil || status.TornBytes == 0 {
		t.Errorf("got %+v, %v, want the log usable", status, err)
	}
}
