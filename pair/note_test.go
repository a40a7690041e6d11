package pair

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/testing/gittest"
)

// noted runs a session and returns its entries of some types, each with what it says.
func noted(t *testing.T, s *Session, types ...EntryType) (texts []string) {
	t.Helper()
	s.options.Observe = func(e Entry) {
		if slices.Contains(types, e.Type) {
			texts = append(texts, strings.TrimSpace(fmt.Sprintf("%s %s%s %s", e.Agent, e.Content, e.Signal, e.Reason)))
		}
	}
	var failed *FailedError
	if err := s.Run(t.Context()); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return texts
}

// TestVerdicts checks what is noted of the end of each turn: the reason for a FAIL, and what follows
// if there is neither word.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	var calls []call
	s := newSession(t, Settings{Prompt: "x", Review: ReviewClaude, MaxIterations: 3, Proof: "true"}, lines(t, &calls,
		"codex: a start", "claude: \nOne.\n\nTwo.\n**FAIL**", "codex: DONE", "claude: so so", "codex: DONE", "claude: PASS"))
	want := []string{
		"codex codex says neither DONE nor FAIL; its work is reviewed without the proof a start",
		"claude FAIL One.\nTwo.",
		"codex DONE",
		"claude claude says neither PASS nor FAIL, which counts as FAIL so so",
		"codex DONE", "claude PASS",
	}
	if got := noted(t, s, EntrySignal, EntryUnclear); !reflect.DeepEqual(got, want) {
		t.Errorf("noted:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if m := s.Manifest(); m.Verdict == nil || *m.Verdict != (Verdict{Claude, bridge.SignalPass}) || m.Spent.Turns != 6 || m.Spent.InputTokens != 6 {
		t.Errorf("verdict %+v after %+v, want the PASS of claude after 6 turns", m.Verdict, m.Spent)
	}
}

// TestRetriesAreSparse checks which of the times that a program asks the service again are noted.
func TestRetriesAreSparse(t *testing.T) {
	t.Parallel()
	s := newSession(t, Settings{Prompt: "x", Review: ReviewNone}, scripted(func(c call) (string, error) {
		for range 9 {
			c.observe(agent.Event{Text: "again\n", Acts: []agent.Act{{Kind: agent.Retry, Text: "again"}}})
		}
		c.observe(agent.Event{Acts: []agent.Act{{Kind: agent.ToolCall, Text: "Read: x"}, {Kind: agent.ToolCall, Text: "Read: y"}}})
		return "DONE", nil
	}))
	want := []string{
		"codex again", "codex again (2 times so far)", "codex again (4 times so far)", "codex again (8 times so far)",
		"codex Read: x", "codex Read: y",
	}
	if got := noted(t, s, EntryRetry, EntryTool, EntryEvent); !reflect.DeepEqual(got, want) {
		t.Errorf("noted %q, want %q", got, want)
	}
}

// TestBeginning checks which lines of an answer are shown as its reason.
func TestBeginning(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", maxReason)
	for answer, want := range map[string]string{
		"":                              "",
		"FAIL":                          "",
		"\n\n a\n\nb  \r\nFAIL.":        "a\nb",
		"1\n2\n3\n4\n5\n6\n7\nFAIL":     "1\n2\n3\n4\n5\n6\n…",
		"1\n2\n3\n4\n5\n6\nFAIL":        "1\n2\n3\n4\n5\n6",
		"the tests FAIL":                "the tests FAIL",
		long + "\nFAIL":                 long[:maxReason] + "…",
		"PASS\nis what I cannot say\n*": "PASS\nis what I cannot say\n*",
	} {
		if got := beginning(answer, "DONE"); got != want {
			t.Errorf("beginning(%q) = %q, want %q", answer, got, want)
		}
	}
}

// TestSideBySide checks that an obstacle in one review stops the other, and that both are repeated.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	begun := make(chan bool, 2)
	broken := true
	answer := func(c call) (string, error) {
		switch {
		case slices.Contains(c.request.Env, "OACP_ROLE=worker"):
			return "DONE", nil
		case !broken:
			return "PASS", nil
		}
		begun <- true
		if c.agent == Claude {
			for len(begun) < 2 {
				if c.ctx.Err() != nil {
					return "", errors.New("the other review did not begin")
				}
			}
			return "", fmt.Errorf("%w: no login", agent.ErrUnavailable)
		}
		<-c.ctx.Done()
		return "", context.Cause(c.ctx)
	}
	s := newSession(t, Settings{Prompt: "x"}, scripted(answer))
	if err := s.Run(t.Context()); !errors.Is(err, agent.ErrUnavailable) || !strings.HasPrefix(err.Error(), "claude: ") {
		t.Fatalf("error %v, want that of claude", err)
	}
	broken = false
	got := noted(t, s, EntryResume)
	if want := []string{"claude's review was cut off and is given again, codex's review was cut off and is given again"}; !reflect.DeepEqual(got, want) {
		t.Errorf("noted %q, want %q", got, want)
	}
	if m := s.Manifest(); m.State != Complete || m.CurrentIteration != 1 {
		t.Errorf("state %s in iteration %d, want it completed in 1", m.State, m.CurrentIteration)
	}
}

// TestSummary checks that the end of a run tells what has changed since its start, and nothing that
// had changed before.
func TestSummary(t *testing.T) {
	t.Parallel()
	repository := newRepository(t)
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(repository, name), []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	put("before", "1\n")
	put("tracked", "1\n")
	gittest.Run(t, repository, "add", "tracked")
	gittest.Run(t, repository, "commit", "--quiet", "-m", "tracked")
	put("tracked", "1\n2\n")
	put("staged", "1\n")
	gittest.Run(t, repository, "add", "staged")
	old, err := os.Stat(filepath.Join(repository, "before"))
	if err == nil {
		past := old.ModTime().AddDate(0, 0, -1)
		err = os.Chtimes(filepath.Join(repository, "before"), past, past)
	}
	if err != nil {
		t.Fatal(err)
	}
	options := scripted(func(call) (string, error) {
		put("tracked", "1\n2\n3\n")
		put("a new\tfile", "1\n")
		gittest.Run(t, repository, "commit", "--quiet", "-a", "-m", "work")
		return "DONE", nil
	})
	var summary *Summary
	options.Observe = func(e Entry) {
		if e.Type == EntryEnd {
			summary = e.Summary
		}
	}
	s, err := Create(t.TempDir(), repository, Settings{Prompt: "x", Review: ReviewNone}, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	want := []Change{{Path: "a new\tfile", Untracked: true}, {Path: "tracked", Added: 1}}
	if summary == nil || !reflect.DeepEqual(summary.Changes, want) || summary.Folder != repository || summary.Spent.Turns != 1 {
		t.Errorf("summary %+v, want the changes %+v", summary, want)
	}
	if out := gittest.Run(t, repository, "stash", "list"); out != "" {
		t.Errorf("the run left the stash %q", out)
	}
}
