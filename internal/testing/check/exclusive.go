package check

import "testing"

var hasExclusiveRename = true

// NeedsExclusiveRename skips a test of what is so only with an exclusive rename, such as short file names, if the build tag
// no_exclusive_rename is set.
func NeedsExclusiveRename(t testing.TB) {
	if !hasExclusiveRename {
		t.Skip("the tests run without an exclusive rename")
	}
}
