package check

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// SmallDisk mounts a file system of a size such as 64k at a folder, which it makes if it is missing, until the test ends.
// It skips the test if this process cannot mount.
func SmallDisk(t testing.TB, folder, size string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting another file system needs root")
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("this machine cannot mount another file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(folder, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", folder, err)
		}
	})
}
