package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadFileBounds(t *testing.T) {
	d, _ := openDirs(t)
	const limit = 1000
	for _, size := range []int{0, 1, limit - 1, limit} {
		want := strings.Repeat("x", size)
		put(t, d, "a", want)
		got, modified, err := d.AppendFile(nil, "a", limit)
		if err != nil || string(got) != want {
			t.Errorf("reading %d bytes gave %d (%v)", size, len(got), err)
		}
		if info, err := d.Lstat("a"); err != nil || !info.ModTime().Equal(modified) {
			t.Errorf("the time read is %v, want that of the file (%v)", modified, err)
		}
		if err := d.Remove("a"); err != nil {
			t.Fatal(err)
		}
	}
	put(t, d, "a", strings.Repeat("x", limit+1))
	if _, err := d.ReadFile("a", limit); !errors.Is(err, ErrTooLarge) {
		t.Errorf("reading one byte too many gave %v, want ErrTooLarge", err)
	}
}

func TestReadFileRefusesWhatIsNoFileInside(t *testing.T) {
	d, other := openDirs(t)
	put(t, d, "file", "data")
	put(t, other, "secret", "secret")
	if err := os.Mkdir(d.Path("folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"inside": "file", "dangling": "nothing", "loop": "loop",
		"escape": "../other/secret", "absolute": other.Path("secret"), "to-folder": "folder",
	} {
		if err := os.Symlink(to, d.Path(link)); err != nil {
			t.Fatal(err)
		}
	}
	wantContent(t, d, "inside", "data")
	tests := []struct {
		name string
		is   error
	}{
		{"missing", fs.ErrNotExist}, {"dangling", ErrLink}, {"folder", ErrNotRegular}, {"to-folder", ErrLink},
		{"loop", nil}, {"escape", nil}, {"absolute", nil}, {"../other/secret", nil},
	}
	for _, test := range tests {
		data, err := d.ReadFile(test.name, 100)
		if err == nil || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("reading %s gave %q, %v; want %v", test.name, data, err, test.is)
		}
		if err != nil && !strings.Contains(err.Error(), filepath.Base(d.Path(test.name))) {
			t.Errorf("the error %q does not name %s", err, test.name)
		}
	}
}

func BenchmarkAppendFile(b *testing.B) {
	d, _ := openDirs(b)
	put(b, d, "a", strings.Repeat("x", 600))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := d.AppendFile(nil, "a", 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}
