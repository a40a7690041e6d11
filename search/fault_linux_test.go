package search_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/search"
)

// TestFullDisk fills the disk of the index: what was there can be found, and the rest when there is room again.
func TestFullDisk(t *testing.T) {
	w := newWorkspace(t)
	folder := filepath.Dir(indexFile(w))
	check.SmallDisk(t, folder, "1m")
	x := open(t, w)
	fill(t, w, 0, 100)
	update(t, x)
	fill(t, w, 100, 3000)
	if err := x.Update(t.Context()); err == nil {
		t.Fatal("3000 messages fit on a disk of 1 MB")
	} else {
		t.Log(err)
	}
	r, err := x.Search(t.Context(), search.Query{Terms: []string{"number 42 "}}, search.Page{})
	if err != nil || len(r.Hits) != 1 {
		t.Errorf("on the full disk: %+v, %v", r, err)
	}
	if err := unix.Mount("", folder, "", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	update(t, x)
	wantCount(t, x, "of many", 3000)
}
