package memoryfolder

import (
	"os"
	"testing"
)

func TestUse(t *testing.T) {
	for before, want := range map[string]string{"/nowhere": "/nowhere", "": ""} {
		if before == "" && suits() {
			want = folder
		}
		t.Setenv("TMPDIR", before)
		if err := Use(); err != nil || os.Getenv("TMPDIR") != want {
			t.Errorf("with TMPDIR=%s, it is %q, %v; want %q", before, os.Getenv("TMPDIR"), err, want)
		}
	}
}
