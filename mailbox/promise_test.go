package mailbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/staging"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
)

// unsynced is the disk, and knows the folders whose names were changed and not made durable since.
type unsynced struct {
	durable.Disk
	folders map[string]bool
}

func (u *unsynced) changed(dirs ...*durable.Dir) {
	for _, dir := range dirs {
		u.folders[dir.Path("")] = true
	}
}

func (u *unsynced) Create(dir *durable.Dir, name string, data []byte) (*os.File, error) {
	u.changed(dir)
	return u.Disk.Create(dir, name, data)
}

func (u *unsynced) Publish(from *durable.Dir, name string, to *durable.Dir, newName string, unique bool) error {
	u.changed(from, to)
	return u.Disk.Publish(from, name, to, newName, unique)
}

func (u *unsynced) Take(dir *durable.Dir, name string) (bool, error) {
	u.changed(dir)
	return u.Disk.Take(dir, name)
}

func (u *unsynced) SyncDir(dir *durable.Dir) error {
	delete(u.folders, dir.Path(""))
	return u.Disk.SyncDir(dir)
}

// TestBoxesAreSyncedAtTheEnd checks that what was done to a box, or to state/outgoing, survives a crash of the
// machine as soon as the caller knows of it.
func TestBoxesAreSyncedAtTheEnd(t *testing.T) {
	actions := map[string]func(w *Workspace, e Entry) error{
		"send": func(w *Workspace, _ Entry) error {
			_, err := w.Send(t.Context(), draft("codex"), nil)
			return err
		},
		"recover": func(w *Workspace, e Entry) error {
			staged := filepath.Join(w.dir, outgoingName, stagedEntry(e.Message.ID, e.Agent))
			if err := os.Rename(e.Path, staged); err != nil {
				return err
			}
			got, err := w.Recover(t.Context())
			if len(got.Published) != 1 {
				t.Errorf("Recover did %+v, want one copy published", got)
			}
			return err
		},
	}
	for _, dealing := range dealings {
		actions[dealing.name] = dealing.deal
	}
	for name, act := range actions {
		w := newWorkspace(t, "claude", "codex")
		e := received(t, w)
		files := &unsynced{Disk: durable.Disk{Sync: true}, folders: make(map[string]bool)}
		w.files = files
		if err := act(w, e); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(files.folders) != 0 {
			t.Errorf("%s changed %v and did not sync it", name, files.folders)
		}
	}
}

// TestFailedSyncIsReported makes each sync of a box fail. If it is that of an outbox, Send queues the message, and the
// inbox gets it once the outbox can be synced. If it is that of an inbox, Send says that the message is sent and may
// not survive. Acknowledge and the others fail too.
func TestFailedSyncIsReported(t *testing.T) {
	failure := errors.New("the disk does not answer")
	w := newWorkspace(t, "claude", "codex", "gemini")
	w.files = &failingSync{box: "outbox", err: failure}
	r, err := w.Send(t.Context(), faultDraft(true), nil)
	var queued *QueuedError
	if r == nil || !errors.As(err, &queued) || !errors.Is(err, failure) || queued.ID != r.Message.ID || len(queued.Agents) != 2 {
		t.Errorf("the sync of an outbox failed: Send gave %+v, %v; want a receipt and a QueuedError", r, err)
	}
	if r, err := w.Send(t.Context(), faultDraft(true), nil); r != nil || !errors.Is(err, failure) {
		t.Errorf("sending it again gave %+v, %v; want no receipt", r, err)
	}
	if err := Recall(t.Context(), w, r.Message, "codex"); !errors.Is(err, failure) {
		t.Errorf("recalling it gave %v, want the failure", err)
	}
	wantFiles(t, w, "agents/codex/inbox")
	w.files = durable.Disk{Sync: true}
	if got := mustRecover(t, w); len(got.Published) != 2 {
		t.Errorf("Recover did %+v, want both copies published", got)
	}
	w = newWorkspace(t, "claude", "codex")
	w.files = &failingSync{box: "inbox", err: failure}
	r, err = w.Send(t.Context(), draft("codex"), nil)
	var unsynced *NotDurableError
	if r == nil || !errors.As(err, &unsynced) || !errors.Is(err, failure) || unsynced.Done != "message "+string(r.Message.ID)+" is sent" {
		t.Errorf("the sync of an inbox failed: Send gave %+v, %v; want a receipt and a NotDurableError", r, err)
	}
	for _, dealing := range dealings {
		w := newWorkspace(t, "claude", "codex")
		e := received(t, w)
		w.files = &failingSync{box: "inbox", err: failure}
		if err := dealing.deal(w, e); !errors.Is(err, failure) {
			t.Errorf("the sync of an inbox failed: %s gave %v", dealing.name, err)
		}
	}
}

