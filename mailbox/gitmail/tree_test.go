package gitmail

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/schema"
)

// TestReaderOfLargeObject ends a git while git still writes an object that is too large.
func TestReaderOfLargeObject(t *testing.T) {
	t.Parallel()
	r := &Repository{git: &git.Repository{GitDir: filepath.Join(t.TempDir(), "r.git")}}
	if _, err := r.git.Run(t.Context(), "init", "--quiet", "--bare"); err != nil {
		t.Fatal(err)
	}
	blob, err := r.git.RunInput(t.Context(), strings.NewReader(strings.Repeat("x", schema.MaxFileSize+1)), "hash-object", "-w", "--stdin")
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(t.Context(), r.git)
	defer s.close()
	if _, err := s.read(strings.TrimSpace(string(blob)), "blob", schema.MaxFileSize); err == nil {
		t.Error("an object is read that is too large")
	}
	if _, err := s.file(strings.TrimSpace(string(blob))); err == nil {
		t.Error("a file is read that is too large")
	}
}
