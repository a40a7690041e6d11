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
	if c, log, err := LoadCursor(path, "codex"); err != nil || c != "" || log != "" {
		t.Errorf("without a file: want the beginning, got %q of %q, %v", c, log, err)
	}
	for _, want := range []Cursor{"1f-2-0000abcd", "", "ffffffffffffffff-ffffffffffffffff-00000000"} {
		must(t, SaveCursor(path, "codex", want, "/logs/a log"))
		if got, log, err := LoadCursor(path, "codex"); err != nil || got != want || log != "/logs/a log" {
			t.Errorf("want %q, got %q of %q, %v", want, got, log, err)
		}
	}
	for c, want := range map[Cursor]int{"": 0, "x": 0, "1f-2-0000abcd": 2, "1f-1f-0000abcd": 31} {
		if got := c.Line(); got != want {
			t.Errorf("%q: want line %d, got %d", c, want, got)
		}
	}
	must(t, SaveCursor(path, "codex", "1f-2-0000abcd", "/log"))
	if got, _, err := LoadCursor(path, "claude"); !errors.Is(err, ErrUnknownCursor) || !strings.Contains(err.Error(), `"codex"`) {
		t.Errorf("another agent's cursor: got %q, %v, want ErrUnknownCursor and whose it is", got, err)
	}
	for _, text := range []string{"1f-2-0000abcd\n", "1f-2-0000abcd claude\n"} { // as earlier versions wrote it
		writeFile(t, path, text)
		if got, log, err := LoadCursor(path, "claude"); err != nil || got != "1f-2-0000abcd" || log != "" {
			t.Errorf("%q: got %q of %q, %v", text, got, log, err)
		}
	}
	writeFile(t, path, strings.Repeat("x", 10_000))
	if _, _, err := LoadCursor(path, "codex"); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a long file: got %v, want that it is too large", err)
	}
}

// TestCursorCoversItsLine changes the number of the line in a cursor. The log also accepts the cursors of earlier versions, which
// did not cover it.
func TestCursorCoversItsLine(t *testing.T) {
	t.Parallel()
	l := openLog(t, logPath(t), nil)
	last := mustSend(t, l, task("a", "b", "1"), task("a", "b", "2"))[1].Cursor()
	parts := strings.Split(string(last), "-")
	for _, line := range []string{"1", "3", "ff"} {
		c := Cursor(parts[0] + "-" + line + "-" + parts[2])
		for _, err := range l.Records(t.Context(), c) {
			if !errors.Is(err, ErrUnknownCursor) {
				t.Errorf("cursor %q: got %v, want ErrUnknownCursor", c, err)
			}
		}
	}
	p, err := last.parse()
	must(t, err)
	line, err := l.lineBefore(p)
	must(t, err)
	for _, c := range []Cursor{last, formatCursor(p, lineSum(line))} {
		for _, err := range l.Records(t.Context(), c) {
			t.Errorf("cursor %q: got %v, want that there is nothing more", c, err)
		}
	}
}
