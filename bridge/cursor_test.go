package bridge

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestCursorFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cursor")
	if c, err := LoadCursor(path, "codex"); err != nil || c != "" {
		t.Errorf("without a file: want the beginning, got %q, %v", c, err)
	}
	for _, want := range []Cursor{"1f-2-0000abcd", "", "ffffffffffffffff-ffffffffffffffff-00000000"} {
		must(t, SaveCursor(path, "codex", want))
		if got, err := LoadCursor(path, "codex"); err != nil || got != want {
			t.Errorf("want %q, got %q, %v", want, got, err)
		}
	}
	for c, want := range map[Cursor]int{"": 0, "x": 0, "1f-2-0000abcd": 2, "1f-1f-0000abcd": 31} {
		if got := c.Line(); got != want {
			t.Errorf("%q: want line %d, got %d", c, want, got)
		}
	}
	must(t, SaveCursor(path, "codex", "1f-2-0000abcd"))
	if got, err := LoadCursor(path, "claude"); !errors.Is(err, ErrUnknownCursor) || !strings.Contains(err.Error(), `"codex"`) {
		t.Errorf("another agent's cursor: got %q, %v, want ErrUnknownCursor and whose it is", got, err)
	}
	writeFile(t, path, "1f-2-0000abcd\n") // as earlier versions wrote it
	if got, err := LoadCursor(path, "claude"); err != nil || got != "1f-2-0000abcd" {
		t.Errorf("a cursor without an agent: got %q, %v", got, err)
	}
	writeFile(t, path, strings.Repeat("x", 10_000))
	if _, err := LoadCursor(path, "codex"); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a long file: got %v, want that it is too large", err)
	}
}