// failingSync is the disk, on which a folder of that name cannot be synced.
type failingSync struct {
	durable.Disk
	box string
	err error
}

func (f *failingSync) SyncDir(dir *durable.Dir) error {
	if filepath.Base(dir.Path("")) == f.box {
		return f.err
	}
	return f.Disk.SyncDir(dir)
}

// TestSweepKnowsASentMessage recovers after a crash that undid the removal of the staged outbox copy:
// the message is sent, and its other copies are published, not swept.
func TestSweepKnowsASentMessage(t *testing.T) {
	for _, restore := range []func(from, to string) error{os.Link, copyFile} {
		w := newWorkspace(t, "claude", "codex", "gemini")
		r := send(t, w, faultDraft(false))
		outbox := staging.Name{ID: r.Message.ID, Agent: "claude", Box: Outbox}.Entry()
		if err := restore(r.Outbox, filepath.Join(w.dir, outgoingName, outbox)); err != nil {
			t.Fatal(err)
		}
		for i, path := range r.Inboxes {
			staged := filepath.Join(w.dir, outgoingName, stagedEntry(r.Message.ID, r.Message.To[i]))
			if err := os.Rename(path, staged); err != nil {
				t.Fatal(err)
			}
		}
		after(w, 2*staleAfter)
		if got := mustRecover(t, w); len(got.Swept) != 0 || len(got.Published) != 2 {
			t.Errorf("Recover did %+v, want two copies published", got)
		}
		wantFiles(t, w, outgoingName)
		wantFiles(t, w, "agents/claude/outbox", filepath.Base(r.Outbox))
	}
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o644)
	}
	return err
}

// refusing is the disk, on which no outbox copy can be published, and another process recovers before
// one of the removals of staged copies, counted from zero.
type refusing struct {
	durable.Disk
	err     error
	removal int
	recover func()
}

func (r *refusing) Publish(from *durable.Dir, name string, to *durable.Dir, newName string, unique bool) error {
	if strings.Contains(name, "@outbox") {
		return r.err
	}
	return r.Disk.Publish(from, name, to, newName, unique)
}

func (r *refusing) Take(dir *durable.Dir, name string) (bool, error) {
	if r.removal == 0 {
		r.recover()
	}
	r.removal--
	return r.Disk.Take(dir, name)
}

func (*refusing) Origin(*durable.Dir) (string, error) { return elsewhere, nil }

// TestAbortedMessageStaysUnsent recovers, hours later by its clock, while a delivery removes the
// copies of a message that it could not commit. No copy is published or becomes a dead letter.
func TestAbortedMessageStaysUnsent(t *testing.T) {
	for step := range 3 * len(deliveries) {
		d, removal := deliveries[step/3], step%3
		w := newWorkspace(t, "claude", "codex", "gemini")
		other := openWorkspace(t, w.dir)
		after(other, 2*staleAfter)
		failure := errors.New("no room")
		recovered := false
		w.files = &refusing{err: failure, removal: removal, recover: func() {
			recovered = true
			if got := mustRecover(t, other); len(got.Published)+len(got.DeadLetters) != 0 {
				t.Errorf("%s, removal %d: Recover did %+v with an unsent message", d.name, removal, got)
			}
		}}
		if _, err := d.deliver(t, w); !errors.Is(err, failure) || !recovered {
			t.Errorf("%s gave %v, want %v after a recovery", d.name, err, failure)
		}
		mustRecover(t, other)
		for _, folder := range []string{outgoingName, "agents/claude/outbox", "agents/codex/inbox", "agents/gemini/inbox", "agents/claude/dead_letter"} {
			wantFiles(t, w, folder)
		}
	}
}

