package gitmail_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox/gitmail"
)

// fill fills the disk of a workspace except for that many bytes, and returns a function that frees it again.
func (m *machine) fill(free int) (empty func()) {
	m.n.t.Helper()
	path := filepath.Join(m.dir, "filler")
	file, err := os.Create(path)
	if err != nil {
		m.n.t.Fatal(err)
	}
	size := 0
	for block := 1 << 16; block >= 1; block /= 16 {
		for err = error(nil); err == nil; {
			var n int
			n, err = file.Write(make([]byte, block))
			size += n
		}
	}
	if err := errors.Join(file.Truncate(int64(max(0, size-free))), file.Close()); err != nil {
		m.n.t.Fatal(err)
	}
	return func() { check.Remove(m.n.t, path) }
}

// onSmallDisk returns a copy of the correspondence with the workspace here on a small disk.
func (c *correspondence) onSmallDisk(t *testing.T) *correspondence {
	t.Helper()
	return c.copy(t, func(dir string) { check.SmallDisk(t, filepath.Join(dir, c.here.name, ".oacp"), "8m") })
}

// TestFullDiskAtEveryStep fills the disk at each step of a sync. The sync may fail; once there is room, the next one does
// the rest.
func TestFullDiskAtEveryStep(t *testing.T) {
	notInShort(t)
	t.Parallel()
	original, failures := newCorrespondence(t), 0
	for _, step := range steps {
		if !*thorough && (step == "locked" || step == "merged" || step == "pushed") {
			continue // little is written before the next step
		}
		t.Run(step, func(t *testing.T) {
			c := original.onSmallDisk(t)
			r, err := gitmail.Open(t.Context(), c.here.w)
			if err != nil {
				t.Fatal(err)
			}
			empty := func() { t.Errorf("no sync gets to the step %q", step) }
			r.SetStep(func(name string) {
				if name == step {
					empty = c.here.fill(0)
					r.SetStep(func(string) {})
				}
			})
			_, err = r.Sync(t.Context(), gitmail.Options{})
			t.Logf("sync = %v", err)
			if err != nil {
				failures++
				wantFullDisk(t, err)
			}
			empty()
			c.check(nil, nil)
		})
	}
	if failures == 0 && !t.Failed() {
		t.Skip("no disk was full")
	}
}

// wantFullDisk checks that an error says that the disk is full, even if git failed.
func wantFullDisk(t *testing.T, err error) {
	t.Helper()
	if got := failure.Of(err); got.Code != "disk_full" || got.Hint == "" {
		t.Errorf("the error %v has the code %q and the hint %q", err, got.Code, got.Hint)
	}
}

// TestAlmostFullDisk leaves room for a part of what a sync writes.
func TestAlmostFullDisk(t *testing.T) {
	notInShort(t)
	t.Parallel()
	original := newCorrespondence(t)
	for _, pages := range []int{0, 1, 16} {
		t.Run(fmt.Sprintf("%d pages", pages), func(t *testing.T) {
			c := original.onSmallDisk(t)
			empty := c.here.fill(pages * os.Getpagesize())
			_, err := c.here.trySync()
			if err != nil {
				wantFullDisk(t, err)
			}
			empty()
			c.check(nil, nil)
		})
	}
}
