package mailbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
)

func begin(Entry) error { return nil }

// dealt sends a message to codex, deals with it, and returns it with the bytes that were sent.
func dealt(t testing.TB, w *Workspace, deal func(*Workspace, Entry) error) (Entry, string) {
	t.Helper()
	e := received(t, w)
	sent := check.ReadFile(t, e.Path)
	if err := deal(w, e); err != nil {
		t.Fatal(err)
	}
	return e, sent
}

// wantRestored checks that the message is in the inbox of codex, once and with these bytes, and
// nowhere else.
func wantRestored(t *testing.T, w *Workspace, sent string) {
	t.Helper()
	names := listed(files(t, w, "agents/codex/inbox")) // a killed process may leave a hidden file
	if len(names) != 1 {
		t.Fatalf("the inbox holds %q, want one message", names)
	}
	if got := check.ReadFile(t, filepath.Join(w.dir, "agents/codex/inbox", names[0])); got != sent {
		t.Errorf("the inbox holds %q, want %q", got, sent)
	}
	for _, folder := range []string{"agents/codex/inbox/archive", "agents/codex/dead_letter", outgoingName} {
		wantFiles(t, w, folder)
	}
}

func TestRestore(t *testing.T) {
	for _, dealing := range dealings {
		for _, outbox := range []string{"whole", "gone", "invalid"} {
			t.Run(dealing.name+"/outbox "+outbox, func(t *testing.T) {
				w := newWorkspace(t, "claude", "codex")
				e, sent := dealt(t, w, dealing.deal)
				original := filepath.Join(w.dir, "agents/claude/outbox", e.Name)
				switch outbox {
				case "gone":
					check.Remove(t, original)
				case "invalid":
					check.WriteFile(t, original, strings.Replace(sent, "type: task_request", "type: poem", 1))
				}
				path, err := w.Restore(t.Context(), e.Message, "codex", begin)
				switch {
				case dealing.name == "remove" && outbox == "gone":
					if !errors.Is(err, ErrNoCopy) {
						t.Fatalf("restoring gave %v, want ErrNoCopy", err)
					}
					wantFiles(t, w, "agents/codex/inbox")
					return
				case err != nil || path != e.Path:
					t.Fatalf("restoring gave %q, %v; want %q", path, err, e.Path)
				case dealing.name == "remove" && outbox == "invalid":
					sent = check.ReadFile(t, original)
				}
				wantRestored(t, w, sent)
			})
		}
	}
}

// TestRestoreTakesTheSendersBytes changes the recipient's copy: the sender's comes back, and the
// changed one stays where it is.
func TestRestoreTakesTheSendersBytes(t *testing.T) {
	for _, dealing := range dealings[1:] {
		w := newWorkspace(t, "claude", "codex")
		e, sent := dealt(t, w, dealing.deal)
		var changed []string
		for _, folder := range []string{"inbox/archive", "dead_letter"} {
			path := filepath.Join(w.dir, "agents/codex", folder, e.Name)
			if _, err := os.Stat(path); err == nil {
				check.WriteFile(t, path, sent+"# changed\n")
				changed = append(changed, path)
			}
		}
		path, err := w.Restore(t.Context(), e.Message, "codex", begin)
		if err != nil {
			t.Fatal(err)
		}
		if check.ReadFile(t, path) != sent {
			t.Error("the restored message has other bytes than the sender's copy")
		}
		for _, path := range changed {
			if check.ReadFile(t, path) != sent+"# changed\n" {
				t.Errorf("%s is not what it was", path)
			}
		}
		if len(changed) == 0 {
			t.Error("there was no copy to change")
		}
	}
}

func TestRestoreReplacesNoFile(t *testing.T) {
	check.NeedsExclusiveRename(t)
	for _, dealing := range dealings {
		w := newWorkspace(t, "claude", "codex")
		e, sent := dealt(t, w, dealing.deal)
		other := message("zzzz", 9)
		place(t, w, "codex", Inbox, e.Name, other)
		path, err := w.Restore(t.Context(), e.Message, "codex", begin)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(check.ReadFile(t, e.Path), string(other.ID)) {
			t.Error("the other file was replaced")
		}
		check.Remove(t, e.Path)
		long, err := e.Message.LongFileName()
		if err != nil || filepath.Base(path) != long {
			t.Errorf("the message is back as %s, want the long name %s (%v)", path, long, err)
		}
		wantRestored(t, w, sent)
	}
}

