package search_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/search"
)

// TestRecords finds the records of a log, between garbage, while it grows and after it was replaced.
func TestRecords(t *testing.T) {
	w := newWorkspace(t)
	fill(t, w, 0, 1)
	run, err := bridge.MakeRun(t.TempDir(), filepath.Join(t.TempDir()), 1, start)
	if err != nil {
		t.Fatal(err)
	}
	x := open(t, w, run)
	text := ""
	add := func(from, to int) {
		for i := from; i < to; i++ {
			text += fmt.Sprintf("not a record of many\n"+`{"id":"m%d","type":"message","from":"codex","to":"claude","content":"record %d of many","timestamp":"2026-11-01T00:%02d:00Z"}`+"\n", i, i, i)
		}
		if err := os.WriteFile(run.BridgePath(), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		update(t, x)
	}
	want := func(words string, records int) {
		t.Helper()
		r, err := x.Search(t.Context(), search.Query{Terms: []string{words}}, search.Page{})
		found := 0
		for _, h := range r.Hits {
			if h.Run != nil {
				found++
			}
		}
		if err != nil || found != records {
			t.Errorf("%q is in %d records, want %d: %v", words, found, records, err)
		}
	}
	add(0, 3)
	want("of many", 3)
	add(3, 5)
	want("of many", 5)
	want("record 4", 1)
	if r, err := x.Search(t.Context(), search.Query{From: "codex", To: "claude"}, search.Page{Limit: 1}); err != nil || r.Hits[0].Line != 10 || r.Next == "" {
		t.Errorf("%+v, %v", r, err)
	}
	text = `{"id":"new","type":"message","from":"anna","content":"another of many","timestamp":"when"}` + "\n"
	add(0, 0)
	want("of many", 1)
	want("record", 0)
	others := open(t, w)
	update(t, others)
	if got := names(t, others, search.Query{}, 10); len(got) != 1 {
		t.Errorf("an index without the run has %q", got)
	}
	if err := os.Remove(run.BridgePath()); err != nil {
		t.Fatal(err)
	}
	update(t, x)
	want("another", 0)
}
