package search_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/oacp-go/oacp/search"
)

// TestFullDisk fills the disk of the index: what was there can be found, and the rest when there is room again.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting another file system needs root")
	}
	w := newWorkspace(t)
	folder := filepath.Dir(indexFile(w))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("this machine cannot mount another file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(folder, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", folder, err)
		}
	})
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
