package bridge

import (
	"errors"
	"os"
	"testing"
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

// replace puts another log in the place of the one at path, as an editor does.
func replace(t *testing.T, path string, records ...Record) {
	t.Helper()
	writeFile(t, path+".new", linesOf(t, records...))
	must(t, os.Rename(path+".new", path))
}

// TestReplacedLog checks that a handle goes on with the file that replaced its log.
func TestReplacedLog(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
