package mailbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

var errCrash = errors.New("the process died here")

// faulty is the disk until its operation number failAt, counted from zero.
type faulty struct {
	durable.Disk
	failAt int
	// at, if not empty, makes the first operation fail whose description begins with it, instead of the one of number failAt.
	at string
	// err is the error of the failing operation. After errCrash every operation fails; other errors
	// occur once.
	err error
	// torn leaves half of the bytes behind when a write fails.
	torn bool
	// happen, if not nil, happens before the operation.
	happen func()

	// mutex guards the rest: files are synced in parallel.
	mutex sync.Mutex
	done  int
	// name describes the failed operation.
	name string
}

func (f *faulty) step(name string) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	n := f.done
	f.done++
	if f.at != "" && strings.HasPrefix(name, f.at) {
		f.at, f.failAt = "", n
	}
	if n == f.failAt {
		f.name = name
		if f.happen != nil {
			f.happen()
		}
	}
	if n == f.failAt || n > f.failAt && errors.Is(f.err, errCrash) {
		return f.err
	}
	return nil
}

func (f *faulty) Create(dir *durable.Dir, name string, data []byte) (*os.File, error) {
	if err := f.step("create " + name); err != nil {
		if f.torn && f.done == f.failAt+1 {
			if err := os.WriteFile(dir.Path(name), data[:len(data)/2], 0o644); err != nil {
				return nil, err
			}
		}
		return nil, err
	}
	return f.Disk.Create(dir, name, data)
}

func (f *faulty) SyncFile(file *os.File) error {
	if err := f.step("finish " + filepath.Base(file.Name())); err != nil {
		return err
	}
	return f.Disk.SyncFile(file)
}

func (f *faulty) SyncDir(dir *durable.Dir) error {
	if err := f.step("sync " + filepath.Base(dir.Path(""))); err != nil {
		return err
	}
	return f.Disk.SyncDir(dir)
}

func (f *faulty) Publish(from *durable.Dir, name string, to *durable.Dir, newName string, unique bool) error {
	if err := f.step("publish " + name); err != nil {
		return err
	}
	return f.Disk.Publish(from, name, to, newName, unique)
}

func (f *faulty) Take(dir *durable.Dir, name string) (bool, error) {
	if err := f.step("take " + name); err != nil {
		return false, err
	}
	return f.Disk.Take(dir, name)
}

// A delivery is a way in which a message gets to codex and gemini.
type delivery struct {
	name    string
	deliver func(t testing.TB, w *Workspace) (*Receipt, error)
	// again says that a second delivery reaches nobody twice.
	again bool
}

// operations returns the number of operations of the delivery in a workspace in which nothing fails.
func (d delivery) operations(t *testing.T, w *Workspace) int {
	t.Helper()
	f := &faulty{Disk: durable.Disk{Sync: true}, failAt: -1}
	w.files = f
	if _, err := d.deliver(t, w); err != nil {
		t.Fatalf("%s: %v", d.name, err)
	}
	if f.done < 10 {
		t.Fatalf("%s has %d operations, want at least 10: is the seam still in use?", d.name, f.done)
	}
	return f.done
}

var deliveries = []delivery{
	{name: "send", deliver: deliverDraft(false)},
	{name: "send with an id", deliver: deliverDraft(true), again: true},
	{name: "receive", deliver: deliverFile(""), again: true},
	{name: "receive the file of another tool", deliver: deliverFile("20260313143007_claude_task_request_k2f9.yaml"), again: true},
}

// deliverDraft sends a message, with a given id if requested.
func deliverDraft(given bool) func(testing.TB, *Workspace) (*Receipt, error) {
	return func(t testing.TB, w *Workspace) (*Receipt, error) { return w.Send(t.Context(), faultDraft(given), nil) }
}

// deliverFile receives the message that has an id, under a file name or its own.
func deliverFile(name string) func(testing.TB, *Workspace) (*Receipt, error) {
	return func(t testing.TB, w *Workspace) (*Receipt, error) {
		m, data, _, err := w.Compose(faultDraft(true), nil)
		if err == nil && name == "" {
			name, err = m.LongFileName()
		}
		if err != nil {
			t.Fatal(err)
		}
		got := w.Receive(t.Context(), []Received{{From: m.From, Name: name, Data: data, Pending: m.To}})[0]
		return got.Receipt, got.Err
	}
}

// faultDraft returns a message for two agents, with a given id if requested.
func faultDraft(given bool) schema.Message {
	m := draft("codex", "gemini")
	if given {
		m.ID, m.CreatedAt = "msg-20260313T1430Z-claude-0123456789abcdef", "2026-03-13T14:30:00Z"
	}
	return m
}