func TestRestoreLeavesWhatIsPending(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	e := received(t, w)
	_, err := w.Restore(t.Context(), e.Message, "codex", func(Entry) error {
		t.Error("begin was called")
		return nil
	})
	var pending *PendingError
	if !errors.As(err, &pending) || pending.Path != e.Path {
		t.Errorf("restoring gave %v, want a PendingError with %s", err, e.Path)
	}
	// A copy that a dead sender left is delivered, and not doubled.
	staged := filepath.Join(w.dir, outgoingName, stagedEntry(e.Message.ID, "codex"))
	if err := os.Rename(e.Path, staged); err != nil {
		t.Fatal(err)
	}
	if _, err := w.findRestorable(t.Context(), e.Message, "codex"); !errors.As(err, &pending) || pending.Path != "" {
		t.Errorf("it is restorable with %v, want a PendingError without a path", err)
	}
	if _, err := w.Restore(t.Context(), e.Message, "codex", begin); !errors.As(err, &pending) {
		t.Errorf("restoring gave %v, want a PendingError", err)
	}
	wantRestored(t, w, check.ReadFile(t, filepath.Join(w.dir, "agents/claude/outbox", e.Name)))
}

func TestRestoreEndsWithTheErrorOfBegin(t *testing.T) {
	failure := errors.New("no")
	for _, dealing := range dealings {
		w := newWorkspace(t, "claude", "codex")
		e, _ := dealt(t, w, dealing.deal)
		if _, err := w.Restore(t.Context(), e.Message, "codex", func(Entry) error { return failure }); !errors.Is(err, failure) {
			t.Errorf("restoring gave %v, want the error of begin", err)
		}
		wantFiles(t, w, "agents/codex/inbox")
		wantFiles(t, w, outgoingName)
	}
}

// TestOneRestores checks that of many who restore a message one succeeds, and that the others find it
// pending.
func TestOneRestores(t *testing.T) {
	const many = 8
	for _, dealing := range dealings {
		w := newWorkspace(t, "claude", "codex")
		e, sent := dealt(t, w, dealing.deal)
		var restored atomic.Int32
		var group sync.WaitGroup
		for range many {
			group.Go(func() {
				var pending *PendingError
				switch _, err := w.Restore(t.Context(), e.Message, "codex", begin); {
				case err == nil:
					restored.Add(1)
				case !errors.As(err, &pending):
					t.Errorf("restoring gave %v, want a PendingError", err)
				}
			})
		}
		group.Wait()
		if restored.Load() != 1 {
			t.Errorf("%d restored the message, want 1", restored.Load())
		}
		wantRestored(t, w, sent)
	}
}

// TestFaultAtEveryStepOfARestore makes each operation fail once, or kills the process there. The
// message is where it was or in the inbox, whole, and the next restore completes the work.
func TestFaultAtEveryStepOfARestore(t *testing.T) {
	for _, dealing := range dealings {
		for _, fault := range []struct {
			err  error
			torn bool
		}{{errCrash, false}, {errCrash, true}, {syscall.ENOSPC, false}} {
			failed := 0
			for reached := true; reached; failed++ {
				t.Run(fmt.Sprintf("%s/%v/torn=%t/step=%d", dealing.name, fault.err, fault.torn, failed), func(t *testing.T) {
					f := &faulty{Disk: durable.Disk{Sync: true}, failAt: failed, err: fault.err, torn: fault.torn}
					reached = false
					restoreWithFault(t, dealing.deal, f)
					reached = f.name != ""
				})
			}
			if failed < 3 {
				t.Errorf("%s: a restore has %d operations, want at least 2: is the seam still in use?", dealing.name, failed-1)
			}
		}
	}
}

func restoreWithFault(t *testing.T, deal func(*Workspace, Entry) error, f *faulty) {
	w := newWorkspace(t, "claude", "codex")
	e, sent := dealt(t, w, deal)
	before := len(copiesOf(t, w))
	w.files = f
	path, err := w.Restore(t.Context(), e.Message, "codex", begin)
	if f.name == "" && err != nil {
		t.Fatalf("restoring without a fault gave %v", err)
	}
	if isBack := len(listed(files(t, w, "agents/codex/inbox"))) == 1; f.err == syscall.ENOSPC && isBack != (path != "") {
		t.Errorf("after a fault at %q the message is back: %t, but Restore gave %q, %v", f.name, isBack, path, err)
	}
	copies := copiesOf(t, w)
	if pending := files(t, w, "agents/codex/inbox"); len(copies) != 1 && len(copies) != before || err == nil && len(listed(pending)) != 1 {
		t.Errorf("after a fault at %q (%v) the copies are %q, want one, or the old state", f.name, err, copies)
	}
	for _, data := range copies {
		if data != sent {
			t.Errorf("after a fault at %q a copy holds %q", f.name, data)
		}
	}

	later := openWorkspace(t, w.dir)
	after(later, 2*staleAfter)
	mustRecover(t, later)
	wantFiles(t, later, outgoingName)
	var pending *PendingError
	if _, err := later.Restore(t.Context(), e.Message, "codex", begin); err != nil && !errors.As(err, &pending) {
		t.Fatalf("restoring again after a fault at %q: %v", f.name, err)
	}
	for _, name := range files(t, later, "agents/codex/dead_letter") {
		// The doctor removes reasons without a dead letter.
		if !strings.HasSuffix(name, ReasonSuffix) {
			t.Errorf("after a fault at %q the dead letter %s is left", f.name, name)
		}
		check.Remove(t, filepath.Join(w.dir, "agents/codex/dead_letter", name))
	}
	wantRestored(t, later, sent)
}

