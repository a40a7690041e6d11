package search_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/search"
)

// fill writes messages into the outbox of codex and the inbox of claude.
func fill(tb testing.TB, w *mailbox.Workspace, from, to int) {
	for i := from; i < to; i++ {
		m := &message{name: fmt.Sprintf("%016x", i), from: "codex", to: "claude", typ: "notification", subject: "Message", body: fmt.Sprintf("number %d of many", i), at: start.Add(time.Duration(i) * time.Second)}
		for _, path := range []string{w.BoxPath("codex", mailbox.Outbox), w.BoxPath("claude", mailbox.Inbox)} {
			write(tb, filepath.Join(path, m.file()), m.bytes())
		}
	}
}

func wantCount(tb testing.TB, x *search.Index, words string, want int) {
	tb.Helper()
	if got := names(tb, x.Search, search.Query{Terms: []string{words}}, 100); len(got) != want {
		tb.Errorf("%q is in %d messages, want %d", words, len(got), want)
	}
}

func indexFile(w *mailbox.Workspace) string {
	return filepath.Join(w.Dir(), filepath.FromSlash(search.Folder), "index.db")
}

func TestDamagedIndex(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"garbage": func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("garbage"), 9999), 0o600) },
		"empty":   func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"torn": func(path string) error {
			info, err := os.Stat(path)
			return errors.Join(err, os.Truncate(path, info.Size()/2))
		},
		"deleted": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t)
			fill(t, w, 0, 300)
			x := open(t, w)
			update(t, x)
			wantCount(t, x, "of many", 300)
			x.Close()
			if err := damage(indexFile(w)); err != nil {
				t.Fatal(err)
			}
			x = open(t, w)
			fill(t, w, 300, 301)
			update(t, x)
			wantCount(t, x, "of many", 301)
			wantCount(t, x, "number 42 ", 1)
		})
	}
}

func TestIndexReplacedWhileOpen(t *testing.T) {
	w := newWorkspace(t)
	fill(t, w, 0, 10)
	x := open(t, w)
	update(t, x)
	if err := os.RemoveAll(filepath.Dir(indexFile(w))); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(indexFile(w)), 0o755); err != nil {
		t.Fatal(err)
	}
	wantCount(t, x, "of many", 10)
	update(t, x)
	wantCount(t, x, "of many", 10)
	if _, err := os.Stat(indexFile(w)); err != nil {
		t.Error(err)
	}
}

func TestNewerIndex(t *testing.T) {
	w := newWorkspace(t)
	fill(t, w, 0, 3)
	open(t, w).Close()
	data, err := os.ReadFile(indexFile(w))
	if err != nil {
		t.Fatal(err)
	}
	data[63] = 99 // the last byte of user_version, at 60 in a file of SQLite
	if err := os.WriteFile(indexFile(w), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := search.Open(t.Context(), w, nil); !errors.Is(err, search.ErrNewer) {
		t.Errorf("got %v", err)
	}
	if after, err := os.ReadFile(indexFile(w)); err != nil || !bytes.Equal(after, data) {
		t.Error("the newer index was changed")
	}
}

// TestUpdater is not a test: it is the process that TestKilled kills.
func TestUpdater(t *testing.T) {
	dir := os.Getenv("OACP_TEST_UPDATER")
	if dir == "" {
		t.Skip("only as a child of TestKilled")
	}
	w, err := mailbox.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := search.Open(t.Context(), w, &search.Options{Progress: func(done, total int) {
		fmt.Println("done", done)
		if done < total {
			select {} // until it is killed, with the lock
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	update(t, x)
}

func TestKilled(t *testing.T) {
	w := newWorkspace(t)
	fill(t, w, 0, 1200)
	child := exec.Command(os.Args[0], "-test.run", "^TestUpdater$")
	child.Env = append(os.Environ(), "OACP_TEST_UPDATER="+w.Dir())
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if n, err := output.Read(make([]byte, 100)); n == 0 {
		t.Error(err)
	}
	x := open(t, w)
	if err := x.Update(t.Context()); !errors.Is(err, search.ErrLocked) {
		t.Errorf("beside another process that updates: %v", err)
	}
	wantCount(t, x, "of many", 500) // what the first transaction has
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	update(t, x)
	wantCount(t, x, "of many", 1200)
}

func TestReadOnlyFolder(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	w := newWorkspace(t)
	if err := os.Chmod(w.Dir(), 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(w.Dir(), 0o755)
	if _, err := search.Open(t.Context(), w, nil); !errors.Is(err, os.ErrPermission) {
		t.Errorf("got %v", err)
	}
}
