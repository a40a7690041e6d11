package jsonl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
)

var errFault = errors.New("injected fault")

// faultyFile counts writes, and fails on demand.
type faultyFile struct {
	*os.File
	writes       int
	full         int  // bytes that the next write takes before the disk is full; negative: no limit
	failStat     bool // from the next write on
	failTruncate bool
	afterWrite   func() // called once, after the next write
}

func (f *faultyFile) Write(p []byte) (n int, err error) {
	f.writes++
	if f.full < 0 {
		return f.File.Write(p)
	}
	n, err = f.File.Write(p[:min(f.full, len(p))])
	f.full = -1
	if f.afterWrite != nil {
		f.afterWrite()
	}
	return n, errors.Join(syscall.ENOSPC, err)
}

func (f *faultyFile) Stat() (os.FileInfo, error) {
	if f.failStat && f.writes > 0 {
		return nil, errFault
	}
	return f.File.Stat()
}

func (f *faultyFile) Truncate(size int64) error {
	if f.failTruncate {
		return errFault
	}
	return f.File.Truncate(size)
}

func openFaulty(t *testing.T, content string) *faultyFile {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.jsonl")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return &faultyFile{File: file, full: -1}
}

func wantContent(t *testing.T, f *faultyFile, want string) {
	t.Helper()
	got, err := os.ReadFile(f.Name())
	if err != nil || string(got) != want {
		t.Errorf("the file holds %q (%v), want %q", got, err, want)
	}
}

func TestAppendWritesOnce(t *testing.T) {
	f := openFaulty(t, "")
	if err := Append(f, []byte("a\nb\n")); err != nil || f.writes != 1 {
		t.Errorf("Append: %v with %d writes, want 1", err, f.writes)
	}
	wantContent(t, f, "a\nb\n")
}

// TestFullDisk checks that only complete lines stay after a partial write to a full disk, and that
// the next append needs no repair.
func TestFullDisk(t *testing.T) {
	const before, lines = "old\n", "first\nsecond\nthird\n"
	for full := range len(lines) {
		whole := lines[:strings.LastIndexByte(lines[:full], '\n')+1]

		f := openFaulty(t, before)
		f.full = full
		if err := Append(f, []byte(lines)); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Append with room for %d: %v, want ENOSPC", full, err)
		}
		wantContent(t, f, before+whole)
		if err := Append(f, []byte("next\n")); err != nil {
			t.Error(err)
		}
		wantContent(t, f, before+whole+"next\n")
	}
}

// TestFailedCut checks that an append whose partial line could not be cut says so.
func TestFailedCut(t *testing.T) {
	for name, fail := range map[string]func(f *faultyFile){
		"stat":     func(f *faultyFile) { f.failStat = true },
		"truncate": func(f *faultyFile) { f.failTruncate = true },
	} {
		f := openFaulty(t, "old\n")
		f.full = 2
		fail(f)
		if err := Append(f, []byte("new\n")); !errors.Is(err, errFault) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: got %v, want the fault and ENOSPC", name, err)
		}
		wantContent(t, f, "old\nne")
	}
}

// TestForeignLineIsNotCut checks that a line that a writer without the lock appends after a failed
// write stays.
func TestForeignLineIsNotCut(t *testing.T) {
	f := openFaulty(t, "old\n")
	f.full = 3
	f.afterWrite = func() {
		if _, err := f.File.WriteString("foreign\n"); err != nil {
			t.Error(err)
		}
	}
	if err := Append(f, []byte("mine\n")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v, want ENOSPC", err)
	}
	wantContent(t, f, "old\nminforeign\n")
}

func TestSeal(t *testing.T) {
	for content, want := range map[string]string{
		"": "", "a\n": "a\n", "a": "a\n", "a\n{\"b": "a\n{\"b\n", "a\n\x00\x00": "a\n\x00\x00\n", "a\n\n": "a\n\n",
	} {
		f := openFaulty(t, content)
		if err := Seal(f); err != nil {
			t.Errorf("sealing %q: %v", content, err)
		}
		wantContent(t, f, want)
	}
	f := openFaulty(t, "a\nb")
	f.full = 0
	if err := Seal(f); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("sealing on a full disk: %v, want ENOSPC", err)
	}
	if err := Seal(f); err != nil {
		t.Errorf("sealing again: %v", err)
	}
	wantContent(t, f, "a\nb\n")
}

// readAll reads the complete lines from offset on.
func readAll(t *testing.T, r *Reader, offset int64) (lines []string, end int64) {
	t.Helper()
	for {
		line, next, err := r.Line(offset)
		switch {
		case err == io.EOF:
			return lines, offset
		case err != nil:
			t.Fatal(err)
		}
		lines, offset = append(lines, string(line)), next
	}
}

func TestReader(t *testing.T) {
	for _, size := range []int{0, 1, 10, windowSize - 1, windowSize, windowSize + 1, 9 * windowSize} {
		var content strings.Builder
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprintln(i, strings.Repeat("x", size)))
			content.WriteString(want[i])
		}
		whole := int64(content.Len())
		content.WriteString("partial")
		r := NewReader(strings.NewReader(content.String()))
		for range 2 {
			lines, end := readAll(t, r, 0)
			if strings.Join(lines, "") != strings.Join(want, "") || len(lines) != len(want) || end != whole {
				t.Fatalf("lines of %d bytes: read %d lines up to byte %d, want %d up to %d", size, len(lines), end, len(want), whole)
			}
		}
		for i, at := len(want)-1, whole; i >= 0; i-- { // backward
			at -= int64(len(want[i]))
			if line, _, err := r.Line(at); string(line) != want[i] || err != nil {
				t.Fatalf("line %d backward: %.20q, %v", i, line, err)
			}
		}
	}
}

// TestTail checks that a reader at the end of a growing file returns each line once its newline is
// written.
func TestTail(t *testing.T) {
	f := openFaulty(t, "")
	r := NewReader(f)
	at := int64(0)
	var written, read bytes.Buffer
	for i := range 3000 {
		piece := strings.Repeat("x", i%7)
		if i%3 == 0 {
			piece += "\n"
		}
		if _, err := f.WriteString(piece); err != nil {
			t.Fatal(err)
		}
		written.WriteString(piece)
		var lines []string
		lines, at = readAll(t, r, at)
		read.WriteString(strings.Join(lines, ""))
		if want := bytes.LastIndexByte(written.Bytes(), '\n') + 1; int(at) != want || read.Len() != want {
			t.Fatalf("after %d pieces: read %d bytes up to %d, want %d", i, read.Len(), at, want)
		}
	}
	if !bytes.HasPrefix(written.Bytes(), read.Bytes()) {
		t.Error("the bytes read differ from those written")
	}
}

type failingAt struct{ io.Reader }

func (f failingAt) ReadAt(p []byte, _ int64) (int, error) { return f.Read(p) }

func TestReadErrorIsNotTheEnd(t *testing.T) {
	r := NewReader(failingAt{iotest.ErrReader(errFault)})
	if _, _, err := r.Line(7); !errors.Is(err, errFault) || !strings.Contains(err.Error(), "byte 7") {
		t.Errorf("error %v, want the fault and its place", err)
	}
}

func BenchmarkLine(b *testing.B) {
	content := bytes.Repeat([]byte(strings.Repeat("x", 200)+"\n"), 10_000)
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		r := NewReader(bytes.NewReader(content))
		for at := int64(0); ; {
			_, next, err := r.Line(at)
			if err != nil {
				break
			}
			at = next
		}
	}
}