// TestCrashAtEveryStep kills a delivery before each of its operations and lets another process
// clean up. The message reaches all recipients once or none, even if a recipient deals with its
// copy before the cleanup.
func TestCrashAtEveryStep(t *testing.T) {
	for _, d := range deliveries {
		for failAt := range d.operations(t, newWorkspace(t, "claude", "codex", "gemini")) {
			for _, torn := range []bool{false, true} {
				for _, acknowledge := range []bool{false, true} {
					name := fmt.Sprintf("%s/step=%d/torn=%t/acknowledge=%t", d.name, failAt, torn, acknowledge)
					t.Run(name, func(t *testing.T) { crashAndRecover(t, d, failAt, torn, acknowledge) })
				}
			}
		}
	}
}

func crashAndRecover(t *testing.T, d delivery, failAt int, torn, acknowledge bool) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	f := &faulty{Disk: durable.Disk{Sync: true}, failAt: failAt, err: errCrash, torn: torn}
	w.files = f
	_, err := d.deliver(t, w)
	// The last operations only clean up after other processes: the message is already delivered.
	if err != nil && !errors.Is(err, errCrash) {
		t.Fatalf("the killed delivery gave %v, want the crash (%s)", err, f.name)
	}
	wantWholeFiles(t, w)
	received := map[schema.AgentName]int{}
	if acknowledge {
		takeAll(t, w.dir, received)
	}

	later := openWorkspace(t, w.dir)
	later.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	for range 2 {
		if _, err := later.Recover(t.Context()); err != nil {
			t.Fatalf("recovering after a crash at %q: %v", f.name, err)
		}
	}
	wantWholeFiles(t, later)
	wantFiles(t, later, "state/outgoing")
	takeAll(t, w.dir, received)
	sent := len(files(t, later, "agents/claude/outbox"))
	if received["codex"] != sent || received["gemini"] != sent || sent > 1 {
		t.Errorf("after a crash at %q: sent %d, received %v; want all or none, once each", f.name, sent, received)
	}
	if d.again {
		if _, err := d.deliver(t, later); err != nil {
			t.Fatal(err)
		}
		takeAll(t, w.dir, received)
		if received["codex"] != 1 || received["gemini"] != 1 {
			t.Errorf("delivered again after a crash at %q: received %v, want once each", f.name, received)
		}
	}
}

// wantWholeFiles fails the test if a box shows anything but whole messages.
func wantWholeFiles(t *testing.T, w *Workspace) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(w.dir, "agents/*/*/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if name := filepath.Base(path); strings.HasPrefix(name, ".") || name == string(Archive) {
			continue
		}
		if _, err := validate.Read([]byte(check.ReadFile(t, path))); err != nil {
			t.Errorf("%s is visible but not a message: %v", path, err)
		}
	}
}

// takeAll acknowledges everything in all inboxes and counts it by agent.
func takeAll(t *testing.T, dir string, received map[schema.AgentName]int) {
	t.Helper()
	w := openWorkspace(t, dir)
	for _, agent := range []schema.AgentName{"codex", "gemini"} {
		entries, err := w.Inbox(t.Context(), agent)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if err := w.Acknowledge(e); err != nil {
				t.Fatal(err)
			}
			received[agent]++
		}
	}
}

// TestErrorAtEveryStep makes each operation of a delivery fail once, as on a full disk. Send
// reports the truth: a refused message leaves nothing behind, and Recover delivers a queued
// message.
func TestErrorAtEveryStep(t *testing.T) {
	for _, d := range deliveries {
		t.Run(d.name, func(t *testing.T) { failAtEveryStep(t, d) })
	}
}

func failAtEveryStep(t *testing.T, d delivery) {
	refused, queued := 0, 0
	for failAt := range d.operations(t, newWorkspace(t, "claude", "codex", "gemini")) {
		w := newWorkspace(t, "claude", "codex", "gemini")
		f := &faulty{Disk: durable.Disk{Sync: true}, failAt: failAt, err: syscall.ENOSPC}
		w.files = f
		r, err := d.deliver(t, w)
		received := map[schema.AgentName]int{}
		var queue *QueuedError
		var unsynced *NotDurableError
		switch {
		case err == nil, errors.As(err, &unsynced):
		case errors.As(err, &queue):
			queued++
			if r == nil {
				t.Errorf("%s failed: queued without a receipt", f.name)
			}
			if _, err := w.Recover(t.Context()); err != nil {
				t.Errorf("%s failed: recovering: %v", f.name, err)
			}
		default:
			refused++
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s failed: delivering gave %v, want the cause in it", f.name, err)
			}
			wantFiles(t, w, "agents/claude/outbox")
			wantFiles(t, w, "state/outgoing")
		}
		takeAll(t, w.dir, received)
		sent := len(files(t, w, "agents/claude/outbox"))
		if received["codex"] != sent || received["gemini"] != sent {
			t.Errorf("%s failed: sent %d, received %v, want them equal", f.name, sent, received)
		}
	}
	if refused == 0 || queued == 0 {
		t.Errorf("%d refused and %d queued: the faults did not reach both sides of the commit", refused, queued)
	}
}

