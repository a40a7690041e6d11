package search_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
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
	if got := names(tb, x, search.Query{Terms: []string{words}}, 100); len(got) != want {
		tb.Errorf("%q is in %d messages, want %d", words, len(got), want)
	}
}

func indexFile(w *mailbox.Workspace) string {
	return filepath.Join(w.Dir(), filepath.FromSlash(search.Folder), "v3.db")
}

// TestDamagedIndex damages the file, which the same Index or another one has seen.
func TestDamagedIndex(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"garbage": func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("garbage"), 9999), 0o600) },
		"empty":   func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"torn": func(path string) error {
			info, err := os.Stat(path)
			return errors.Join(err, os.Truncate(path, info.Size()/2))
		},
		"pages of zeros": func(path string) error {
			file, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			info, err := file.Stat()
			_, writeErr := file.WriteAt(make([]byte, info.Size()-8192), 8192)
			return errors.Join(err, writeErr, file.Close())
		},
		"deleted": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			fill(t, w, 0, 300)
			x := open(t, w)
			update(t, x)
			wantCount(t, x, "of many", 300)
			x.Close()
			if err := damage(indexFile(w)); err != nil {
				t.Fatal(err)
			}
			fill(t, w, 300, 301)
			update(t, x)
			if _, err := x.Search(t.Context(), search.Query{Terms: []string{"of many"}}, search.Page{}); err != nil {
				t.Log("the search found the damage:", err)
				update(t, x)
			}
			wantCount(t, x, "of many", 301)
			wantCount(t, x, "number 42 of", 1)
		})
	}
}

func TestIndexReplacedWhileOpen(t *testing.T) {
	w := newWorkspace(t)
	fill(t, w, 0, 10)
	x := open(t, w)
	if _, err := x.Search(t.Context(), search.Query{}, search.Page{}); err == nil {
		t.Error("there is an index before the first Update")
	}
	update(t, x)
	if err := os.RemoveAll(filepath.Dir(indexFile(w))); err != nil {
		t.Fatal(err)
	}
	update(t, x)
	wantCount(t, x, "of many", 10)
}

