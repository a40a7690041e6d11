package mailbox

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// handled counts the messages that were acknowledged, by agent and id.
type handled struct {
	mutex  sync.Mutex
	counts map[string]int
}

// handleAll acknowledges what is in the inboxes of codex and gemini.
func (h *handled) handleAll(t *testing.T, w *Workspace) {
	for _, agent := range []schema.AgentName{"codex", "gemini"} {
		entries, err := w.Inbox(t.Context(), agent)
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			switch err := w.Acknowledge(e); {
			case err == nil:
				h.mutex.Lock()
				h.counts[fmt.Sprintf("%s %s", agent, e.Message.ID)]++
				h.mutex.Unlock()
			case !IsGone(err):
				t.Error(err)
			}
		}
	}
}

// wantOnce checks that each recipient has handled each message once.
func (h *handled) wantOnce(t *testing.T, files []Received) {
	t.Helper()
	want := make(map[string]int)
	for _, file := range files {
		m, err := validate.Read(file.Data)
		if err != nil {
			t.Fatal(err)
		}
		for _, agent := range m.To {
			want[fmt.Sprintf("%s %s", agent, m.ID)] = 1
		}
	}
	if !maps.Equal(h.counts, want) {
		for key := range want {
			if h.counts[key] != 1 {
				t.Errorf("%s: handled %d times, want once", key, h.counts[key])
			}
		}
		t.Errorf("%d messages were handled, want %d", len(h.counts), len(want))
	}
}

// manyElsewhere returns n messages of another machine that come with ids, and their drafts. The ids
// count from first.
func manyElsewhere(t testing.TB, n, first int) (files []Received, drafts []schema.Message) {
	t.Helper()
	w := newMachine(t)
	for i := range n {
		m := draft("codex", "gemini")
		m.ID = schema.ID(fmt.Sprintf("msg-20260313T1430Z-claude-%016d", first+i))
		composed, data, _, err := w.Compose(m, nil)
		if err != nil {
			t.Fatal(err)
		}
		name, err := composed.LongFileName()
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, Received{From: m.From, Name: name, Data: data, Pending: m.To})
		drafts = append(drafts, m)
	}
	return files, drafts
}

func shuffled[T any](items []T) []T {
	items = slices.Clone(items)
	rand.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	return items
}

