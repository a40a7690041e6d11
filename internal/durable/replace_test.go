package durable

import (
	"errors"
	"os"
	"slices"
	"testing"
)

// TestReplaceIsDurable checks the order in which a replacement becomes durable, and that each failure
// is returned. After a failure before the rename, the old file is in place, and nothing else.
func TestReplaceIsDurable(t *testing.T) {
	order := []string{"sync file", "rename", "sync folder"}
	for failing := range len(order) + 1 {
		d, _ := openDirs(t)
		put(t, d, "a", "old")
		failure := errors.New("the disk does not answer")
		var done []string
		step := func(name string) error {
			done = append(done, name)
			if failing < len(order) && order[failing] == name {
				return failure
			}
			return nil
		}
		err := d.replace(replacing{
			syncFile: func(file *os.File) error { return errors.Join(step("sync file"), syncFile(file)) },
			publish: func(r *Replacement) error {
				if err := step("rename"); err != nil {
					return err
				}
				return r.Publish()
			},
			syncDir: func(d *Dir) error { return errors.Join(step("sync folder"), d.Sync()) },
		}, "a", []byte("new"), 0o600)
		if failing == len(order) && err != nil || failing < len(order) && !errors.Is(err, failure) {
			t.Errorf("failing at step %d of %q, Replace gave %v", failing, order, err)
		}
		if want := order[:min(failing+1, len(order))]; !slices.Equal(done, want) {
			t.Errorf("Replace did %q, want %q", done, want)
		}
		want := "new"
		if failing < 2 {
			want = "old"
		}
		wantContent(t, d, "a", want)
		wantNames(t, d, "a")
	}
}

// TestReplaceFile checks that ReplaceFile makes and replaces a file below the root, with its mode.
func TestReplaceFile(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.MkdirAll("a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"old", "new"} {
		if err := ReplaceFile(root, root.Name(), "a/b/file", []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadFile(root, root.Name(), "a/b/file", 10)
		if err != nil || string(got) != want {
			t.Errorf("replacement %d: the file holds %q (%v), want %q", i, got, err, want)
		}
	}
	info, err := root.Stat("a/b/file")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v (%v), want mode 0600", info, err)
	}
	if err := root.Mkdir("a/b/folder", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := ReplaceFile(root, root.Name(), "a/b/folder", nil, 0o600); err == nil {
		t.Error("a folder was replaced")
	}
}