// listed returns the names that are not hidden.
func listed(names []string) (shown []string) {
	for _, name := range names {
		if !strings.HasPrefix(name, ".") {
			shown = append(shown, name)
		}
	}
	return shown
}

// copiesOf returns the visible message files of codex.
func copiesOf(t *testing.T, w *Workspace) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, box := range []Box{Inbox, Archive, DeadLetters} {
		for _, name := range listed(files(t, w, schema.BoxPath("codex", box))) {
			if schema.IsMessageFile(name) {
				found[string(box)+"/"+name] = check.ReadFile(t, w.BoxPath("codex", box)+"/"+name)
			}
		}
	}
	return found
}

// childRestores deals with the only message of the agent, in each way, and restores it.
func childRestores(w *Workspace, to []schema.AgentName) error {
	ctx := context.Background()
	for _, dealing := range dealings {
		entries, err := w.Inbox(ctx, to[0])
		if err == nil && len(entries) == 1 {
			err = dealing.deal(w, entries[0])
		}
		sent, listErr := w.List(ctx, "claude", Outbox)
		if err = errors.Join(err, listErr); err != nil {
			return err
		}
		path, err := w.Restore(ctx, sent[0].Message, to[0], begin)
		if err != nil {
			return err
		}
		fmt.Println(path)
	}
	return nil
}

// TestKilledRestores kills processes that restore a message at random moments. The message is never
// doubled or half shown, and the next process restores it.
func TestKilledRestores(t *testing.T) {
	const rounds = 40
	w := newWorkspace(t, "claude", "codex")
	e := received(t, w)
	sent := check.ReadFile(t, e.Path)
	for range rounds {
		cmd, paths := childAs(t, "restore", w.dir, 10_000, "codex")
		for range 1 + rand.IntN(5) {
			paths.Scan()
		}
		time.AfterFunc(time.Duration(rand.IntN(10_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		for paths.Scan() {
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the process ended by itself before it was killed")
		}
		if copies := copiesOf(t, w); len(copies) > 1 {
			t.Fatalf("the message is there more than once: %q", copies)
		} else {
			for name, data := range copies {
				if data != sent {
					t.Fatalf("%s holds %q, want %q", name, data, sent)
				}
			}
		}
		var pending *PendingError
		if _, err := w.Restore(t.Context(), e.Message, "codex", begin); err != nil && !errors.As(err, &pending) {
			t.Fatalf("restoring after a kill: %v", err)
		}
	}
	after(w, 2*staleAfter)
	mustRecover(t, w)
	for _, name := range files(t, w, "agents/codex/dead_letter") {
		if !strings.HasSuffix(name, ReasonSuffix) {
			t.Errorf("the dead letter %s is left", name)
		}
		check.Remove(t, filepath.Join(w.dir, "agents/codex/dead_letter", name))
	}
	wantRestored(t, w, sent)
}

// TestRestoreReturnsErrors checks that findRestorable and Restore fail if they cannot know whether the message is
// pending, and leave everything as it is.
func TestRestoreReturnsErrors(t *testing.T) {
	for name, test := range map[string]struct {
		agent  schema.AgentName
		folder string // a file takes its place
	}{
		"unknown agent": {"nobody", ""},
		"dead letters":  {"codex", "agents/codex/dead_letter"},
		"archive":       {"codex", "agents/codex/inbox/archive"},
		"outbox":        {"codex", "agents/claude/outbox"},
		"staged copies": {"codex", outgoingName},
	} {
		w := newWorkspace(t, "claude", "codex")
		e, _ := dealt(t, w, func(w *Workspace, e Entry) error { return w.Remove(e) })
		if test.folder != "" {
			check.Remove(t, filepath.Join(w.dir, test.folder))
			check.WriteFile(t, filepath.Join(w.dir, test.folder), "")
		}
		_, err := w.findRestorable(t.Context(), e.Message, test.agent)
		if _, unknown := errors.AsType[*UnknownAgentError](err); unknown != (test.agent == "nobody") || err == nil || errors.Is(err, ErrNoCopy) {
			t.Errorf("%s: Restorable gives %v", name, err)
		}
		if _, err := w.Restore(t.Context(), e.Message, test.agent, begin); err == nil || errors.Is(err, ErrNoCopy) {
			t.Errorf("%s: Restore gives %v", name, err)
		}
		if _, err := os.Stat(e.Path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the message is in the inbox: %v", name, err)
		}
	}
}