// TestOtherVersions checks that a new index removes those of earlier versions, and leaves later ones alone.
func TestOtherVersions(t *testing.T) {
	w := newWorkspace(t)
	earlier, later := filepath.Join(filepath.Dir(indexFile(w)), "index.db"), filepath.Join(filepath.Dir(indexFile(w)), "v4.db")
	if err := os.MkdirAll(filepath.Dir(later), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, earlier, "1")
	write(t, later, "4")
	fill(t, w, 0, 3)
	x := open(t, w)
	update(t, x)
	wantCount(t, x, "of many", 3)
	if data, err := os.ReadFile(later); err != nil || string(data) != "4" {
		t.Errorf("the later index is %q, %v", data, err)
	}
	if _, err := os.Stat(earlier); !errors.Is(err, os.ErrNotExist) {
		t.Error("the earlier index is there")
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
	update(t, open(t, w))
}

// TestKilled kills a process that updates the index as soon as it has written a part.
func TestKilled(t *testing.T) {
	w := newWorkspace(t)
	fill(t, w, 0, 3000)
	child := exec.Command(os.Args[0], "-test.run", "^TestUpdater$")
	child.Env = append(os.Environ(), "OACP_TEST_UPDATER="+w.Dir())
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	x := open(t, w)
	var part search.Result
	for len(part.Hits) == 0 && len(ended) == 0 {
		part, _ = x.Search(t.Context(), search.Query{Terms: []string{"many"}}, search.Page{Limit: 1}) // there is no index at first
	}
	_ = child.Process.Kill() // unless it has ended
	t.Logf("the child ended with %v, after the index had %d messages or more", <-ended, len(part.Hits))
	update(t, x)
	wantCount(t, x, "of many", 3000)
	wantCount(t, x, "number 42 of", 1)
}

// TestLocked checks that what was there before can be found while another process updates the index.
func TestLocked(t *testing.T) {
	w := newWorkspace(t)
	fill(t, w, 0, 10)
	x := open(t, w)
	update(t, x)
	lock := durable.NewLock(filepath.Join(filepath.Dir(indexFile(w)), "lock"))
	if locked, err := lock.TryLock(); err != nil || !locked {
		t.Fatal(locked, err)
	}
	fill(t, w, 10, 20)
	if err := x.Update(t.Context()); !errors.Is(err, search.ErrLocked) {
		t.Errorf("got %v", err)
	}
	wantCount(t, x, "of many", 10)
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	update(t, x)
	wantCount(t, x, "of many", 20)
}

// TestSearchDuringUpdate checks that searches go on while the index is updated and replaced.
func TestSearchDuringUpdate(t *testing.T) {
	w := newWorkspace(t)
	fill(t, w, 0, 100)
	x := open(t, w)
	update(t, x)
	var searches sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		searches.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				r, err := x.Search(t.Context(), search.Query{Terms: []string{"of many"}}, search.Page{Limit: 20})
				if err != nil || len(r.Hits) != 20 {
					t.Errorf("%d hits, %v", len(r.Hits), err)
				}
			}
		})
	}
	var updates sync.WaitGroup
	for i := range 4 {
		updates.Go(func() {
			for j := range 5 {
				at := 100 + 10*i + j
				fill(t, w, at, at+1)
				if err := x.Update(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	updates.Wait()
	close(done)
	searches.Wait()
	wantCount(t, x, "of many", 120)
}

// TestFolderVanishes removes the folders of agents, one after the other.
func TestFolderVanishes(t *testing.T) {
	w := newWorkspace(t)
	fill(t, w, 0, 10)
	x := open(t, w)
	for i, agent := range agents { // codex is the last
		if err := os.RemoveAll(filepath.Join(w.Dir(), filepath.FromSlash(schema.AgentPath(agent, "")))); err != nil {
			t.Fatal(err)
		}
		update(t, x)
		wantCount(t, x, "of many", []int{10, 10, 0}[i])
	}
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
	if err := open(t, w).Update(t.Context()); !errors.Is(err, os.ErrPermission) {
		t.Errorf("got %v", err)
	}
}

// TestHeld checks that a file that its reader does not accept is not shown, but the copy of its sender is.
func TestHeld(t *testing.T) {
	w := newWorkspace(t)
	fill(t, w, 0, 2)
	config := filepath.Join(w.Dir(), filepath.FromSlash(schema.AgentPath("claude", "config.yaml")))
	write(t, config, "signing:\n  verify_mode: enforce\n")
	x := open(t, w)
	update(t, x)
	r, err := x.Search(t.Context(), search.Query{Terms: []string{"of many"}}, search.Page{})
	if err != nil || len(r.Hits) != 2 || r.Hits[0].Box != mailbox.Outbox {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := os.RemoveAll(w.BoxPath("codex", mailbox.Outbox)); err != nil {
		t.Fatal(err)
	}
	update(t, x)
	wantCount(t, x, "of many", 0)
	if err := os.Remove(config); err != nil {
		t.Fatal(err)
	}
	wantCount(t, x, "of many", 2)
}

// TestSameName checks that two messages in files of one name are both found.
func TestSameName(t *testing.T) {
	w := newWorkspace(t)
	for agent, body := range map[schema.AgentName]string{"claude": "the first", "anna": "another one"} {
		m := &message{name: "0123456789abcdef", from: "codex", to: string(agent), typ: "question", subject: "s", body: body, at: start}
		write(t, filepath.Join(w.BoxPath(agent, mailbox.Inbox), m.file()), m.bytes())
	}
	x := open(t, w)
	update(t, x)
	wantCount(t, x, "first", 1)
	wantCount(t, x, "another", 1)
}

// TestOneSecond checks that many messages of one second are found, newest first with others, and by their time.
func TestOneSecond(t *testing.T) {
	w := newWorkspace(t)
	for i := range 200 {
		m := &message{name: fmt.Sprintf("%016x", i), from: "codex", to: "claude", typ: "question", subject: "s", body: fmt.Sprintf("one of %d", i/150), at: start.Add(-time.Duration(i/150) * time.Second)}
		write(t, filepath.Join(w.BoxPath("claude", mailbox.Inbox), m.file()), m.bytes())
	}
	x := open(t, w)
	update(t, x)
	for q, want := range map[*search.Query]int{{After: start}: 150, {Before: start}: 50, {After: start.Add(1)}: 0} {
		if got := names(t, x, *q, 60); len(got) != want {
			t.Errorf("%+v: %d messages, want %d", q, len(got), want)
		}
	}
}
