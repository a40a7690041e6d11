package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/pair"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

func send(t *testing.T, w *mailbox.Workspace, subject string) *mailbox.Receipt {
	t.Helper()
	receipt, err := w.Send(t.Context(), schema.Message{
		From: "claude", To: []schema.AgentName{"codex"}, Type: schema.TaskRequest, Subject: subject, Body: schema.TextValue("text"),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

func gather(t *testing.T, s *source) Snapshot {
	t.Helper()
	snapshot, err := s.gather(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

// TestGatherFollows checks that a source follows the changes of a workspace.
func TestGatherFollows(t *testing.T) {
	w := mailboxtest.New(t, "claude", "codex")
	s := &source{Workspaces: []*mailbox.Workspace{w}, Zone: time.UTC}
	if got := gather(t, s).Workspaces[0]; len(got.Agents) != 2 || len(got.Messages) != 0 || got.Agents[1].Inbox != 0 {
		t.Fatalf("the empty workspace is %+v", got)
	}
	first := send(t, w, "first")
	second := send(t, w, "second")
	got := gather(t, s).Workspaces[0]
	if inbox := got.Agents[1].Inbox; inbox != 2 || len(got.Messages) != 2 {
		t.Fatalf("inbox is %d and messages are %+v, want 2 of each", inbox, got.Messages)
	}
	if m := got.Messages[0]; len(m.Stages) != 1 || m.Stages["codex"] != track.StageWaiting {
		t.Errorf("the stages are %v, want waiting for codex", m.Stages)
	}
	if got.Agents[0].Activity.IsZero() || got.Agents[1].Activity.IsZero() {
		t.Errorf("activity is %v and %v, want times", got.Agents[0].Activity, got.Agents[1].Activity)
	}
	entry, err := w.Pending(t.Context(), string(first.Message.ID), "codex")
	if err := errors.Join(err, w.Acknowledge(entry)); err != nil {
		t.Fatal(err)
	}
	got = gather(t, s).Workspaces[0]
	waiting := 0
	for _, m := range got.Messages {
		if m.Stage == track.StageWaiting {
			waiting++
		}
	}
	if got.Agents[1].Inbox != 1 || len(got.Messages) != 2 || waiting != 1 {
		t.Errorf("after one is acknowledged: inbox %d, messages %d, waiting %d, want 1, 2, 1", got.Agents[1].Inbox, len(got.Messages), waiting)
	}
	entry, err = w.Pending(t.Context(), string(second.Message.ID), "codex")
	letter := ""
	if err == nil {
		letter, err = w.DeadLetter(entry, mailbox.DeadLetterReason{Reason: "no such host"})
	}
	if err != nil {
		t.Fatal(err)
	}
	if m := gather(t, s).Workspaces[0].Messages[1]; m.stageText() != "dead" {
		t.Errorf("the dead letter is %s, %+v", m.stageText(), m)
	}
	if err := os.Rename(letter, entry.Path); err != nil { // somebody puts it back
		t.Fatal(err)
	}
	if m := gather(t, s).Workspaces[0].Messages[1]; m.stageText() != "waiting" {
		t.Errorf("the message that is back in the inbox is %s, %+v", m.stageText(), m)
	}
}

// TestOrderWithinASecond checks that messages of the same second keep the order in which they were
// sent, in the list and in their conversation.
func TestOrderWithinASecond(t *testing.T) {
	w := mailboxtest.New(t, "claude", "codex")
	now := time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)
	var want []string
	var first *mailbox.Receipt
	for i := range 12 {
		m := schema.Message{
			From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Question, Subject: fmt.Sprint(i), Body: schema.TextValue("text"),
			CreatedAt: schema.NewTimestamp(now), ConversationID: "conv-20260304-claude-1",
		}
		receipt, err := w.Send(t.Context(), m, nil)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, m.Subject)
		if first == nil {
			first = receipt
		}
	}
	s := &source{Workspaces: []*mailbox.Workspace{w}, Zone: time.UTC}
	var listed, told []string
	for _, m := range gather(t, s).Workspaces[0].Messages {
		listed = append(listed, m.Subject)
	}
	for _, e := range s.read(t.Context(), target{message: first.Message.ID}).entries {
		told = append(told, e.subject)
	}
	if fmt.Sprint(listed) != fmt.Sprint(want) || fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("the list is %v and the conversation is %v, want %v in both", listed, told, want)
	}
}

func TestGatherRun(t *testing.T) {
	root, repository := t.TempDir(), t.TempDir()
	id, err := bridge.RepositoryID(repository)
	if err != nil {
		t.Fatal(err)
	}
	run, err := bridge.MakeRun(root, repository, 3, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s := &source{RunsRoot: root, RepositoryIDs: []string{id}}
	if got := gather(t, s).Runs; len(got) != 1 || got[0].ID != 3 || got[0].State != stateLog || got[0].Problem != "" {
		t.Fatalf("runs are %+v, want run 3, only a log", got)
	}
	// AgentPair names the agent that works.
	manifest := fmt.Sprintf(`{"id":3,"repo_path":%q,"prompt":"mend it","primary_agent":"claude","state":"working"}`, repository)
	if err := os.WriteFile(run.ManifestPath(), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := gather(t, s).Runs[0]; got.State != pair.Working || got.Prompt != "mend it" {
		t.Errorf("AgentPair's run is %+v, want it working", got)
	}
	log, err := run.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = log.Send(t.Context(), bridge.Record{Type: bridge.TypeSignal, From: "claude", To: "codex", Signal: bridge.SignalPass})
	if err := errors.Join(err, log.Close()); err != nil {
		t.Fatal(err)
	}
	if got := gather(t, s).Runs[0]; got.Bridge.PassCount != 1 {
		t.Errorf("run is %+v, want one PASS", got)
	}
	if err := os.WriteFile(run.ManifestPath(), []byte("{cut off"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := gather(t, s); len(got.Runs) != 1 || got.Runs[0].Problem == "" {
		t.Errorf("snapshot is %+v, want a run with a problem", got)
	}
}

// TestGatherStoppedRun checks a run that its process left before its end.
func TestGatherStoppedRun(t *testing.T) {
	root, repository := t.TempDir(), t.TempDir()
	session, err := pair.Create(root, repository, pair.Settings{Prompt: "x"}, pair.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &source{RunsRoot: root, RepositoryIDs: []string{session.Place().RepositoryID}}
	check := func(driven, state string) {
		t.Helper()
		r := gather(t, s).Runs[0]
		data, err := json.Marshal(r.Driven)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.stateText(); string(data) != driven || got != state || r.Problem != "" {
			t.Errorf("the run is %q, driven %s, problem %q, want %q, %s, none", got, data, r.Problem, state, driven)
		}
	}
	check("true", string(pair.Init))
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}
	check("false", "stopped ("+string(pair.Init)+")")

	run := session.Place()
	m := session.Manifest()
	m.State, m.Spent.CostUSD, m.Spent.InputTokens, m.Spent.OutputTokens = pair.Failed, 0.75, 200, 40
	data, err := json.Marshal(m)
	if err := errors.Join(err, os.WriteFile(run.ManifestPath(), data, 0o600)); err != nil {
		t.Fatal(err)
	}
	check("null", "failed")
	if got := gather(t, s).Runs[0]; got.CostUSD != 0.75 || got.Tokens != 240 {
		t.Errorf("the run used $%v and %d tokens, want $0.75 and 240", got.CostUSD, got.Tokens)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}
