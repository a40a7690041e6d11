package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/search"
)

// TestListWithIndex checks that oacp list --text finds the same with the index of oacp web, without it, and if it is of no
// use.
func TestListWithIndex(t *testing.T) {
	w := mailboxtest.New(t, "claude", "codex", "gemini")
	r := rand.New(rand.NewPCG(1, 2))
	place := func(agent schema.AgentName, box mailbox.Box, second int, body string) {
		m := mailboxtest.Message(fmt.Sprintf("%016x", second), second%60)
		m.Subject, m.Body, m.To = fmt.Sprint("Subject ", second), schema.TextValue(body), []schema.AgentName{"codex", "gemini"}
		name, err := m.LongFileName()
		if err != nil {
			t.Fatal(err)
		}
		mailboxtest.Place(t, w, agent, box, name, m)
	}
	for i := range 100 { // the index has to be large
		body := make([]byte, 20_000)
		for j := range body {
			body[j] = "etaoinshrdlucmfwypvbgkjqxz"[r.IntN(26)]
		}
		place("gemini", mailbox.Archive, i, string(body))
	}
	place("claude", mailbox.Outbox, 160, "The  Retry of\nÉMILE's port  §")
	place("codex", mailbox.Inbox, 160, "The  Retry of\nÉMILE's port  §")
	place("gemini", mailbox.DeadLetters, 161, "retry dead § port")
	check.WriteFile(t, filepath.Join(w.Dir(), "agents", "codex", "config.yaml"), "signing:\n  verify_mode: enforce\n") // codex's copy is held
	place("codex", mailbox.Inbox, 162, "zurückgehalten retry")
	place("claude", mailbox.Inbox, 163, "one § two\tthree")
	check.WriteFile(t, filepath.Join(w.BoxPath("claude", mailbox.Inbox), "retry.yaml"), "retry: [")

	index := filepath.Join(w.Dir(), filepath.FromSlash(searchIndex))
	list := func(text string) string {
		t.Helper()
		listing := exec.Command("oacp", "list", "--dir", w.Dir(), "--text", text, "--json")
		var stderr bytes.Buffer
		listing.Stderr = &stderr
		out, err := listing.Output()
		if err != nil || stderr.Len() > 0 {
			t.Fatalf("%q: %v\n%s", text, err, stderr.String())
		}
		return string(out)
	}
	texts := []string{"retry", "  Retry   port ", "of Émile's", "§", "e", "three two", "retry dead", "zurückgehalten", "nowhere", "-x", "Subject 16"}
	want := make(map[string]string)
	for _, text := range texts {
		want[text] = list(text)
	}
	for text, count := range map[string]int{"retry": 2, "§": 3, "zurückgehalten": 0, "nowhere": 0} {
		if strings.Count(want[text], `"subject"`) != count {
			t.Errorf("%q: got %s", text, want[text])
		}
	}
	if filesWith(t.Context(), w, "retry") != nil {
		t.Fatal("there is an index at first")
	}
	compare := func(what string) {
		t.Helper()
		for _, text := range texts {
			if got := list(text); got != want[text] {
				t.Errorf("%s, %q: got %s\nwant %s", what, text, got, want[text])
			}
		}
	}
	x := search.New(w, nil)
	defer x.Close()
	if err := x.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	compare("with the index")
	may := filesWith(t.Context(), w, "retry")
	if may == nil || may("20260313T1430Z_claude_task_request_00000000000000a3.yaml") || !may("20260313T1430Z_claude_task_request_00000000000000a0.yaml") {
		out, err := exec.Command(command.FindSeparate("web"), "--dir="+w.Dir(), "--files-with=retry").CombinedOutput()
		t.Fatalf("the index is not used: %.500s, %v", out, err)
	}
	lock := durable.NewLock(filepath.Join(filepath.Dir(index), "lock"))
	if locked, err := lock.TryLock(); err != nil || !locked {
		t.Fatal(locked, err)
	}
	compare("while another process updates it")
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(index, bytes.Repeat([]byte("garbage "), worthwhile/8), 0o600); err != nil {
		t.Fatal(err)
	}
	compare("with a damaged index")
	t.Setenv("PATH", t.TempDir())
	if filesWith(t.Context(), w, "retry") != nil {
		t.Error("there is an answer without the program")
	}
}
