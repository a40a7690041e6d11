package mailbox

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// The test binary runs itself as other processes. childRole says what such a process does: "send"
// sends childCount messages to childTo in the workspace childDir, in one and the same minute, and
// prints the id of each accepted one. "restore" deals with the only message of childTo and restores
// it, childCount times, and prints the path each time. "receive" receives what claude sent in the
// workspace childFrom, childCount messages at once, and prints their number each time.
const (
	childRole  = "OACP_TEST_CHILD"
	childDir   = "OACP_TEST_DIR"
	childFrom  = "OACP_TEST_FROM"
	childTo    = "OACP_TEST_TO"
	childCount = "OACP_TEST_COUNT"
)

func runChild(role string) int {
	roles := map[string]func(w *Workspace, to []schema.AgentName) error{
		"send": childSends, "restore": childRestores, "receive": childReceives,
	}
	if roles[role] == nil {
		fmt.Fprintf(os.Stderr, "no such role: %s\n", role)
		return 2
	}
	w, err := Open(os.Getenv(childDir), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var to []schema.AgentName
	for name := range strings.SplitSeq(os.Getenv(childTo), ",") {
		to = append(to, schema.AgentName(name))
	}
	var count int
	_, err = fmt.Sscan(os.Getenv(childCount), &count)
	for i := 0; err == nil && i < count; i++ {
		err = roles[role](w, to)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// started is when a child began. Its clock stays there, so that its messages want the same names, and is that of the files: a
// process whose clock differs from theirs by months takes a copy that is just being made for one of a dead process.
var started = time.Now()

func childSends(w *Workspace, to []schema.AgentName) error {
	w.now = func() time.Time { return started }
	r, err := w.Send(context.Background(), draft(to...), nil)
	if err == nil {
		fmt.Println(r.Message.ID)
	}
	return err
}

// child starts a process that sends; its accepted ids come from the scanner.
func child(t *testing.T, dir string, count int, to string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	return childAs(t, "send", dir, count, to)
}

func childAs(t *testing.T, role, dir string, count int, to string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childRole+"="+role, childDir+"="+dir, childTo+"="+to, childCount+"="+fmt.Sprint(count))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// TestManyProcessesSendIntoOneInbox runs 16 processes of one sender. Each sends 500 messages of one
// type in one minute, so that all of them want the same names. Each message starts a conversation of its own.
func TestManyProcessesSendIntoOneInbox(t *testing.T) {
	const processes, each = 16, 150
	w := newWorkspace(t, "claude", "codex")
	var group sync.WaitGroup
	accepted := make([][]schema.ID, processes)
	for i := range processes {
		cmd, ids := child(t, w.dir, each, "codex")
		group.Go(func() {
			for ids.Scan() {
				accepted[i] = append(accepted[i], schema.ID(ids.Text()))
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	group.Wait()
	count := make(map[schema.ID]int)
	for i, ids := range accepted {
		if len(ids) != each {
			t.Errorf("process %d reported %d messages, want %d", i, len(ids), each)
		}
		for _, id := range ids {
			count[id]++
		}
	}
	if len(count) != processes*each {
		t.Errorf("%d distinct ids, want %d", len(count), processes*each)
	}
	for _, box := range []struct {
		agent schema.AgentName
		box   Box
	}{{"codex", Inbox}, {"claude", Outbox}} {
		found := idsIn(t, w, box.agent, box.box)
		if len(found) != len(count) {
			t.Errorf("%s of %s has %d distinct messages, want %d", box.box, box.agent, len(found), len(count))
		}
		for id, n := range found {
			if n != 1 || count[id] != 1 {
				t.Errorf("%s of %s has %s %d times, reported %d times, want once", box.box, box.agent, id, n, count[id])
			}
		}
	}
	wantFiles(t, w, "state/outgoing")
	conversations := make(map[schema.ConversationID]bool)
	entries, err := w.List(t.Context(), "claude", Outbox)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		conversations[e.Message.ConversationID] = true
	}
	if len(conversations) != processes*each {
		t.Errorf("%d conversations, want %d", len(conversations), processes*each)
	}
}

// idsIn counts the messages of a box by id, each file once.
func idsIn(t *testing.T, w *Workspace, agent schema.AgentName, box Box) map[schema.ID]int {
	t.Helper()
	entries, err := w.List(t.Context(), agent, box)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[schema.ID]int)
	for _, e := range entries {
		if e.Err != nil {
			t.Errorf("%s: %v", e.Path, e.Err)
			continue
		}
		found[e.Message.ID]++
	}
	return found
}

// TestKilledSenders kills sending processes with SIGKILL at random points, while another recovers
// all the time, and then recovers. Every reported message is in every box, and every message is in
// all boxes once or in none.
func TestKilledSenders(t *testing.T) {
	const rounds = 25
	w := newWorkspace(t, "claude", "codex", "gemini")
	reported := make(map[schema.ID]bool)
	beside, stop := openWorkspace(t, w.dir), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := beside.Recover(t.Context()); err != nil {
					t.Errorf("recovering beside the senders: %v", err)
				}
			}
		}
	})
	for range rounds {
		cmd, ids := child(t, w.dir, 1000, "codex,gemini")
		for range 1 + rand.IntN(8) {
			if ids.Scan() {
				reported[schema.ID(ids.Text())] = true
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for ids.Scan() {
			reported[schema.ID(ids.Text())] = true
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the process ended by itself before it was killed")
		}
		wantWholeFiles(t, w)
	}
	close(stop)
	group.Wait()
	// A line may have been cut off by the kill.
	for id := range reported {
		if _, err := schema.ParseID(id); err != nil {
			delete(reported, id)
		}
	}
	w.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if _, err := w.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, w, "state/outgoing")
	wantFiles(t, w, "agents/claude/dead_letter")
	sent := idsIn(t, w, "claude", Outbox)
	for id := range reported {
		if sent[id] != 1 && !isCutShort(id, sent) {
			t.Errorf("%s was reported as sent and is %d times in the outbox", id, sent[id])
		}
	}
	for _, agent := range []schema.AgentName{"codex", "gemini"} {
		received := idsIn(t, w, agent, Inbox)
		if len(received) != len(sent) {
			t.Errorf("%s received %d messages, want the %d sent ones", agent, len(received), len(sent))
		}
		for id, n := range received {
			if n != 1 || sent[id] != 1 {
				t.Errorf("%s received %s %d times, sent %d times", agent, id, n, sent[id])
			}
		}
	}
	t.Logf("%d messages sent, %d of them reported, by %d killed processes", len(sent), len(reported), rounds)
}

// isCutShort reports whether the id is the beginning of a sent one: the last line of a killed
// process.
func isCutShort(id schema.ID, sent map[schema.ID]int) bool {
	for whole := range sent {
		if strings.HasPrefix(string(whole), string(id)) {
			return true
		}
	}
	return false
}

// TestNextSendDeliversWhatAKilledOneLeft leaves a committed message whose inbox copy is still
// staged.
func TestNextSendDeliversWhatAKilledOneLeft(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	r := send(t, w, draft("codex"))
	staged := filepath.Join(w.dir, outgoingName, stagedEntry(r.Message.ID, "codex"))
	if err := os.Rename(r.Inboxes[0], staged); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, w, "agents/codex/inbox")
	send(t, w, draft("codex"))
	if got := len(inboxIDs(t, w, "codex")); got != 2 {
		t.Errorf("inbox has %d messages after the next send, want 2", got)
	}
	if _, err := validate.Read([]byte(check.ReadFile(t, r.Inboxes[0]))); err != nil {
		t.Errorf("the recovered copy at %s: %v", r.Inboxes[0], err)
	}
	wantFiles(t, w, "state/outgoing")
}
