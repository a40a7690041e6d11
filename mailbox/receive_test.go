package mailbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// newMachine makes a workspace with a git repository of its own and the agents claude, codex and
// gemini.
func newMachine(t testing.TB) *Workspace {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	return newWorkspaceIn(t, dir, "claude", "codex", "gemini")
}

// sentElsewhere sends a message on another machine and returns it as this one receives it, pending
// for all of its recipients.
func sentElsewhere(t testing.TB, m schema.Message) Received {
	t.Helper()
	return exported(t, send(t, newMachine(t), m))
}

// exported returns a sent message as another machine receives it.
func exported(t testing.TB, r *Receipt) Received {
	t.Helper()
	return Received{
		From: r.Message.From, Name: filepath.Base(r.Outbox), Data: []byte(check.ReadFile(t, r.Outbox)), Pending: r.Message.To,
	}
}

// receive receives a file and fails the test if it is refused.
func receive(t testing.TB, w *Workspace, file Received) *Receipt {
	t.Helper()
	got := w.Receive(t.Context(), []Received{file})[0]
	if got.Err != nil {
		t.Fatalf("receiving %s: %v", file.Name, got.Err)
	}
	return got.Receipt
}

// wantReceived checks that the outbox and the inboxes of the agents, and no others, have the file.
func wantReceived(t testing.TB, w *Workspace, file Received, agents ...schema.AgentName) {
	t.Helper()
	wantFiles(t, w, schema.BoxPath(file.From, Outbox), file.Name)
	for _, agent := range []schema.AgentName{"codex", "gemini"} {
		var want []string
		if slices.Contains(agents, agent) {
			want = []string{file.Name}
		}
		wantFiles(t, w, schema.BoxPath(agent, Inbox), want...)
		for _, name := range want {
			if got := check.ReadFile(t, filepath.Join(w.BoxPath(agent, Inbox), name)); got != string(file.Data) {
				t.Errorf("the inbox of %s has %q, want %q", agent, got, file.Data)
			}
		}
	}
	wantFiles(t, w, outgoingName)
}

func TestReceive(t *testing.T) {
	for _, pending := range [][]schema.AgentName{{"codex", "gemini"}, {"gemini"}, {}} {
		w := newMachine(t)
		file := sentElsewhere(t, faultDraft(false))
		file.Pending = pending
		r := receive(t, w, file)
		if r.AlreadySent || len(r.Inboxes) != len(pending) || filepath.Base(r.Outbox) != file.Name {
			t.Errorf("the receipt is %+v, want a new message in %v", r, pending)
		}
		wantReceived(t, w, file, pending...)

		// Once it is here, it arrives nowhere again.
		takeAll(t, w.dir, map[schema.AgentName]int{})
		file.Pending = []schema.AgentName{"codex", "gemini"}
		if r := receive(t, w, file); !r.AlreadySent {
			t.Error("the receipt does not say that the message was here")
		}
		wantReceived(t, w, file)
	}
}

// TestReceiveAdoptsAnInboxFile receives a message whose inbox copy is here, and whose outbox copy is
// not: with and without a pending recipient, and under the file name of another tool.
func TestReceiveAdoptsAnInboxFile(t *testing.T) {
	for _, pending := range [][]schema.AgentName{nil, {"codex"}} {
		w := newMachine(t)
		file := sentElsewhere(t, draft("codex"))
		file.Name = "20260313143007_claude_task_request_k2f9.yaml"
		file.Pending = pending
		path := filepath.Join(w.BoxPath("codex", Inbox), file.Name)
		check.WriteFile(t, path, string(file.Data))
		before, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		receive(t, w, file)
		wantReceived(t, w, file, "codex")
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
			t.Errorf("the inbox file is %+v (%v), want it untouched", after, err)
		}
	}
}

// TestReceiveKeepsBytes receives files that we would write in another way.
func TestReceiveKeepsBytes(t *testing.T) {
	file := sentElsewhere(t, draft("codex"))
	plain := string(file.Data)
	for name, data := range map[string]string{
		"carriage returns": strings.ReplaceAll(plain, "\n", "\r\n"),
		"byte order mark":  "\ufeff" + plain,
		"comment":          "# by hand\n" + plain,
		"no priority":      strings.Replace(plain, "priority: P2\n", "", 1),
	} {
		if data == plain {
			t.Fatalf("%s: nothing changed in %q", name, plain)
		}
		w := newMachine(t)
		file.Data = []byte(data)
		receive(t, w, file)
		wantReceived(t, w, file, "codex")
	}
}

