package commit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/gittest"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// newRepository makes a repository with a workspace in the folder mail, in which everything is
// committed.
func newRepository(t testing.TB) (*mailbox.Workspace, *Repository) {
	t.Helper()
	top := filepath.Join(gittest.Home(t), "repository")
	gittest.Run(t, filepath.Dir(top), "init", "-q", top)
	dir := filepath.Join(top, "mail")
	for _, agent := range []string{"claude", "codex"} {
		for _, box := range []string{"inbox", "outbox"} {
			if err := os.MkdirAll(filepath.Join(dir, "agents", agent, box), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "workspace.json"), []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := mailboxtest.Open(t, dir)
	r, err := Open(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	return w, r
}

// send sends messages from claude to codex and returns the paths of the inbox copies.
func send(t testing.TB, w *mailbox.Workspace, count int) (inboxes []string) {
	t.Helper()
	drafts := make([]schema.Message, count)
	for i := range drafts {
		drafts[i] = schema.Message{From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Question,
			Subject: fmt.Sprint("number ", i), Body: schema.TextValue("x")}
	}
	for _, result := range w.SendAll(t.Context(), drafts, nil) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		inboxes = append(inboxes, result.Receipt.Inboxes...)
	}
	return inboxes
}

// TestFilesVanish checks that a commit succeeds although a new file, which git does not know, is
// acknowledged after Look has seen it.
func TestFilesVanish(t *testing.T) {
	w, r := newRepository(t)
	inboxes := send(t, w, 2)
	plan, err := r.Plan(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(inboxes[0]); err != nil {
		t.Fatal(err)
	}
	if err := r.commit(t.Context(), plan); err == nil || !isVanished(err) {
		t.Errorf("got %v, want that a file does not exist", err)
	}
	if staged := gittest.Run(t, w.Dir(), "diff", "--cached", "--name-only"); staged != "" {
		t.Errorf("staged are:\n%s", staged)
	}
	if done, err := r.Commit(t.Context(), ""); err != nil || done.ID == "" || len(done.Files) != 3 {
		t.Errorf("got %+v, %v; want three files", done, err)
	}
	// Nothing but what is neither in HEAD nor in the folder.
	path := send(t, w, 1)[0]
	gittest.Run(t, w.Dir(), "add", path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if done, err := r.Commit(t.Context(), ""); err != nil || len(done.Files) != 1 {
		t.Errorf("got %+v, %v; want the outbox copy", done, err)
	}
	if status := gittest.Run(t, w.Dir(), "status", "--porcelain"); status != "" {
		t.Errorf("left are:\n%s", status)
	}
}

// TestCommitsWhileOthersWork commits while messages are sent and acknowledged: no commit has an inbox
// copy without its outbox copy.
func TestCommitsWhileOthersWork(t *testing.T) {
	w, r := newRepository(t)
	const messages = 60
	var others sync.WaitGroup
	others.Go(func() {
		for range messages {
			if path := send(t, w, 1)[0]; path[len(path)-6]%2 == 0 {
				if err := os.Remove(path); err != nil {
					t.Error(err)
				}
			}
		}
	})
	ended := make(chan struct{})
	go func() {
		others.Wait()
		close(ended)
	}()
	for done := false; !done; {
		select {
		case <-ended:
			done = true // and commit what is left
		default:
		}
		if _, err := r.Commit(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	if status := gittest.Run(t, w.Dir(), "status", "--porcelain"); status != "" {
		t.Errorf("left are:\n%s", status)
	}
	for id := range strings.FieldsSeq(gittest.Run(t, w.Dir(), "rev-list", "HEAD")) {
		names := strings.Fields(gittest.Run(t, w.Dir(), "ls-tree", "-r", "--name-only", id))
		sent := make(map[string]bool)
		for _, name := range names {
			if strings.Contains(name, "/outbox/") {
				sent[filepath.Base(name)] = true
			}
		}
		for _, name := range names {
			if strings.Contains(name, "/inbox/") && !sent[filepath.Base(name)] {
				t.Errorf("commit %s has %s, and not its outbox copy", id, name)
			}
		}
	}
}

// TestTimeLimit checks that a program that signs, and asks somebody, does not hold a commit for ever,
// and that git leaves no lock.
func TestTimeLimit(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs a shell")
	}
	w, r := newRepository(t)
	send(t, w, 1)
	asks := filepath.Join(t.TempDir(), "asks")
	if err := os.WriteFile(asks, []byte("#!/bin/sh\n>"+asks+".began\nsleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	gittest.Run(t, w.Dir(), "config", "commit.gpgsign", "true")
	gittest.Run(t, w.Dir(), "config", "gpg.program", asks)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(asks + ".began"); err == nil {
				cancel(context.DeadlineExceeded)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := r.Commit(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want context.DeadlineExceeded", err)
	}
	if _, err := os.Lstat(r.lock); err == nil {
		t.Error("the index is still locked")
	}
	if staged := gittest.Run(t, w.Dir(), "diff", "--cached", "--name-only"); staged != "" {
		t.Errorf("staged are:\n%s", staged)
	}
}

// BenchmarkCommit measures commits of new messages, and of nothing.
func BenchmarkCommit(b *testing.B) {
	for _, count := range []int{0, 1, 1000, 10000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			w, r := newRepository(b)
			for b.Loop() {
				b.StopTimer()
				send(b, w, count)
				b.StartTimer()
				if _, err := r.Commit(b.Context(), ""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
