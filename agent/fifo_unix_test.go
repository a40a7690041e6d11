//go:build unix

package agent

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A fifo lets processes report progress. It reaches its end when all processes that hold it open
// have ended.
type fifo struct {
	path  string
	file  *os.File
	lines *bufio.Reader
	// writer keeps the fifo open until a process holds it.
	writer *os.File
}

func newFIFO(t *testing.T) *fifo {
	t.Helper()
	f := &fifo{path: filepath.Join(t.TempDir(), "fifo")}
	err := syscall.Mkfifo(f.path, 0o600)
	if err == nil {
		f.file, err = os.OpenFile(f.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if err == nil {
		f.writer, err = os.OpenFile(f.path, os.O_WRONLY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = f.writer.Close() // already closed if the test got that far
		if err := f.file.Close(); err != nil {
			t.Error(err)
		}
	})
	f.lines = bufio.NewReader(f.file)
	if err := f.file.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return f
}

// line waits until a process has written a line.
func (f *fifo) line(t *testing.T) string {
	t.Helper()
	line, err := f.lines.ReadString('\n')
	if err != nil {
		t.Errorf("no process has reported: %v", err)
	}
	return strings.TrimSpace(line)
}

// end waits until all processes that hold the fifo have ended.
func (f *fifo) end(t *testing.T) {
	t.Helper()
	if err := f.writer.Close(); err != nil {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, f.lines); err != nil {
		t.Errorf("a process still runs: %v", err)
	}
}