func TestReceiveMakesMailboxes(t *testing.T) {
	elsewhere := newMachine(t)
	m := draft("codex", "zoe")
	m.From = "mia"
	r, err := elsewhere.Send(t.Context(), m, &SendOptions{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	notice := draft("codex")
	notice.From, notice.Type = Postmaster, schema.Notification
	n, err := elsewhere.Send(t.Context(), notice, &SendOptions{Notices: true})
	if err != nil {
		t.Fatal(err)
	}
	// Earlier versions sent answers to notices.
	answer := exported(t, send(t, elsewhere, draft("codex")))
	answer.Data = bytes.Replace(answer.Data, []byte("to: codex"), []byte("to: "+Postmaster), 1)
	answer.Pending = []schema.AgentName{Postmaster}

	w := newMachine(t)
	for _, file := range []Received{exported(t, r), answer, exported(t, n)} {
		receive(t, w, file)
	}
	wantFiles(t, w, schema.BoxPath(Postmaster, Inbox), answer.Name)
	wantFiles(t, w, "agents", "claude", "codex", "gemini", "mia", string(Postmaster), "zoe")
	for _, r := range []*Receipt{r, n} {
		for _, path := range append(r.Inboxes, r.Outbox) {
			if here := strings.Replace(path, elsewhere.dir, w.dir, 1); check.ReadFile(t, here) != check.ReadFile(t, path) {
				t.Errorf("%s differs from %s", here, path)
			}
		}
	}

	// An agent that has acknowledged needs no mailbox here.
	file := exported(t, r)
	file.Pending = []schema.AgentName{"codex"}
	w = newMachine(t)
	receive(t, w, file)
	wantFiles(t, w, "agents", "claude", "codex", "gemini", "mia")
}

func TestReceiveRefuses(t *testing.T) {
	good := sentElsewhere(t, draft("codex", "gemini"))
	other := sentElsewhere(t, draft("codex"))
	var invalid *validate.InvalidError
	var same *SameNameError
	tests := []struct {
		name   string
		change func(*Received)
		as     any
		is     error
		words  []string
	}{
		{name: "name", change: func(r *Received) { r.Name = "hello.yaml" }, words: []string{"hello.yaml"}},
		{name: "path", change: func(r *Received) { r.Name = "../" + r.Name }, words: []string{".."}},
		{name: "path behind", change: func(r *Received) { r.Name = strings.Replace(r.Name, ".yaml", "_a/b.yaml", 1) }, words: []string{"_a/b"}},
		{name: "hidden", change: func(r *Received) { r.Name = "." + r.Name }, words: []string{`".2026`}},
		{name: "no extension", change: func(r *Received) { r.Name += ".tmp" }, words: []string{".yaml"}},
		{name: "type in the name", change: func(r *Received) { r.Name = strings.Replace(r.Name, "task_request", "question", 1) }, words: []string{"of type task_request"}},
		{name: "minute in the name", change: func(r *Received) { r.Name = strings.Replace(r.Name, "T1430", "T1431", 1) }, words: []string{"created at 2026-03-13T14:30"}},
		{name: "sender in the name", change: func(r *Received) { r.Name = strings.Replace(r.Name, "claude", "gemini", 1) }, words: []string{"outbox of claude"}},
		{name: "sender", change: func(r *Received) { r.From = "gemini" }, words: []string{"outbox of gemini", "from claude"}},
		{name: "recipient", change: func(r *Received) { r.Pending = []schema.AgentName{"codex", "mia"} }, words: []string{"not for mia"}},
		{name: "garbage", change: func(r *Received) { r.Data = []byte("\x00garbage") }, as: &invalid},
		{name: "half", change: func(r *Received) { r.Data = r.Data[:len(r.Data)/2] }, as: &invalid},
		{name: "nothing", change: func(r *Received) { r.Data = nil }, as: &invalid},
		{name: "size", change: func(r *Received) {
			r.Data = append(slices.Clone(r.Data), "# "+strings.Repeat("x", schema.MaxFileSize)+"\n"...)
		}, words: []string{"at most"}},
		{name: "other case", change: func(r *Received) {
			r.From, r.Pending = "Claude", nil
			r.Name = strings.Replace(r.Name, "claude", "Claude", 1)
			r.Data = []byte(strings.ReplaceAll(string(r.Data), "from: claude", "from: Claude"))
		}, as: &same},
		{name: "other case of a recipient", change: func(r *Received) {
			r.Pending = []schema.AgentName{"Codex"}
			r.Data = []byte(strings.ReplaceAll(string(r.Data), "codex", "Codex"))
		}, as: &same},
		{name: "taken", change: func(r *Received) { r.Name = other.Name }, words: []string{"another file of this name"}},
		{name: "id taken", change: func(r *Received) {
			r.Name, r.Pending = strings.Replace(other.Name, ".yaml", "_again.yaml", 1), other.Pending
			r.Data = append(slices.Clone(other.Data), "# other bytes\n"...)
		}, is: ErrIDTaken},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newMachine(t)
			file := good
			test.change(&file)
			here := other
			here.Pending = nil
			outbox := receive(t, w, here).Outbox
			before := tree(t, w)
			// A file that is refused does not hold up the others.
			results := w.Receive(t.Context(), []Received{file, other})
			err := results[0].Err
			if check.Error(t, err, test.words...); results[0].Receipt != nil {
				t.Errorf("the receipt is %+v, want none", results[0].Receipt)
			}
			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Name != file.Name {
				t.Errorf("receiving gave %v, want a RefusedError", err)
			}
			if test.as != nil && !errors.As(err, test.as) || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("receiving gave %v, want a %T or %v", err, test.as, test.is)
			}
			if results[1].Err != nil || !results[1].Receipt.AlreadySent {
				t.Errorf("the other file gave %+v, want it here already", results[1])
			}
			if after := tree(t, w); after != before || check.ReadFile(t, outbox) != string(other.Data) {
				t.Errorf("the workspace was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// TestLongNamesInAGitWorkspace sends in a workspace with a git repository of its own, or a file that
// leads to one, or in a folder of a repository with rules for git in agents.
func TestLongNamesInAGitWorkspace(t *testing.T) {
	check.NeedsExclusiveRename(t)
	t.Setenv("GIT_CEILING_DIRECTORIES", os.TempDir())
	around := func(dir string) error {
		git := filepath.Join(filepath.Dir(dir), ".git")
		return errors.Join(os.Mkdir(git, 0o755), os.WriteFile(filepath.Join(git, "HEAD"), nil, 0o644))
	}
	attributes := func(dir string) error {
		agents := filepath.Join(dir, "agents")
		return errors.Join(os.MkdirAll(agents, 0o755), os.WriteFile(filepath.Join(agents, ".gitattributes"), nil, 0o644))
	}
	for _, test := range []struct {
		make func(dir string) error
		long bool
	}{
		{func(dir string) error { return os.Mkdir(filepath.Join(dir, ".git"), 0o755) }, true},
		{func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ".git"), []byte("gitdir: ../x\n"), 0o644)
		}, true},
		{around, false},
		{attributes, false},
		{func(dir string) error { return errors.Join(around(dir), attributes(dir)) }, true},
	} {
		dir := filepath.Join(t.TempDir(), "mail")
		if err := errors.Join(os.Mkdir(dir, 0o755), test.make(dir)); err != nil {
			t.Fatal(err)
		}
		w := newWorkspaceIn(t, dir, "claude", "codex")
		m, _, _, err := w.Compose(draft("codex"), nil)
		if parts, _ := schema.ParseID(m.ID); err != nil || (len(parts.Rand) == schema.LongRand) != test.long {
			t.Errorf("Compose gave the id %s (%v), want a long one: %t", m.ID, err, test.long)
		}
		r := send(t, openWorkspace(t, dir), draft("codex")) // with a clock of its own
		want := r.Message.FileName()
		if test.long {
			var err error
			if want, err = r.Message.LongFileName(); err != nil {
				t.Fatal(err)
			}
		}
		parts, err := schema.ParseID(r.Message.ID)
		if err != nil || (len(parts.Rand) == schema.LongRand) != test.long {
			t.Errorf("the id is %s (%v), want a long one: %t", r.Message.ID, err, test.long)
		}
		for _, path := range append(r.Inboxes, r.Outbox) {
			if filepath.Base(path) != want {
				t.Errorf("the file is %s, want %s", path, want)
			}
		}
	}
}

// TestReceiveWithoutExclusiveRename receives a short file name, which the workspace had before it got
// its repository, on a file system without an exclusive rename.
func TestReceiveWithoutExclusiveRename(t *testing.T) {
	file := exported(t, send(t, newWorkspace(t, "claude", "codex", "gemini"), faultDraft(false)))
	w := newMachine(t)
	w.files = notExclusive{durable.Disk{}}
	receive(t, w, file)
	wantReceived(t, w, file, "codex", "gemini")
}

// TestReceiveMany receives more than fits in a batch, with files among them that are refused or come
// twice.
func TestReceiveMany(t *testing.T) {
	sent, _ := manyElsewhere(t, 300, 0)
	bad := sent[7]
	bad.Data = bad.Data[:100]
	w := newMachine(t)
	w.files = durable.Disk{}
	results := w.Receive(t.Context(), slices.Concat(sent[:150], []Received{bad, sent[3]}, sent[100:]))
	for i, got := range results {
		again := i == 151 || 152 <= i && i < 202
		switch {
		case (got.Err != nil) != (i == 150):
			t.Errorf("file %d gave %v", i, got.Err)
		case i != 150 && got.Receipt.AlreadySent != again:
			t.Errorf("file %d was here already: %t, want %t", i, got.Receipt.AlreadySent, again)
		}
	}
	for _, box := range []string{"agents/claude/outbox", "agents/codex/inbox", "agents/gemini/inbox"} {
		if got := len(listed(files(t, w, box))); got != len(sent) {
			t.Errorf("%s has %d files, want %d", box, got, len(sent))
		}
	}
}

// TestReceiveOneIDOften receives messages of one id from many senders: none holds up the others.
func TestReceiveOneIDOften(t *testing.T) {
	w := newMachine(t)
	var sent []Received
	for i := range 2 * deliveryRounds {
		m, data, _, err := w.Compose(faultDraft(true), nil)
		if err != nil {
			t.Fatal(err)
		}
		from := schema.AgentName(fmt.Sprintf("sender%d", i))
		sent = append(sent, Received{
			From: from, Name: strings.Replace(m.FileName(), "claude", string(from), 1),
			Data: []byte(strings.Replace(string(data), "from: claude", "from: "+string(from), 1)), Pending: m.To,
		})
	}
	for i, got := range w.Receive(t.Context(), sent) {
		if got.Err != nil {
			t.Errorf("message %d: %v", i, got.Err)
		}
	}
	wantFiles(t, w, outgoingName)
	if got := len(files(t, w, "agents/codex/inbox")); got != len(sent) {
		t.Errorf("the inbox has %d messages, want %d", got, len(sent))
	}
}

// TestReceiveEndsWithItsContext cancels before the commit: nothing is left behind.
func TestReceiveEndsWithItsContext(t *testing.T) {
	w := newMachine(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.files = &interrupted{part: "@codex@inbox", happen: cancel}
	sent, _ := manyElsewhere(t, 300, 0)
	results := w.Receive(ctx, sent)
	arrived := 0
	for _, got := range results {
		if got.Err == nil {
			arrived++
		} else if !errors.Is(got.Err, context.Canceled) {
			t.Errorf("receiving gave %v, want the context's error", got.Err)
		}
	}
	if arrived == 0 || arrived == len(sent) {
		t.Errorf("%d of %d messages arrived, want the first batch", arrived, len(sent))
	}
	for _, box := range []string{"agents/claude/outbox", "agents/codex/inbox", "agents/gemini/inbox"} {
		if got := len(files(t, w, box)); got != arrived {
			t.Errorf("%s has %d files, want %d", box, got, arrived)
		}
	}
	wantFiles(t, w, outgoingName)
}

// TestReceiveWhatIsHandledMeanwhile receives a message whose file is in the inbox, and handles it
// before the message is committed: it does not come back.
func TestReceiveWhatIsHandledMeanwhile(t *testing.T) {
	w := newMachine(t)
	file := sentElsewhere(t, draft("codex"))
	path := filepath.Join(w.BoxPath("codex", Inbox), file.Name)
	check.WriteFile(t, path, string(file.Data))
	w.files = &interrupted{part: "@claude@outbox", happen: func() { check.Remove(t, path) }}
	receive(t, w, file)
	wantReceived(t, w, file)
}
