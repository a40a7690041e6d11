package bridge

import (
	"errors"
	"os"
	"reflect"
	"testing"
	"time"
)

// FuzzCursor checks that a log accepts the cursors that it gave out, and no other text.
func FuzzCursor(f *testing.F) {
	path := logPath(f)
	l := openLog(f, path, nil)
	mustSend(f, l, task("a", "b", "1"), task("a", "b", "2"), task("a", "b", "3"))
	given := map[Cursor]int{"": 3}
	for e, err := range l.Records(f.Context(), "") {
		must(f, err)
		given[e.Cursor()] = 3 - e.Line
		line, err := l.lineBefore(e.behind)
		must(f, err)
		given[formatCursor(e.behind, lineSum(line))] = 3 - e.Line // as earlier versions gave it out
		f.Add(string(e.Cursor()))
	}
	f.Add("-1-1-00000000")
	f.Add("10-1-")
	f.Add("0--1-0")
	f.Fuzz(func(t *testing.T, text string) {
		c, n := Cursor(text), 0
		var failed error
		for _, err := range l.Records(t.Context(), c) {
			failed = errors.Join(failed, err)
			n++
		}
		want, known := given[c]
		if known && (failed != nil || n != want) || !known && !errors.Is(failed, ErrUnknownCursor) {
			t.Errorf("behind %q there are %d records, %v; want %d of a cursor that is known: %t", c, n, failed, want, known)
		}
		if c.Line() < 0 {
			t.Errorf("%q is behind line %d", c, c.Line())
		}
	})
}

// FuzzFacts checks that whatever a manifest holds, it says when the run began and what it is about,
// or is an error.
func FuzzFacts(f *testing.F) {
	run, err := MakeRun(f.TempDir(), f.TempDir(), 2, time.Unix(1e9, 0))
	must(f, err)
	data, err := os.ReadFile(run.ManifestPath())
	must(f, err)
	f.Add(data)
	f.Add([]byte(`null`))
	f.Add([]byte(`{"created_at":"yesterday"}`))
	f.Add([]byte(`{"created_at":"2026-03-13T14:30:00+25:00","repo_path":7}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		must(t, os.WriteFile(run.ManifestPath(), data, 0o600))
		found, err := run.facts()
		if err != nil && !reflect.DeepEqual(found, facts{}) {
			t.Errorf("%q gave %+v and %v, want one of them", data, found, err)
		}
		if _, beginErr := Beginning(run.BridgePath()); (err == nil) != (beginErr == nil) {
			t.Errorf("%q: the facts are %v and the beginning %v", data, err, beginErr)
		}
	})
}
