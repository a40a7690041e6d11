package bridge

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/oacp-go/oacp/internal/durable"
)

// linesOf returns the lines of a log with the records.
func linesOf(t *testing.T, records ...Record) (text string) {
	t.Helper()
	for _, r := range records {
		r.ID = GenerateID(r.Type, r.From, r.To, r.Content)
		line, err := r.Encode()
		must(t, err)
		text += string(line) + "\n"
	}
	return text
}

// TestRewrittenInPlace checks that a handle notices when a log is written anew in the same file, from
// its beginning or behind what the handle read first: it counts the new records, and does not send
// one of them again.
func TestRewrittenInPlace(t *testing.T) {
	for _, kept := range []int{0, 2} {
		t.Run(fmt.Sprint(kept), func(t *testing.T) {
			path := logPath(t)
			var warnings []error
			l := openLog(t, path, quiet(&warnings))
			before := []Record{task("a", "b", "1"), task("a", "b", "2"), task("a", "b", "3"), task("a", "b", "4")}
			mustSend(t, l, before[:2]...)
			mustSend(t, openLog(t, path, nil), before[2:]...)
			wantContents(t, l.Drain(t.Context(), "b", ""), "1", "2", "3", "4")
			after := append(before[:kept:kept], task("z", "b", "5"), task("z", "b", "6"), task("z", "b", "7"), task("z", "b", "8"))
			writeFile(t, path, linesOf(t, after...))
			if status, err := l.Status(t.Context()); err != nil || status.ByAgent["z"] != 4 || status.ByAgent["a"] != kept {
				t.Errorf("status %+v, %v; want 4 of z and %d of a", status, err, kept)
			}
			if receipt := mustSend(t, l, task("z", "b", "5"))[0]; !receipt.Duplicate || receipt.Line != kept+1 {
				t.Errorf("receipt %+v, want a duplicate of line %d", receipt, kept+1)
			}
			if len(warnings) != 1 {
				t.Errorf("warnings %v, want one", warnings)
			}
		})
	}
}

// replace puts another log in the place of the one at path, as an editor does.
func replace(t *testing.T, path string, records ...Record) {
	t.Helper()
	writeFile(t, path+".new", linesOf(t, records...))
	must(t, os.Rename(path+".new", path))
}

// TestReplacedLog checks that a handle goes on with the file that replaced its log.
func TestReplacedLog(t *testing.T) {
	path := logPath(t)
	var warnings []error
	l := openLog(t, path, quiet(&warnings))
	mustSend(t, l, task("a", "b", "old"))
	wantContents(t, l.Drain(t.Context(), "b", ""), "old")
	replace(t, path, task("a", "b", "new"), task("a", "b", "newer"))
	wantContents(t, l.Drain(t.Context(), "b", ""), "new", "newer")
	replace(t, path, task("a", "b", "new"), task("a", "b", "newer"), task("a", "b", "newest"))
	mustSend(t, l, task("a", "b", "mine"))
	if !mustSend(t, l, task("a", "b", "newest"))[0].Duplicate {
		t.Error("a record of the file that replaced the log was sent again")
	}
	wantContents(t, openLog(t, path, nil).Drain(t.Context(), "b", ""), "new", "newer", "newest", "mine")
}

// TestReplacedWhileOpening replaces the log after a writer has opened it. The record must not go
// into the file that nobody sees any more.
func TestReplacedWhileOpening(t *testing.T) {
	path := logPath(t)
	mustSend(t, openLog(t, path, nil), task("a", "b", "old"))
	var warnings []error
	l := openLog(t, path, quiet(&warnings))
	l.open = func(path string) (appendFile, error) {
		file, err := openAppend(path)
		replace(t, path, task("a", "b", "new"))
		l.open = openAppend
		return file, err
	}
	if receipt, err := l.Send(t.Context(), task("a", "b", "mine")); !errors.Is(err, errReplaced) {
		t.Errorf("Send = %+v, %v, want errReplaced", receipt, err)
	}
	mustSend(t, l, task("a", "b", "mine"))
	wantContents(t, openLog(t, path, nil).Drain(t.Context(), "b", ""), "new", "mine")
}

// TestIndexingReadReleasesTheLog checks that a handle whose read made the index does not keep others
// from sending.
func TestIndexingReadReleasesTheLog(t *testing.T) {
	path := logPath(t)
	var records []Record
	for i := range 3 * indexLines {
		records = append(records, task("a", "b", fmt.Sprintf("%0*d", indexBytes/indexLines, i)))
	}
	writeFile(t, path, linesOf(t, records...))
	reader, writer := openLog(t, path, nil), openLog(t, path, nil)
	if _, err := reader.Status(t.Context()); err != nil || len(partFiles(t, path)) == 0 {
		t.Fatalf("%v, or the read made no index", err)
	}
	lock := durable.NewLock(path + ".lock")
	if free, err := lock.TryLock(); err != nil || !free {
		t.Errorf("the log's lock is free: %t, %v", free, err)
	}
	must(t, lock.Unlock())
	mustSend(t, writer, task("a", "b", "more"))
}
