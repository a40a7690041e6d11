package mailbox

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/staging"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
)

// elsewhere is the origin of processes whose claims this one does not see.
const elsewhere = "0123456789abcdef"

// interrupted is the disk with an event that happens once, right before a file whose name contains
// the part is published or taken.
type interrupted struct {
	durable.Disk
	part   string
	happen func()
	// at is the origin of the process, if it is another one.
	at string
}

func (i *interrupted) Origin(dir *durable.Dir) (string, error) {
	if i.at != "" {
		return i.at, nil
	}
	return i.Disk.Origin(dir)
}

func (i *interrupted) before(name string) {
	if happen := i.happen; happen != nil && strings.Contains(name, i.part) {
		i.happen = nil
		happen()
	}
}

func (i *interrupted) Publish(from *durable.Dir, name string, to *durable.Dir, newName string, unique bool) error {
	i.before(name)
	return i.Disk.Publish(from, name, to, newName, unique)
}

func (i *interrupted) Take(dir *durable.Dir, name string) (bool, error) {
	i.before(name)
	return i.Disk.Take(dir, name)
}

// after sets the workspace's clock that much later than the times of the files.
func after(w *Workspace, delay time.Duration) {
	w.now = func() time.Time { return time.Now().Add(delay) }
}

func mustRecover(t *testing.T, w *Workspace) Recovered {
	t.Helper()
	recovered, err := w.Recover(t.Context())
	if err != nil {
		t.Fatalf("recovering: %v", err)
	}
	return recovered
}

// killBefore kills a delivery before it publishes or takes the file.
func killBefore(t *testing.T, w *Workspace, given bool, operation string) {
	t.Helper()
	f := &faulty{at: operation, failAt: math.MaxInt, err: errCrash}
	w.files = f
	_, err := w.Send(t.Context(), faultDraft(given), nil)
	w.files = durable.Disk{}
	if f.name == "" {
		t.Fatalf("no operation of a delivery is called %q: %v", operation, err)
	}
}

// stagedEntry returns the name of an inbox copy in state/outgoing, as a program writes it that does
// not lock its copies.
func stagedEntry(id schema.ID, agent schema.AgentName) string {
	return staging.Name{ID: id, Agent: agent, Box: Inbox}.Entry()
}

