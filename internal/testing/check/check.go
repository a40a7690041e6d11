// Package check helps tests with files and errors.
package check

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Overlap makes 8 the default of the flag -parallel. The usual default is one test for each processor, which is too
// few for tests that mostly wait for other programs. TestMain calls it.
func Overlap() {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
}

// Error fails the test unless the text of the error contains all the words.
func Error(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}

// ReadFile returns the text of a file.
func ReadFile(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// WriteFile writes a file and makes its folder.
func WriteFile(t testing.TB, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// Remove removes files and folders with their contents.
func Remove(t testing.TB, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}

// Contents returns what is in a folder, by path below it: the text of each file, the
// target of each link, and "" for each folder, whose path ends in a slash.
func Contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir():
			found[name+"/"] = ""
			return nil
		case entry.Type()&os.ModeSymlink != 0:
			found[name], err = os.Readlink(path)
			return err
		}
		data, err := os.ReadFile(path)
		found[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Kept fails the test if a file of want, a result of Contents, has changed or is missing.
func Kept(t testing.TB, dir string, want map[string]string) {
	t.Helper()
	got := Contents(t, dir)
	for name, text := range want {
		if there, ok := got[name]; !ok || there != text {
			t.Errorf("%s holds %q (is there: %t), want %q", name, there, ok, text)
		}
	}
}