// TestInterruptedSweepLeavesNoDeadLetters kills a sweep at every step. The copies that it leaves are
// swept later, and none looks sent.
func TestInterruptedSweepLeavesNoDeadLetters(t *testing.T) {
	for failAt := range 4 {
		w := newWorkspace(t, "claude", "codex", "gemini")
		killBefore(t, w, false, "publish msg-")
		w.files = &faulty{failAt: failAt, err: errCrash}
		after(w, 2*staleAfter)
		if _, err := w.Recover(t.Context()); err != nil && !errors.Is(err, errCrash) {
			t.Errorf("the killed recovery gave %v, want the crash", err)
		}
		w.files = durable.Disk{}
		after(w, 4*staleAfter)
		if got := mustRecover(t, w); len(got.DeadLetters)+len(got.Published) != 0 {
			t.Errorf("after a sweep that died at step %d, Recover did %+v", failAt, got)
		}
		wantFiles(t, w, outgoingName)
	}
}

// TestSameSizeIsNotSameBytes puts another message of the same id and size where Send and Recover
// look for theirs.
func TestSameSizeIsNotSameBytes(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	r := send(t, w, faultDraft(true))
	m := faultDraft(true)
	m.Subject = strings.Replace(m.Subject, "rate", "fate", 1)
	if _, err := w.Send(t.Context(), m, nil); !errors.Is(err, ErrIDTaken) {
		t.Errorf("another message of the same id and size gave %v, want ErrIDTaken", err)
	}
	_, data, _, err := w.Compose(m, nil)
	if err != nil || len(data) != len(check.ReadFile(t, r.Outbox)) {
		t.Fatalf("the other message has %d bytes (%v), want %d", len(data), err, len(check.ReadFile(t, r.Outbox)))
	}
	check.WriteFile(t, filepath.Join(w.dir, outgoingName, stagedEntry(m.ID, "codex")), string(data))
	after(w, 2*staleAfter)
	if got := mustRecover(t, w); len(got.Published) != 0 || len(got.DeadLetters) != 1 {
		t.Errorf("Recover did %+v with a copy that is not in the outbox, want a dead letter", got)
	}
}

// TestPublishedCopyIsNotPublishedAgain recovers after a crash that undid the removal of a staged
// inbox copy.
func TestPublishedCopyIsNotPublishedAgain(t *testing.T) {
	for _, given := range []bool{false, true} {
		w := newWorkspace(t, "claude", "codex", "gemini")
		r := send(t, w, faultDraft(given))
		if err := copyFile(r.Inboxes[0], filepath.Join(w.dir, outgoingName, stagedEntry(r.Message.ID, "codex"))); err != nil {
			t.Fatal(err)
		}
		mustRecover(t, w)
		wantFiles(t, w, "agents/codex/inbox", filepath.Base(r.Inboxes[0]))
		wantFiles(t, w, outgoingName)
	}
}

// notExclusive is a disk without an exclusive rename.
type notExclusive struct{ durable.FileSystem }

func (n notExclusive) Publish(from *durable.Dir, name string, to *durable.Dir, newName string, unique bool) error {
	if !unique {
		return fmt.Errorf("publishing %s: %w", newName, durable.ErrNotExclusive)
	}
	return n.FileSystem.Publish(from, name, to, newName, unique)
}

// TestLongNameWithoutExclusiveRename checks that no name is used that another machine could choose.
func TestLongNameWithoutExclusiveRename(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	w.files = notExclusive{durable.Disk{}}
	r := send(t, w, faultDraft(false))
	parts, err := schema.ParseID(r.Message.ID)
	if err != nil || len(parts.Rand) != schema.LongRand {
		t.Errorf("the id is %s (%v), want a long one", r.Message.ID, err)
	}
	for _, path := range append(slices.Clone(r.Inboxes), r.Outbox) {
		if !strings.Contains(filepath.Base(path), parts.Rand) {
			t.Errorf("the copy is %s, want a name with %s", path, parts.Rand)
		}
		check.ReadFile(t, path)
	}
	wantFiles(t, w, outgoingName)
}