// TestReceiveRaces receives the same messages several times at once, while others send them,
// recover and acknowledge.
func TestReceiveRaces(t *testing.T) {
	files, drafts := manyElsewhere(t, 60, 0)
	w := newMachine(t)
	h := handled{counts: make(map[string]int)}
	var delivering, others sync.WaitGroup
	for range 3 {
		view := openWorkspace(t, w.dir)
		delivering.Go(func() {
			for i, got := range view.Receive(t.Context(), shuffled(files)) {
				if got.Err != nil {
					t.Errorf("file %d: %v", i, got.Err)
				}
			}
		})
	}
	for range 2 {
		delivering.Go(func() {
			for _, m := range shuffled(drafts) {
				if _, err := w.Send(t.Context(), m, nil); err != nil {
					t.Errorf("sending %s: %v", m.ID, err)
				}
			}
		})
	}
	done := make(chan struct{})
	for range 2 {
		view := openWorkspace(t, w.dir)
		after(view, 2*staleAfter)
		others.Go(func() {
			for {
				h.handleAll(t, view)
				if got, err := view.Recover(t.Context()); err != nil || !isEmpty(got) {
					t.Errorf("Recover did %+v (%v) beside the living, want nothing", got, err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	delivering.Wait()
	close(done)
	others.Wait()
	h.handleAll(t, w)
	h.wantOnce(t, files)
	wantFiles(t, w, outgoingName)
	if got := len(idsIn(t, w, "claude", Outbox)); got != len(files) {
		t.Errorf("the outbox has %d messages, want %d", got, len(files))
	}
}

// childReceives receives what claude sent in another workspace.
func childReceives(w *Workspace, to []schema.AgentName) error {
	ctx := context.Background()
	from, err := Open(os.Getenv(childFrom), nil)
	if err != nil {
		return err
	}
	entries, err := from.List(ctx, "claude", Outbox)
	if err != nil {
		return err
	}
	var files []Received
	for _, e := range shuffled(entries) {
		data, err := ReadUnscreened(from, e)
		if err != nil {
			return err
		}
		files = append(files, Received{From: "claude", Name: e.Name, Data: data, Pending: to})
	}
	fmt.Println("receiving", len(files))
	for _, got := range w.Receive(ctx, files) {
		if got.Err != nil {
			return got.Err
		}
	}
	return from.Close()
}

// TestKilledReceivers kills processes that receive the same messages at random moments, while their
// recipients handle what arrives. What was not received is received again: each message arrives
// once.
func TestKilledReceivers(t *testing.T) {
	const rounds, each = 25, 10
	w := newMachine(t)
	w.files = durable.Disk{} // only the killed processes sync
	h := handled{counts: make(map[string]int)}
	var sent []Received
	left, completed := 0, 0
	for round := range rounds {
		files, _ := manyElsewhere(t, each, round*each)
		elsewhere := newMachine(t)
		for _, file := range files {
			check.WriteFile(t, filepath.Join(elsewhere.BoxPath("claude", Outbox), file.Name), string(file.Data))
		}
		sent = append(sent, files...)
		t.Setenv(childFrom, elsewhere.dir)
		var killed sync.WaitGroup
		for range 1 + round%2 {
			cmd, lines := childAs(t, "receive", w.dir, 100_000, "codex,gemini")
			killed.Go(func() {
				lines.Scan()
				time.AfterFunc(time.Duration(rand.IntN(20_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
				for lines.Scan() {
				}
				wantKilled(t, cmd)
			})
		}
		h.handleAll(t, w)
		killed.Wait()
		wantWholeFiles(t, w)
		if copies, err := w.Staged(); err != nil || len(copies) > 0 {
			left++
		}
		after(w, 0)
		completed += len(mustRecover(t, w).Published)
		h.handleAll(t, w)
	}
	after(w, 2*staleAfter)
	mustRecover(t, w)
	for _, got := range w.Receive(t.Context(), sent) {
		if got.Err != nil {
			t.Error(got.Err)
		}
	}
	h.handleAll(t, w)
	h.wantOnce(t, sent)
	wantFiles(t, w, outgoingName)
	wantFiles(t, w, "agents/claude/dead_letter")
	t.Logf("%d messages; %d of %d kills left staged copies, and recoveries published %d", len(sent), left, rounds, completed)
}

func wantKilled(t *testing.T, cmd *exec.Cmd) {
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
		t.Errorf("the process ended by itself before it was killed: %v", err)
	}
}

// TestRestoreWhatWasAcknowledgedElsewhere restores a received message for an agent whose copy never
// was here, beside one whose copy is.
func TestRestoreWhatWasAcknowledgedElsewhere(t *testing.T) {
	for _, name := range []string{"", "20260313143007_claude_task_request_k2f9.yaml"} {
		w := newMachine(t)
		file := sentElsewhere(t, faultDraft(false))
		if name != "" {
			file.Name = name
		}
		file.Pending = []schema.AgentName{"gemini"}
		r := receive(t, w, file)
		for range 2 {
			if _, err := w.Restore(t.Context(), r.Message, "codex", begin); err != nil {
				t.Fatal(err)
			}
			wantReceived(t, w, file, "codex", "gemini")
			receive(t, w, file)
			wantReceived(t, w, file, "codex", "gemini")
			entries, err := w.Inbox(t.Context(), "codex")
			if err != nil || len(entries) != 1 || w.Acknowledge(entries[0]) != nil {
				t.Fatalf("acknowledging %v (%v) failed", entries, err)
			}
			receive(t, w, file)
			wantReceived(t, w, file, "gemini")
		}
	}
}
