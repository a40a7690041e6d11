package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
)

// openLog opens a log that is closed with the test and whose warnings fail it unless options take them.
func openLog(t testing.TB, path string, options *Options) *Log {
	t.Helper()
	settings := Options{NoSync: true, Warn: func(err error) { t.Errorf("warning: %v", err) }}
	if options != nil {
		settings = *options
	}
	l, err := Open(path, &settings)
	if err != nil {
		t.Fatal(err)
	}
	l.pause = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// quiet are options that collect warnings.
func quiet(warnings *[]error) *Options {
	return &Options{NoSync: true, Warn: func(err error) { *warnings = append(*warnings, err) }}
}

func logPath(t testing.TB) string { return filepath.Join(t.TempDir(), "bridge.jsonl") }

func task(from, to, content string) Record {
	return Record{Type: TypeTask, From: from, To: to, Content: content, Timestamp: "2024-03-28T10:00:00Z"}
}

func mustSend(t testing.TB, l *Log, records ...Record) []Receipt {
	t.Helper()
	receipts, err := l.SendAll(context.Background(), records)
	if err != nil {
		t.Fatal(err)
	}
	return receipts
}

// errNotInLog reports an id that no record of the log has.
var errNotInLog = errors.New("no record has the id")

// get returns the first record with the given id.
func get(l *Log, id string) (Entry, error) {
	found, err := l.Find(context.Background(), id)
	if err == nil && len(found) == 0 {
		err = errNotInLog
	}
	if err != nil {
		return Entry{}, err
	}
	return found[0], nil
}

// cursorOf returns the place behind the first record with the given id.
func cursorOf(t testing.TB, l *Log, id string) Cursor {
	t.Helper()
	e, err := get(l, id)
	must(t, err)
	return e.Cursor()
}

// contents collects what an iterator yields; errors in it fail the test.
func contents(t testing.TB, entries iter.Seq2[Entry, error]) []string {
	t.Helper()
	var found []string
	for e, err := range entries {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, e.Content)
	}
	return found
}

