package gitmail

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/schema"
)

// TestReaderOfLargeObject closes a reader while git still writes an object that is too large.
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
	in, err := r.openReader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.read(strings.TrimSpace(string(blob))); err == nil {
		t.Error("an object is read that is too large")
	}
	if err := in.close(); err != nil {
		t.Error(err)
	}
}
