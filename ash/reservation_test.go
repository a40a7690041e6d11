package ash

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestRemoveAbandoned: of the sockets in a folder, only those go that were
// reserved by a process that is no more and on which nobody answers.
func TestRemoveAbandoned(t *testing.T) {
	dir, err := os.MkdirTemp("", "ash") // socket paths are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	leave := func(name string, listens, reserved bool) string {
		t.Helper()
		path := filepath.Join(dir, "ash-"+name+".sock")
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		listener.SetUnlinkOnClose(false)
		if listens {
			t.Cleanup(func() { _ = listener.Close() })
		} else if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		if reserved {
			if err := os.WriteFile(path+reservedSuffix, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	abandoned, foreign := leave("abandoned", false, true), leave("foreign", false, false)
	answers, used := leave("answers", true, true), leave("used", false, true)
	lock, err := lockFile(used + reservedSuffix)
	if err != nil || lock == nil {
		t.Fatalf("locking: %v, %v", lock, err)
	}
	defer lock.Close()
	if err := removeAbandoned(dir); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		abandoned: false, abandoned + reservedSuffix: false, foreign: true,
		answers: true, answers + reservedSuffix: true, used: true, used + reservedSuffix: true,
	} {
		if _, err := os.Lstat(path); err == nil != want || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want it there: %v", filepath.Base(path), err, want)
		}
	}
}

func TestReserveSocket(t *testing.T) {
	first, err := ReserveSocket()
	if err != nil {
		t.Fatal(err)
	}
	second, err := ReserveSocket()
	if err != nil {
		t.Fatal(err)
	}
	if first.Path() == second.Path() {
		t.Errorf("%s was reserved twice", first.Path())
	}
	if err := errors.Join(first.Release(), second.Release()); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(first.Path() + "*"); err != nil || len(left) > 0 {
		t.Errorf("%q are left (%v), want nothing", left, err)
	}
}