func wantContents(t testing.TB, entries iter.Seq2[Entry, error], want ...string) {
	t.Helper()
	if got := contents(t, entries); !slices.Equal(got, want) {
		t.Errorf("want %q, got %q", want, got)
	}
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mustRead(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// conversation is the example conversation of AgentPair's bridge reference, its line comments left out.
func conversation(t testing.TB) string { return mustRead(t, "testdata/conversation.jsonl") }

func TestExampleConversation(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path := logPath(t)
	writeFile(t, path, conversation(t))
	l := openLog(t, path, nil)
	status, err := l.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := Status{
		TotalMessages: 6,
		ByAgent:       map[string]int{"claude": 3, "codex": 3},
		ByType:        map[Type]int{TypeTask: 1, TypeResult: 2, TypeReview: 1, TypeSignal: 2},
		HasDoneSignal: true,
		PassCount:     1,
	}
	if fmt.Sprint(status) != fmt.Sprint(want) {
		t.Errorf("want %+v, got %+v", want, status)
	}
	wantContents(t, l.Drain(ctx, "codex", ""),
		"Add email validation to LoginForm", "Please add error message display", "Looks good")
	wantContents(t, l.Drain(ctx, "claude", ""),
		"Added validateEmail function...", "Added error message UI...", "Validation complete")
	first := GenerateID(TypeTask, "claude", "codex", "Add email validation to LoginForm")
	wantContents(t, l.Drain(ctx, "codex", cursorOf(t, l, first)), "Please add error message display", "Looks good")

	// The log is unchanged, and sending the first task again finds it.
	receipt := mustSend(t, l, task("claude", "codex", "Add email validation to LoginForm"))[0]
	if !receipt.Duplicate || receipt.Line != 1 || receipt.Timestamp != "2024-03-28T10:00:00Z" {
		t.Errorf("want a duplicate of line 1, got %+v", receipt)
	}
	if got := mustRead(t, path); got != conversation(t) {
		t.Errorf("want the log untouched, got %s", got)
	}
}

func TestSendCompletesTheRecord(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	l := openLog(t, path, &Options{RunID: 7, Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }})
	receipt, err := l.Send(context.Background(), Record{Type: TypeSignal, From: "claude", Signal: SignalPass, Content: "a <b> & \u2028"})
	if err != nil {
		t.Fatal(err)
	}
	id := GenerateID(TypeSignal, "claude", "", "a <b> & \u2028")
	want := `{"id":"` + id + `","run_id":7,"type":"signal","from":"claude","to":"","content":"a <b> & \u2028","signal":"PASS","timestamp":"2026-01-02T03:04:05Z"}` + "\n"
	if got := mustRead(t, path); got != want {
		t.Errorf("want %s, got %s", want, got)
	}
	if receipt.ID != id || receipt.Duplicate || receipt.Line != 1 || receipt.RunID != 7 {
		t.Errorf("want a new record on line 1, got %+v", receipt)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("want mode 0600, got %v, %v", info.Mode(), err)
	}
}

func TestSendAllReportsDuplicatesInTheBatch(t *testing.T) {
	t.Parallel()
	l := openLog(t, logPath(t), nil)
	mustSend(t, l, task("a", "b", "old"))
	got := mustSend(t, l, task("a", "b", "new"), task("a", "b", "old"), task("a", "b", "new"), task("a", "b", "newer"))
	var shape []string
	for _, r := range got {
		shape = append(shape, fmt.Sprintf("%s %d %v", r.Content, r.Line, r.Duplicate))
	}
	want := []string{"new 2 false", "old 1 true", "new 2 true", "newer 3 false"}
	if !slices.Equal(shape, want) {
		t.Errorf("want %q, got %q", want, shape)
	}
}

func TestInvalidRecordWritesNothing(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	l := openLog(t, path, nil)
	_, err := l.SendAll(context.Background(), []Record{task("a", "b", "fine"), {Type: "taks", From: "a"}})
	if err == nil || !strings.Contains(err.Error(), "record 2 of 2: type: ") {
		t.Errorf("want an error about the type of record 2, got %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("want no log, got %v", err)
	}
}

func TestMissingLogIsEmpty(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path := logPath(t)
	l := openLog(t, path, nil)
	wantContents(t, l.Drain(ctx, "a", ""))
	wantContents(t, l.Records(ctx, ""))
	if status, err := l.Status(ctx); err != nil || status.TotalMessages != 0 {
		t.Errorf("want an empty status, got %+v, %v", status, err)
	}
	if _, err := get(l, "x"); !errors.Is(err, errNotInLog) {
		t.Errorf("want errNotInLog, got %v", err)
	}
	if end, err := l.End(ctx); err != nil || end != "" {
		t.Errorf("want the empty cursor, got %q, %v", end, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 0 {
		t.Errorf("want an untouched folder, got %v, %v", entries, err)
	}
	if _, err := Open(filepath.Join(filepath.Dir(path), "no", "bridge.jsonl"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("want fs.ErrNotExist for a missing folder, got %v", err)
	}
	if _, err := Open(filepath.Dir(path), nil); err == nil {
		t.Error("want an error for a folder")
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path := logPath(t)
	l := openLog(t, path, nil)
	toItself, err := ParseRecord([]byte(`{"id":"5","type":"task","from":"b","to":"b","content":"5"}`)) // others may write that
	must(t, err)
	receipts := mustSend(t, l, task("a", "b", "1"), task("a", "", "2"), task("b", "", "3"), task("c", "a", "4"), toItself, task("c", "b", "6"))
	wantContents(t, l.Drain(ctx, "b", ""), "1", "2", "5", "6")
	wantContents(t, l.Drain(ctx, "a", ""), "3", "4")
	wantContents(t, l.Drain(ctx, "stranger", ""), "2", "3")
	for i, r := range receipts {
		want := slices.DeleteFunc([]string{"1", "2", "5", "6"}, func(s string) bool { return s <= r.Content })
		wantContents(t, l.Drain(ctx, "b", cursorOf(t, l, r.ID)), want...)
		wantContents(t, l.Drain(ctx, "b", r.Cursor()), want...)
		if got := len(contents(t, l.Records(ctx, r.Cursor()))); got != len(receipts)-i-1 {
			t.Errorf("want %d records, got %d", len(receipts)-i-1, got)
		}
	}
	end, err := l.End(ctx)
	if err != nil || end != receipts[5].Cursor() {
		t.Errorf("want %q, got %q, %v", receipts[5].Cursor(), end, err)
	}
	for _, bad := range []Cursor{"x", "1-1-00000000", "ffff-1-00000000", receipts[0].Cursor() + "0", "-1-1-00000000"} {
		for _, err := range l.Drain(ctx, "b", bad) {
			if !errors.Is(err, ErrUnknownCursor) {
				t.Errorf("cursor %q: want ErrUnknownCursor, got %v", bad, err)
			}
		}
	}
	for e := range l.Drain(ctx, "b", "") { // a caller may stop, and use the log inside
		mustSend(t, l, task("z", "b", "inside"+e.Content))
		break
	}
	wantContents(t, l.Drain(ctx, "b", receipts[5].Cursor()), "inside1")
}

func TestFind(t *testing.T) {
	t.Parallel()
	l := openLog(t, logPath(t), nil)
	twin := "00112233445566778899aabbccddeeff"
	var sent []Record
	for i := range 300 { // enough for an index
		sent = append(sent, task("a", "b", fmt.Sprint(i)))
	}
	for _, id := range []string{twin + "1", twin + "2", "0011223344556677", "short", "FFEEDDCCBBAA99887766"} {
		r := task("a", "b", "id "+id)
		r.ID = id
		sent = append(sent, r)
	}
	mustSend(t, l, sent...)
	mustSend(t, l, task("a", "b", "last"))
	for _, r := range sent {
		id := r.ID
		if id == "" {
			id = GenerateID(r.Type, r.From, r.To, r.Content)
		}
		if e, err := get(l, id); err != nil || e.Content != r.Content {
			t.Fatalf("id %s: want %q, got %q, %v", id, r.Content, e.Content, err)
		}
	}
	if _, err := get(l, twin+"3"); !errors.Is(err, errNotInLog) {
		t.Errorf("want errNotInLog, got %v", err)
	}
}

func TestForeignDuplicateIDs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path := logPath(t)
	line := func(content string) string {
		return `{"id":"x","type":"task","from":"a","to":"b","content":"` + content + `"}` + "\n"
	}
	writeFile(t, path, line("first")+line("second"))
	l := openLog(t, path, nil)
	if e, err := get(l, "x"); err != nil || e.Content != "first" {
		t.Errorf("want the first, got %q, %v", e.Content, err)
	}
	wantContents(t, l.Drain(ctx, "b", ""), "first", "second")
	wantContents(t, l.Drain(ctx, "b", cursorOf(t, l, "x")), "second")
}

func TestGoroutinesShareALog(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := openLog(t, logPath(t), nil)
	const workers, each = 8, 100
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			for i := range each {
				if _, err := l.Send(ctx, task("a", "b", fmt.Sprint(w/2, " ", i))); err != nil {
					t.Error(err)
				}
				if i%20 == 0 {
					for _, err := range l.Drain(ctx, "b", "") {
						if err != nil {
							t.Error(err)
						}
					}
					if _, err := l.Status(ctx); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wait.Wait()
	got := contents(t, l.Drain(ctx, "b", ""))
	slices.Sort(got)
	if n := len(slices.Compact(slices.Clone(got))); n != workers/2*each || len(got) != n {
		t.Errorf("want %d records once, got %d, %d distinct", workers/2*each, len(got), n)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := openLog(t, logPath(t), nil)
	mustSend(t, l, task("a", "b", "1"))
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Send(ctx, task("a", "b", "2")); !errors.Is(err, errClosed) {
		t.Errorf("want errClosed, got %v", err)
	}
	if _, err := l.Status(ctx); !errors.Is(err, errClosed) {
		t.Errorf("want errClosed, got %v", err)
	}
}

func TestContextEndsTheWaitForTheLock(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	b, lock := openLog(t, path, nil), durable.NewLock(path+".lock")
	must(t, lock.Lock())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := b.Send(ctx, task("a", "b", "1"))
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("want context.Canceled, got %v", err)
	}
	must(t, lock.Unlock())
	mustSend(t, b, task("a", "b", "1"))
}

func TestSymbolicLinkSharesLockAndIndex(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	writeFile(t, path, "")
	link := filepath.Join(t.TempDir(), "link.jsonl")
	if err := os.Symlink(path, link); err != nil {
		t.Skip(err)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	if l := openLog(t, link, nil); l.Path() != real {
		t.Errorf("want %s, got %s", real, l.Path())
	}
}

// everyRecord reads the log without any of this package's state: the lines that parse.
func everyRecord(t testing.TB, path string) []Record {
	t.Helper()
	var records []Record
	for line := range bytes.Lines([]byte(mustRead(t, path))) {
		if r, err := ParseRecord(bytes.TrimSuffix(line, []byte("\n"))); err == nil {
			records = append(records, r)
		}
	}
	return records
}
