package durable

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCreatedFileShowsThatItIsWhole compares the times of a file that was created whole with those of
// one that a program has just written to.
func TestCreatedFileShowsThatItIsWhole(t *testing.T) {
	d, other := openDirs(t)
	file, err := d.Create("a", []byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := d.Publish("a", other, "b", true); err != nil {
		t.Fatal(err)
	}
	isWhole := func() bool {
		info, err := other.Lstat("b")
		if err != nil {
			t.Fatal(err)
		}
		return Changed(info).After(info.ModTime())
	}
	if !isWhole() {
		t.Error("a file that was created whole does not show it")
	}
	for _, change := range []func() error{
		func() error { _, err := file.WriteString(" and more"); return err },
		func() error { return file.Truncate(2) },
		func() error { return unix.Fallocate(int(file.Fd()), 0, 0, 100) },
		func() error { return os.WriteFile(other.Path("b"), nil, 0) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if isWhole() {
			t.Error("a file that was written to looks as if it was created whole")
		}
	}
}
