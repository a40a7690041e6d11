//go:build unix

package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// entries makes one entry of each kind in a folder, and returns it open.
func entries(t *testing.T) *Dir {
	t.Helper()
	d, other := openDirs(t)
	put(t, d, "file", "data")
	put(t, other, "secret", "secret")
	for _, err := range []error{
		os.Mkdir(d.Path("folder"), 0o755), unix.Mkfifo(d.Path("pipe"), 0o600),
		os.Symlink("file", d.Path("link")), os.Symlink("missing", d.Path("dangling")),
		os.Symlink(other.Path("secret"), d.Path("out")), os.Symlink(other.Path("made"), d.Path("dangling out")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		wantContent(t, other, "secret", "secret")
		wantNames(t, other, "secret")
	})
	return d
}

// within fails the test if a call waits, as opening a pipe normally does.
func within[Result any](t *testing.T, call func() Result) (result Result) {
	t.Helper()
	done := make(chan Result, 1)
	go func() { done <- call() }()
	select {
	case result = <-done:
	case <-time.After(time.Minute):
		t.Fatal("the call waits for the other end of a pipe")
	}
	return result
}

func TestOpenFileOpensRegularFilesOnly(t *testing.T) {
	d := entries(t)
	for _, flag := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_APPEND, os.O_RDWR | os.O_CREATE, os.O_WRONLY | os.O_TRUNC} {
		for name, want := range map[string]error{
			"file": nil, "folder": ErrNotRegular, "pipe": ErrNotRegular, "link": ErrLink, "dangling": ErrLink,
			"out": ErrLink, "dangling out": ErrLink, "../other/secret": fs.ErrInvalid, "": fs.ErrInvalid,
		} {
			err := within(t, func() error {
				file, err := d.OpenFile(name, flag, 0o600)
				if err != nil {
					return err
				}
				return file.Close()
			})
			if !errors.Is(err, want) {
				t.Errorf("opening %q with %#x gave %v, want %v", name, flag, err, want)
			}
		}
	}
	wantNames(t, d, "dangling", "dangling out", "file", "folder", "link", "out", "pipe")
	if _, err := d.OpenFile("missing", os.O_RDONLY, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening a missing file gave %v, want fs.ErrNotExist", err)
	}
	if _, err := d.OpenFile("link", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("creating a file in the place of a link gave %v, want fs.ErrExist", err)
	}
}

// TestOpenFileAppends checks that a file that is opened without waiting reads and writes as usual.
func TestOpenFileAppends(t *testing.T) {
	d := entries(t)
	for range 2 {
		file, err := d.OpenFile("log", os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o640)
		if err != nil {
			t.Fatal(err)
		}
		_, err = file.WriteString("line\n")
		if err = errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	wantContent(t, d, "log", "line\nline\n")
}

// TestReplacePutsAFileInThePlaceOfAnything checks that Replace follows no link.
func TestReplacePutsAFileInThePlaceOfAnything(t *testing.T) {
	d := entries(t)
	for _, name := range []string{"file", "pipe", "link", "dangling", "out", "dangling out"} {
		if err := within(t, func() error { return d.Replace(name, []byte(name), 0o600) }); err != nil {
			t.Error(err)
		}
		wantContent(t, d, name, name)
	}
}

// TestPathsOfUsersMayBeLinks checks the functions for paths that a user named.
func TestPathsOfUsersMayBeLinks(t *testing.T) {
	d := entries(t)
	if err := os.Symlink(filepath.Base(d.Path("")), d.Path("../way")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		"link": nil, "folder": ErrNotRegular, "pipe": ErrNotRegular, "dangling": fs.ErrNotExist,
	} {
		err := within(t, func() error {
			file, err := OpenRegular(d.Path("../way/"+name), os.O_RDONLY, 0)
			if err != nil {
				return err
			}
			return file.Close()
		})
		if !errors.Is(err, want) {
			t.Errorf("opening %s gave %v, want %v", name, err, want)
		}
		err = within(t, func() error {
			_, err := ReadPath(d.Path("../way/"+name), 1000)
			return err
		})
		if !errors.Is(err, want) {
			t.Errorf("reading %s gave %v, want %v", name, err, want)
		}
	}
	if _, err := ReadPath(d.Path("file"), 0); !errors.Is(err, ErrTooLarge) {
		t.Errorf("reading more than the limit gave %v, want %v", err, ErrTooLarge)
	}
	for name, want := range map[string]error{
		"": nil, "folder": nil, "pipe": ErrNotFolder, "file": ErrNotFolder, "missing": fs.ErrNotExist,
	} {
		err := within(t, func() error {
			dir, err := OpenPath(d.Path("../way/" + name))
			if err != nil {
				return err
			}
			return dir.Close()
		})
		if !errors.Is(err, want) {
			t.Errorf("opening the folder %s gave %v, want %v", name, err, want)
		}
	}
}