// disown makes the staged copies those of a process whose claims this one does not see.
func disown(t *testing.T, w *Workspace) {
	t.Helper()
	for _, name := range files(t, w, outgoingName) {
		staged, ok := staging.ParseName(name)
		if !ok {
			t.Fatalf("%s is not a staged copy", name)
		}
		staged.Origin = elsewhere
		if err := os.Rename(filepath.Join(w.dir, outgoingName, name), filepath.Join(w.dir, outgoingName, staged.Entry())); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRecoverLeavesTheLivingAlone recovers at each step of a delivery, hours later by the clock.
func TestRecoverLeavesTheLivingAlone(t *testing.T) {
	for _, d := range deliveries {
		for _, part := range []string{"@claude@outbox", "@codex@inbox", "@gemini@inbox"} {
			w := newWorkspace(t, "claude", "codex", "gemini")
			other := openWorkspace(t, w.dir)
			after(other, 2*staleAfter)
			happened := false
			w.files = &interrupted{part: part, happen: func() {
				happened = true
				before := files(t, w, outgoingName)
				if got := mustRecover(t, other); !isEmpty(got) {
					t.Errorf("before %s: Recover did %+v beside a living sender, want nothing", part, got)
				}
				wantFiles(t, w, outgoingName, before...)
			}}
			if _, err := d.deliver(t, w); err != nil {
				t.Fatal(err)
			}
			if !happened {
				t.Errorf("nothing with %s in its name is published", part)
			}
		}
	}
}

// TestRecoverWaitsForStrangers recovers what a process staged whose claims do not show. Unsent
// copies have to be an hour old, and sent ones a minute.
func TestRecoverWaitsForStrangers(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	killBefore(t, w, false, "publish msg-")
	disown(t, w)
	staged := files(t, w, outgoingName)
	if len(staged) != 3 {
		t.Fatalf("the killed delivery left %q, want three copies", staged)
	}
	for _, age := range []time.Duration{0, staleAfter - time.Minute} {
		after(w, age)
		if got := mustRecover(t, w); !isEmpty(got) {
			t.Errorf("%v later Recover did %+v, want nothing", age, got)
		}
		wantFiles(t, w, outgoingName, staged...)
	}
	after(w, staleAfter+time.Second)
	got := mustRecover(t, w)
	var want []string
	for _, name := range staged {
		want = append(want, filepath.Join(w.dir, outgoingName, name))
	}
	if slices.Sort(got.Swept); !slices.Equal(got.Swept, want) {
		t.Errorf("an hour later Recover swept %q, want %q", got.Swept, want)
	}
	wantFiles(t, w, outgoingName)
	wantFiles(t, w, "agents/codex/inbox")

	killBefore(t, w, false, "sync outbox")
	disown(t, w)
	after(w, strangerAfter-time.Second)
	if got := mustRecover(t, w); !isEmpty(got) {
		t.Errorf("within a minute Recover did %+v, want nothing", got)
	}
	after(w, strangerAfter+time.Second)
	if got := mustRecover(t, w); len(got.Published) != 2 {
		t.Errorf("a minute later Recover did %+v, want both copies published", got)
	}
}

func isEmpty(r Recovered) bool {
	return len(r.Published)+len(r.Swept)+len(r.DeadLetters) == 0
}

// TestRecoverListsAgain kills a sender that stages another copy after a recovery has listed the
// copies, and before that finds it dead.
func TestRecoverListsAgain(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	killBefore(t, w, false, "publish msg-")
	disown(t, w)
	staged := files(t, w, outgoingName)
	last := filepath.Join(w.dir, outgoingName, staged[len(staged)-1])
	data := check.ReadFile(t, last)
	check.Remove(t, last)
	asked := 0
	w.now = func() time.Time {
		if asked++; asked == 2 { // after the listing, for the age of the first copy
			check.WriteFile(t, last, data)
		}
		return time.Now().Add(2 * staleAfter)
	}
	if got := mustRecover(t, w); len(got.Swept) != 3 || asked < 2 {
		t.Errorf("Recover did %+v, want %q swept", got, staged)
	}
	if got := mustRecover(t, w); !isEmpty(got) {
		t.Errorf("the next Recover did %+v, want nothing", got)
	}
}

func TestRecoverSaysWhatItPublished(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	r := send(t, w, faultDraft(false))
	for i, path := range r.Inboxes {
		staged := stagedEntry(r.Message.ID, r.Message.To[i])
		if err := os.Rename(path, filepath.Join(w.dir, outgoingName, staged)); err != nil {
			t.Fatal(err)
		}
	}
	// An inbox that is not a folder keeps only its own copy waiting.
	inbox := w.BoxPath("codex", Inbox)
	if err := os.RemoveAll(inbox); err != nil {
		t.Fatal(err)
	}
	check.WriteFile(t, inbox, "no folder")
	got, err := w.Recover(t.Context())
	check.Error(t, err, inbox)
	if !slices.Equal(got.Published, r.Inboxes[1:]) {
		t.Errorf("Recover did %+v, want %q published and one waiting", got, r.Inboxes[1:])
	}
	if err := os.Remove(inbox); err != nil {
		t.Fatal(err)
	}
	if got := mustRecover(t, w); !slices.Equal(got.Published, r.Inboxes[:1]) {
		t.Errorf("Recover did %+v, want %q published", got, r.Inboxes[:1])
	}
	wantFiles(t, w, outgoingName)
}

// TestRecoverKeepsTheSuffix checks that a queued copy gets the file name of the outbox copy.
func TestRecoverKeepsTheSuffix(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	r, err := w.Send(t.Context(), draft("codex"), &SendOptions{Suffix: "issue.42_b"})
	if err != nil {
		t.Fatal(err)
	}
	long, err := r.Message.LongFileName()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSuffix(long, ".yaml") + "_issue.42_b.yaml"
	if filepath.Base(r.Inboxes[0]) != want || filepath.Base(r.Outbox) != want {
		t.Errorf("the copies are %s and %s, want the name %s", r.Inboxes[0], r.Outbox, want)
	}
	if name, err := schema.ParseFileName(want); err != nil || name.Suffix != "issue.42_b" {
		t.Errorf("%s reads as %+v, %v", want, name, err)
	}
	staged := stagedEntry(r.Message.ID, "codex")
	if err := os.Rename(r.Inboxes[0], filepath.Join(w.dir, outgoingName, staged)); err != nil {
		t.Fatal(err)
	}
	if got := mustRecover(t, w); !slices.Equal(got.Published, r.Inboxes) {
		t.Errorf("Recover did %+v, want %q published", got, r.Inboxes)
	}
	for _, bad := range []string{"../x", "a b", "ü", strings.Repeat("a", 65)} {
		if _, err := w.Send(t.Context(), draft("codex"), &SendOptions{Suffix: bad}); err == nil {
			t.Errorf("Send accepts the suffix %q", bad)
		}
	}
	wantFiles(t, w, "agents/codex/inbox", want)
}

// TestRecoverBuriesWhatMayHaveBeenSent checks that Recover neither delivers nor deletes a queued
// copy without its outbox copy.
func TestRecoverBuriesWhatMayHaveBeenSent(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	r := send(t, w, draft("codex"))
	data := check.ReadFile(t, r.Outbox)
	if err := errors.Join(os.Remove(r.Inboxes[0]), os.Remove(r.Outbox)); err != nil {
		t.Fatal(err)
	}
	staged := stagedEntry(r.Message.ID, "codex")
	for _, content := range []string{data, data[:40], ""} {
		check.WriteFile(t, filepath.Join(w.dir, outgoingName, staged), content)
		after(w, 0)
		if got := mustRecover(t, w); !isEmpty(got) {
			t.Errorf("Recover did %+v with a young copy of %q, want nothing", got, content)
		}
		after(w, 2*staleAfter)
		got := mustRecover(t, w)
		if len(got.DeadLetters) != 1 || check.ReadFile(t, got.DeadLetters[0]) != content {
			t.Fatalf("Recover did %+v, want the copy of %q buried", got, content)
		}
		reason, err := w.Reason(Entry{Agent: "claude", Name: filepath.Base(got.DeadLetters[0])})
		if err != nil || reason.ID != r.Message.ID || !strings.Contains(reason.Reason, "codex") {
			t.Errorf("the reason is %+v (%v), want the message and its recipient", reason, err)
		}
		wantFiles(t, w, outgoingName)
		wantFiles(t, w, "agents/codex/inbox")
	}
}

// TestRecoverMakesNoMailboxes checks that a copy from or for a removed agent does not bring its mailbox
// back, and stays.
func TestRecoverMakesNoMailboxes(t *testing.T) {
	for _, removed := range []string{"agents/claude", "agents/codex"} {
		w := newWorkspace(t, "claude", "codex")
		r := send(t, w, draft("codex"))
		staged := stagedEntry(r.Message.ID, "codex")
		if err := os.Rename(r.Inboxes[0], filepath.Join(w.dir, outgoingName, staged)); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(w.dir, removed)); err != nil {
			t.Fatal(err)
		}
		after(w, 2*staleAfter)
		before := tree(t, w)
		if got, err := w.Recover(t.Context()); !isEmpty(got) || (err == nil) != (removed == "agents/claude") {
			t.Errorf("without %s, Recover did %+v (%v), want nothing, and an error about a missing recipient", removed, got, err)
		}
		if after := tree(t, w); strings.Contains(after, removed) || !strings.Contains(after, staged) {
			t.Errorf("the workspace is\n%s\nwant it as before:\n%s", after, before)
		}
	}
}

// TestRecoverReadsTheOutbox checks that a copy stays staged while a file that may be its outbox copy cannot be read.
func TestRecoverReadsTheOutbox(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	r := send(t, w, draft("codex"))
	staged := filepath.Join(w.dir, outgoingName, stagedEntry(r.Message.ID, "codex"))
	if err := errors.Join(os.Rename(r.Inboxes[0], staged), os.Remove(r.Outbox), os.Mkdir(r.Outbox, 0o755)); err != nil {
		t.Fatal(err)
	}
	after(w, 2*staleAfter)
	if got, err := w.Recover(t.Context()); !isEmpty(got) || !errors.Is(err, durable.ErrNotRegular) {
		t.Errorf("Recover did %+v (%v), want nothing and an error", got, err)
	}
	wantFiles(t, w, outgoingName, filepath.Base(staged))
}

func TestRecoverIgnoresForeignFiles(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	names := []string{"README", "msg-20260313T1430Z-claude-aaaa@codex", "msg-1@codex@inbox", "msg-20260313T1430Z-claude-aaaa@..@inbox",
		"msg-20260313T1430Z-claude-aaaa@codex@trash", ".hidden"}
	for _, name := range names {
		check.WriteFile(t, filepath.Join(w.dir, outgoingName, name), "foreign")
	}
	slices.Sort(names)
	after(w, 2*staleAfter)
	if got := mustRecover(t, w); !isEmpty(got) {
		t.Errorf("Recover did %+v, want nothing", got)
	}
	wantFiles(t, w, outgoingName, names...)
}

// TestSweptDeliveryStartsAgain checks that a delivery that stops for so long that its staged copies
// are swept neither loses nor repeats a message, at whatever point the sweep comes.
func TestSweptDeliveryStartsAgain(t *testing.T) {
	for _, d := range deliveries {
		for _, ending := range []string{"@claude@outbox", "@codex@inbox", "@gemini@inbox"} {
			t.Run(d.name+"/before "+ending, func(t *testing.T) {
				w := newWorkspace(t, "claude", "codex", "gemini")
				sweeper := openWorkspace(t, w.dir)
				after(sweeper, 2*staleAfter)
				w.files = &interrupted{part: ending, at: elsewhere, happen: func() { mustRecover(t, sweeper) }}
				r, err := d.deliver(t, w)
				if err != nil {
					t.Fatal(err)
				}
				wantFiles(t, w, "agents/claude/outbox", filepath.Base(r.Outbox))
				for _, agent := range r.Message.To {
					if got := inboxIDs(t, w, agent); !slices.Equal(got, []schema.ID{r.Message.ID}) {
						t.Errorf("the inbox of %s has %v, want %s", agent, got, r.Message.ID)
					}
				}
				wantFiles(t, w, outgoingName)
			})
		}
	}
}

// TestSweepWhoseDeliveryGoesOn is the other order: the delivery runs while the sweep is between two
// of its steps.
func TestSweepWhoseDeliveryGoesOn(t *testing.T) {
	for _, ending := range []string{"@claude@outbox", "@codex@inbox", "@gemini@inbox"} {
		t.Run(ending, func(t *testing.T) {
			w := newWorkspace(t, "claude", "codex", "gemini")
			sweeper := openWorkspace(t, w.dir)
			after(sweeper, 2*staleAfter)
			sweeping, proceed, swept := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			sweeper.files = &interrupted{part: ending, happen: func() {
				close(sweeping)
				<-proceed
			}}
			w.files = &interrupted{part: "@claude@outbox", at: elsewhere, happen: func() {
				go func() {
					_, err := sweeper.Recover(t.Context())
					swept <- err
				}()
				<-sweeping
			}}
			r, err := w.Send(t.Context(), faultDraft(false), nil)
			close(proceed)
			if err := errors.Join(err, <-swept); err != nil {
				t.Fatal(err)
			}
			mustRecover(t, w)
			for _, agent := range r.Message.To {
				if got := inboxIDs(t, w, agent); !slices.Equal(got, []schema.ID{r.Message.ID}) {
					t.Errorf("the inbox of %s has %v, want %s", agent, got, r.Message.ID)
				}
			}
			wantFiles(t, w, outgoingName)
		})
	}
}

// TestListingWithoutOutboxCopy recovers with a listing that lacks the outbox copy, because the sender staged it meanwhile. The
// message is not sent, so its other copies are no dead letters.
func TestListingWithoutOutboxCopy(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	killBefore(t, w, true, "publish msg-")
	b, err := openBatch(w, nil)
	if err == nil {
		err = b.findLeftovers()
	}
	if err != nil {
		t.Fatal(err)
	}
	for id, left := range b.left {
		left.outboxes = nil
		var recovered Recovered
		if err := b.recoverMessage(id, &recovered); err != nil || len(recovered.DeadLetters) > 0 {
			t.Errorf("recovery did %+v (%v), want no dead letters", recovered, err)
		}
	}
	if err := b.close(); err != nil {
		t.Error(err)
	}
	mustRecover(t, w)
	wantFiles(t, w, outgoingName)
}

// TestSweepBesideASecondSend sends a message with a given id again while Recover sweeps the copies
// that a dead process left of it.
func TestSweepBesideASecondSend(t *testing.T) {
	for _, ending := range []string{"@claude@outbox", "@codex@inbox", "@gemini@inbox"} {
		t.Run(ending, func(t *testing.T) {
			w := newWorkspace(t, "claude", "codex", "gemini")
			killBefore(t, w, true, "publish msg-")
			old := time.Now().Add(-2 * staleAfter)
			for _, name := range files(t, w, outgoingName) {
				if err := os.Chtimes(filepath.Join(w.dir, outgoingName, name), old, old); err != nil {
					t.Fatal(err)
				}
			}
			sweeper := openWorkspace(t, w.dir)
			after(sweeper, 0)
			sent := make(chan error, 1)
			started := make(chan struct{})
			sweeper.files = &interrupted{part: ending, happen: func() {
				lock := flock.New(filepath.Join(w.dir, "state/deliver.lock"))
				if free, err := lock.TryLock(); free || err != nil {
					t.Errorf("the sweep leaves the lock of such messages free: %t, %v", free, err)
					_ = lock.Unlock()
				}
				go func() {
					close(started)
					_, err := w.Send(t.Context(), faultDraft(true), nil)
					sent <- err
				}()
				<-started
			}}
			mustRecover(t, sweeper)
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			mustRecover(t, w)
			for _, agent := range []schema.AgentName{"codex", "gemini"} {
				if got := inboxIDs(t, w, agent); len(got) != 1 {
					t.Errorf("the inbox of %s has %v, want the message once", agent, got)
				}
			}
			wantFiles(t, w, outgoingName)
		})
	}
}

// TestCrashAtEveryStepOfRecovery kills the recovery too; the next one leaves no message half
// delivered.
func TestCrashAtEveryStepOfRecovery(t *testing.T) {
	for _, killed := range []string{"publish msg-", "sync outbox"} {
		for failAt := range 12 {
			t.Run(fmt.Sprintf("%s/step=%d", killed, failAt), func(t *testing.T) {
				w := newWorkspace(t, "claude", "codex", "gemini")
				killBefore(t, w, false, killed)
				later := openWorkspace(t, w.dir)
				after(later, 2*staleAfter)
				later.files = &faulty{failAt: failAt, err: errCrash}
				if _, err := later.Recover(t.Context()); err != nil && !errors.Is(err, errCrash) {
					t.Fatalf("the killed recovery gave %v, want the crash", err)
				}
				last := openWorkspace(t, w.dir)
				after(last, 4*staleAfter)
				mustRecover(t, last)
				wantFiles(t, w, outgoingName)
				want := len(files(t, w, "agents/claude/outbox"))
				for _, agent := range []schema.AgentName{"codex", "gemini"} {
					if got := inboxIDs(t, w, agent); len(got) != want {
						t.Errorf("the inbox of %s has %v, want %d", agent, got, want)
					}
				}
			})
		}
	}
}

// TestRecoverFindsNoFolder recovers a workspace in which nothing was ever sent.
func TestRecoverFindsNoFolder(t *testing.T) {
	w := newWorkspace(t, "claude")
	if err := os.RemoveAll(filepath.Join(w.dir, "state")); err != nil {
		t.Fatal(err)
	}
	if got := mustRecover(t, w); !isEmpty(got) {
		t.Errorf("Recover did %+v, want nothing", got)
	}
}
