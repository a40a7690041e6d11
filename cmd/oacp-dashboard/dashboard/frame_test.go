package dashboard

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/clipperhouse/displaywidth"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/pair"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

var update = flag.Bool("update", false, "write the golden files anew")

// checkGolden compares a text with a file in testdata.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got:\n%s\nwant:\n%s", name, got, want)
	}
}

// sample is a snapshot with one of everything, hostile text included.
func sample() Snapshot {
	now := time.Date(2026, 3, 4, 10, 20, 30, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	running := track.AgentStatus{Agent: "codex", Running: true, Pending: 2, InTurn: []track.Turn{
		{Envelope: track.Envelope{From: "claude", Subject: "Fix the \x1b[31mred\x1b[0m test\nnow"}, Started: ago(75 * time.Second)},
	}}
	failing := track.AgentStatus{Agent: "gemini", Running: true, Failures: 2, DeadLetters: 1, Last: &track.Turn{Reason: "the command ended with exit status 3"}}
	s := Snapshot{At: now}
	w := Workspace{Dir: "/w", Project: "shop", Agents: []Agent{
		{AgentStatus: track.AgentStatus{Agent: "claude"}, Activity: ago(3 * time.Second), presence: []string{"waiting in oacp next for 4m"}},
		{AgentStatus: running, Inbox: 2, Activity: ago(75 * time.Second)},
		{AgentStatus: failing, Inbox: 12345, Activity: ago(50 * time.Hour)},
		{AgentStatus: track.AgentStatus{Agent: "a-very-long-name-of-an-agent-indeed", Running: true}, presence: []string{"a live session of claude is idle", "oacp run works the inbox"}},
	}}
	for i := range 30 {
		m := Message{
			ID: schema.ID(fmt.Sprintf("msg-20260304T10%02dZ-claude-ab%02d", i, i)), From: "claude", To: []schema.AgentName{"codex"},
			Stage: track.StageDone, Type: schema.TaskRequest, Priority: schema.P1, CreatedAt: schema.NewTimestamp(now.Add(time.Duration(i-30) * time.Minute)),
			Subject: fmt.Sprintf("Message %d, whose subject is 漢字 and long enough to be cut on every terminal that is not wide", i),
		}
		if i > 27 {
			m.Stage = track.StageWaiting
			m.Subject = "\u202eevil\x1b]0;title\a"
		}
		if i == 27 {
			m.Stage = track.StageDead
		}
		w.Messages = append(w.Messages, m)
	}
	s.Workspaces = []Workspace{w}
	s.Runs = []Run{
		{ID: 2, State: pair.Reviewing, Turns: []pair.Agent{pair.Claude, pair.Codex}, Iteration: 3, MaxIterations: 20, Updated: ago(time.Minute), Prompt: "Fix the failing test",
			Bridge: bridge.Status{HasDoneSignal: true, FailCount: 2}, CostUSD: 1.5, Tokens: 61000},
		{ID: 1, State: pair.Failed, Iteration: 20, MaxIterations: 20, Updated: ago(26 * time.Hour), Prompt: "Port to Windows",
			Error: "not done after 20 iterations", Tokens: 123456},
		{ID: 3, State: pair.Reviewing, Driven: new(bool), Turns: []pair.Agent{pair.Codex}, Iteration: 1, MaxIterations: 20, Updated: ago(49 * time.Hour), Prompt: "Be killed"},
		{ID: 4, State: stateLog, Updated: ago(50 * time.Hour), Bridge: bridge.Status{PassCount: 1}},
	}
	return s
}

func TestFrame(t *testing.T) {
	for _, width := range []int{0, 60, 80, 120} {
		frame := frame(sample(), width)
		checkGolden(t, fmt.Sprintf("frame_%d.txt", width), frame)
		checkPlain(t, frame, width)
	}
	checkGolden(t, "frame_empty.txt", frame(Snapshot{At: sample().At}, 80))
}

func TestCost(t *testing.T) {
	tests := []struct {
		cost   float64
		tokens int64
		want   string
	}{
		{0, 0, ""},
		{0.004, 0, "<$0.01"},
		{0.12, 40_000, "$0.12"},
		{0, 12_345_678, "12M tok"},
	}
	for _, test := range tests {
		if got := (Run{CostUSD: test.cost, Tokens: test.tokens}).cost(); got != test.want {
			t.Errorf("the cost of $%g and %d tokens is %q, want %q", test.cost, test.tokens, got, test.want)
		}
	}
}

// checkPlain checks that text does nothing to a terminal and fits its width.
func checkPlain(t *testing.T, frame string, width int) {
	t.Helper()
	for line := range strings.Lines(frame) {
		line = strings.TrimSuffix(line, "\n")
		if strings.ContainsAny(line, "\x1b\a\r\u202e") {
			t.Errorf("line %q holds control characters, want none", line)
		}
		if got := displaywidth.String(line); width > 0 && got > width {
			t.Errorf("line %q is %d columns wide, want at most %d", line, got, width)
		}
	}
}

func TestFrameProblemsAndSeveral(t *testing.T) {
	s := sample()
	other := Workspace{Dir: "/somewhere/else", Problem: "permission denied", Messages: s.Workspaces[0].Messages[:1]}
	s.Workspaces = append(s.Workspaces, other)
	s.Runs = append(s.Runs, Run{ID: 7, RepositoryID: "0123456789abcdef", Problem: "the manifest is damaged"})
	s.Problem = "no permission for runs"
	checkGolden(t, "frame_several.txt", frame(s, 100))
}