// TestEndAtEveryStepOfParts ends the context at each step of SendParts. The result says exactly who has a message.
func TestEndAtEveryStepOfParts(t *testing.T) {
	parts := [][]schema.AgentName{{"codex"}, {"gemini"}}
	seen := make(map[int]bool)
	for failAt, reached := 0, true; reached; failAt++ {
		w := newWorkspace(t, "claude", "codex", "gemini")
		ctx, stop := context.WithCancelCause(t.Context())
		f := &faulty{Disk: durable.Disk{Sync: true}, failAt: failAt, happen: func() { stop(errors.New("a signal")) }}
		w.files = f
		receipts, err := w.SendParts(ctx, draft("codex"), parts, nil)
		stop(nil)
		reached, seen[len(receipts)] = f.name != "", true
		there := []int{len(inboxIDs(t, w, "codex")), len(inboxIDs(t, w, "gemini"))}
		_, partly := errors.AsType[*PartsError](err)
		want := [][]int{{0, 0}, {1, 0}, {1, 1}}[len(receipts)]
		if !slices.Equal(there, want) || partly != (len(receipts) == 1) || (err == nil) != (len(receipts) == 2) {
			t.Errorf("ended at %q: %d receipts and %v, and the inboxes have %v", f.name, len(receipts), err, there)
		}
	}
	if len(seen) != 3 {
		t.Errorf("SendParts sent %v messages, want none, one and both", seen)
	}
}

// TestRemovedStateAtEveryStep removes state before each operation of a delivery. The message reaches
// each recipient once, even if a recipient handles it at once.
func TestRemovedStateAtEveryStep(t *testing.T) {
	check.NeedsExclusiveRename(t)
	for _, d := range deliveries {
		for failAt := range d.operations(t, newWorkspace(t, "claude", "codex", "gemini")) {
			w := newWorkspace(t, "claude", "codex", "gemini")
			received := map[schema.AgentName]int{}
			f := &faulty{Disk: durable.Disk{Sync: true}, failAt: failAt}
			f.happen = func() {
				takeAll(t, w.dir, received)
				check.Remove(t, filepath.Join(w.dir, schema.StateName))
			}
			w.files = f
			r, err := d.deliver(t, w)
			if err != nil {
				t.Errorf("%s: state is removed before %q: it gave %v", d.name, f.name, err)
				continue
			}
			takeAll(t, w.dir, received)
			w.files = durable.Disk{}
			after(w, 2*staleAfter)
			mustRecover(t, w)
			takeAll(t, w.dir, received)
			if received["codex"] != 1 || received["gemini"] != 1 {
				t.Errorf("%s: state is removed before %q: received %v, want once each", d.name, f.name, received)
			}
			wantFiles(t, w, "agents/claude/outbox", filepath.Base(r.Outbox))
			for _, folder := range []string{outgoingName, "agents/codex/inbox", "agents/gemini/inbox"} {
				wantFiles(t, w, folder)
			}
		}
	}
}

// full is a disk on which nothing can be created after a moment.
type full struct {
	*faulty
	since bool
}

func (f *full) Create(dir *durable.Dir, name string, data []byte) (*os.File, error) {
	if f.since {
		return nil, &os.PathError{Op: "open", Path: dir.Path(name), Err: syscall.ENOSPC}
	}
	return f.faulty.Create(dir, name, data)
}

// TestFullDiskWithoutState removes state and fills the disk before each operation of a delivery. Send
// refuses the message, or names the agents whose copies exist nowhere.
func TestFullDiskWithoutState(t *testing.T) {
	for _, d := range deliveries {
		t.Run(d.name, func(t *testing.T) { fillDiskAtEveryStep(t, d) })
	}
}

func fillDiskAtEveryStep(t *testing.T, d delivery) {
	refused, gone := 0, 0
	for failAt := range d.operations(t, newWorkspace(t, "claude", "codex", "gemini")) {
		w := newWorkspace(t, "claude", "codex", "gemini")
		f := &full{faulty: &faulty{Disk: durable.Disk{Sync: true}, failAt: failAt}}
		f.happen = func() {
			check.Remove(t, filepath.Join(w.dir, schema.StateName))
			f.since = true
		}
		w.files = f
		r, err := d.deliver(t, w)
		missing := 0
		var queued *QueuedError
		switch {
		case errors.Is(err, ErrGone) && errors.As(err, &queued) && r != nil:
			gone++
			missing = len(queued.Agents)
		case err != nil && r == nil:
			refused++
		case err != nil:
			t.Errorf("before %q: it gave %v, want ErrGone", f.name, err)
		}
		received := map[schema.AgentName]int{}
		takeAll(t, w.dir, received)
		want := 2*len(files(t, w, "agents/claude/outbox")) - missing
		if received["codex"]+received["gemini"] != want {
			t.Errorf("before %q: received %v, want %d copies (%v)", f.name, received, want, err)
		}
	}
	if refused == 0 || gone == 0 {
		t.Errorf("%d refused and %d without a copy: the disk was not full on both sides of the commit", refused, gone)
	}
}
