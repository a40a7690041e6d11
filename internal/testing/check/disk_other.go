//go:build !linux

package check

import "testing"

// SmallDisk skips the test.
func SmallDisk(t testing.TB, folder, size string) {
	t.Skip("mounting another file system needs Linux")
}
