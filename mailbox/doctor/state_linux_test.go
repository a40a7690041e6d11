package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// makeReadOnly makes a folder read-only for the duration of the test. Permissions do not stop root, but a
// read-only mount does.
func makeReadOnly(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		if err := os.Chmod(path, 0o555); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(path, 0o755) }) // the folder of the test is removed in any case
		return
	}
	if err := unix.Mount(path, path, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("this machine cannot mount a folder: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", path, err)
		}
	})
	if err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Skipf("this machine cannot make a mount read-only: %v", err)
	}
}

// TestInspectAFullDisk checks that there is an error, and that the inspection leaves nothing behind.
func TestInspectAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting another file system needs root")
	}
	w := mailboxtest.New(t, "claude", "codex")
	state := filepath.Join(w.Dir(), schema.StateName)
	check.SmallDisk(t, state, "256k")
	for _, full := range []bool{false, true} {
		if full {
			if err := os.WriteFile(filepath.Join(state, "filler"), make([]byte, 1<<19), 0o644); !errors.Is(err, unix.ENOSPC) {
				t.Fatalf("filling the disk gave %v, want ENOSPC", err)
			}
		}
		before := readNames(t, state)
		found, ok := find(inspect(t, w), trouble{category: "Delivery", finding: schema.StateName})
		if ok != full {
			t.Errorf("disk full %t: the finding is %+v", full, found)
		}
		if full {
			check.Error(t, errors.New(found.Message), state, "no space left on device")
		}
		if after := readNames(t, state); !slices.Equal(after, before) {
			t.Errorf("the inspection left %q, want %q", after, before)
		}
	}
}

func readNames(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestInspectAReadOnlyState checks that there is one finding, even if all folders below state are
// read-only.
func TestInspectAReadOnlyState(t *testing.T) {
	for _, folder := range []string{schema.StateName, project.SessionsFolder} {
		t.Run(folder, func(t *testing.T) {
			w := mailboxtest.New(t, "claude", "codex")
			if err := w.MakeStateFolder(project.SessionsFolder); err != nil {
				t.Fatal(err)
			}
			if found, ok := find(inspect(t, w), trouble{category: "Delivery", finding: schema.StateName}); ok {
				t.Errorf("a writable folder gives %+v", found)
			}
			path := filepath.Join(w.Dir(), folder)
			makeReadOnly(t, path)
			var found []Finding
			for _, f := range inspect(t, w) {
				if f.Category == "Delivery" && f.Severity != SeverityOK {
					found = append(found, f)
				}
			}
			if len(found) != 1 || found[0].Name != folder || found[0].Severity != SeverityError {
				t.Fatalf("the findings are %+v, want one error about %s", found, folder)
			}
			check.Error(t, errors.New(found[0].Message), path)
		})
	}
}
