package durable

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// mount mounts a file system at the path for the duration of the test.
func mount(t *testing.T, source, path, kind string, flags uintptr, data string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a file system needs root")
	}
	if err := unix.Mount(source, path, kind, flags, data); err != nil {
		t.Skipf("this machine cannot mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", path, err)
		}
	})
}

// TestWritableSeesAReadOnlyFileSystem uses a read-only mount, because permissions do not stop root.
func TestWritableSeesAReadOnlyFileSystem(t *testing.T) {
	path := t.TempDir()
	if err := openDir(t, path, "dir").Writable(); err != nil {
		t.Errorf("a folder of ours: %v, want nil", err)
	}
	if err := os.Mkdir(path+"/mount", 0o755); err != nil {
		t.Fatal(err)
	}
	mount(t, "tmpfs", path+"/mount", "tmpfs", unix.MS_RDONLY, "size=64k")
	if err := openDir(t, path, "mount").Writable(); !errors.Is(err, unix.EROFS) {
		t.Errorf("a read-only file system: %v, want EROFS", err)
	}
}

// TestFullDisk checks that a file that does not fit leaves nothing behind, and that an old file
// keeps its contents.
func TestFullDisk(t *testing.T) {
	path := t.TempDir()
	mount(t, "tmpfs", path, "tmpfs", 0, "size=64k")
	d := openDir(t, path, "dir")
	put(t, d, "old", "old")
	big := make([]byte, 1<<17)
	if _, err := d.Create("big", big); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("creating gave %v, want ENOSPC", err)
	}
	if err := Replace(d.Path("old"), big, 0o644); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("replacing gave %v, want ENOSPC", err)
	}
	wantNames(t, d, "old")
	wantContent(t, d, "old", "old")
}

// TestFileSystemWithoutExclusiveRename publishes through FUSE: only names that nobody else chooses.
func TestFileSystemWithoutExclusiveRename(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a file system needs root")
	}
	path := t.TempDir()
	if out, err := exec.Command("bindfs", t.TempDir(), path).CombinedOutput(); err != nil {
		t.Skipf("this machine cannot mount a folder with bindfs: %v %s", err, out)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", path, err)
		}
	})
	d, other := openDir(t, path, "dir"), openDir(t, path, "other")
	put(t, d, "a", "data")
	if err := d.Publish("a", other, "b", false); !errors.Is(err, ErrNotExclusive) {
		t.Errorf("Publish gave %v, want ErrNotExclusive", err)
	}
	wantContent(t, d, "a", "data")
	put(t, other, "taken", "other data")
	if err := d.Publish("a", other, "taken", true); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Publish of a taken name gave %v, want fs.ErrExist", err)
	}
	if err := d.Publish("a", other, "b", true); err != nil {
		t.Errorf("Publish of a unique name gave %v", err)
	}
	wantContent(t, other, "b", "data")
	wantContent(t, other, "taken", "other data")
}

// TestOriginIsThatOfTheMount checks that processes on file systems that share no locks have different
// origins.
func TestOriginIsThatOfTheMount(t *testing.T) {
	path := t.TempDir()
	near := openDir(t, path, "near")
	if err := os.Mkdir(path+"/far", 0o755); err != nil {
		t.Fatal(err)
	}
	mount(t, "tmpfs", path+"/far", "tmpfs", 0, "size=64k")
	far, again := openDir(t, path, "far"), openDir(t, path, "near")
	origins := make([]string, 3)
	for i, d := range []*Dir{near, again, far} {
		var err error
		if origins[i], err = d.Origin(); err != nil || len(origins[i]) != 16 {
			t.Fatalf("the origin is %q (%v), want 16 digits", origins[i], err)
		}
	}
	if origins[0] != origins[1] || origins[0] == origins[2] {
		t.Errorf("the origins are %q, want the first two equal and the third different", origins)
	}
}
