package pair

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// TestPrograms runs the real codex as worker and the real claude as reviewer, with a scripted model
// behind both. Codex writes a file, learns that it is wrong, and corrects it. The session is
// stopped in the middle of the first review, and another one continues.
func TestPrograms(t *testing.T) {
	t.Parallel()
	codex, claude := modelstub.Program(t, "codex"), modelstub.Program(t, "claude")
	repository := newRepository(t)
	file := filepath.Join(repository, "answer.txt")
	ctx, stop := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	var stopOnce sync.Once
	server := modelstub.Start(t, func(asker context.Context, request modelstub.Request) modelstub.Reply {
		if request.API == modelstub.Messages {
			stopOnce.Do(func() {
				stop(enough)
				<-asker.Done()
			})
			return reviewAnswer(t, file, request)
		}
		return workOnAnswer(request)
	})
	claudeHome, codexHome := t.TempDir(), t.TempDir()
	options := Options{NewDriver: func(name Agent, dir, session string) agent.Driver {
		if name == Claude {
			return agent.NewClaude(agent.Options{Command: []string{claude}, Dir: dir, Session: session, Env: server.ClaudeEnv(claudeHome)})
		}
		return agent.NewCodex(agent.Options{
			Command: []string{codex}, Dir: dir, Session: session, Env: server.CodexEnv(t, codexHome),
			Allow: agent.PermitAll,
		})
	}}
	root := t.TempDir()
	s, err := Create(root, repository, Settings{Prompt: "Write the answer", Review: ReviewClaude, Proof: helperProof(t, "exists", file)}, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(ctx); !errors.Is(err, enough) {
		t.Fatalf("error %v, want the cause", err)
	}
	codexSession := s.Manifest().CodexSessionID
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Resume(s.Place(), options); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := s.Manifest(); m.State != Complete || m.CurrentIteration != 2 || m.CodexSessionID != codexSession || m.ClaudeSessionID == "" {
		t.Errorf("manifest %+v, want it completed in iteration 2, in the sessions it had", m)
	}
	want := []string{
		"0 task user>codex Write the answer",
		"1 result codex>claude I wrote it.|DONE", "1 signal codex>claude DONE in iteration 1DONE",
		"1 review claude>codex It is 42.|FAIL", "1 signal claude>codex FAIL in iteration 1FAIL",
		"2 result codex>claude I wrote it.|DONE||(said 2 times)", "2 signal codex>claude DONE in iteration 2DONE",
		"2 review claude>codex Right.|PASS", "2 signal claude>codex PASS in iteration 2PASS",
	}
	if got := records(t, s); !reflect.DeepEqual(got, want) {
		t.Errorf("records:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if status, err := s.log.Status(t.Context()); err != nil || !status.HasDoneSignal || status.PassCount != 1 || status.FailCount != 1 {
		t.Errorf("status %+v, %v", status, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	checkRawEvents(t, s.Place())
}

// workOnAnswer is the model behind codex: it writes 41, and 42 once a review says so.
func workOnAnswer(request modelstub.Request) modelstub.Reply {
	if len(request.Results) > 0 {
		return modelstub.Reply{Text: "I wrote it.\nDONE"}
	}
	command := "echo 41 > answer.txt"
	if strings.Contains(request.Prompt, "It is 42.") {
		command = "echo 42 > answer.txt"
	}
	return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "exec_command", Input: map[string]any{"cmd": command}}}}
}

// reviewAnswer is the model behind claude: it reads the file and judges what the tool says.
func reviewAnswer(t *testing.T, file string, request modelstub.Request) modelstub.Reply {
	switch {
	case len(request.Results) == 0:
		return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "Read", Input: map[string]any{"file_path": file}}}}
	case strings.Contains(request.Results[0].Output, "42"):
		return modelstub.Reply{Text: "Right.\nPASS"}
	case strings.Contains(request.Results[0].Output, "41"):
		return modelstub.Reply{Text: "It is 42.\nFAIL"}
	}
	t.Errorf("claude read %q", request.Results[0].Output)
	return modelstub.Reply{Text: "FAIL"}
}

// checkRawEvents checks that the transcript has the programs' own events.
func checkRawEvents(t *testing.T, run bridge.Run) {
	t.Helper()
	data, err := os.ReadFile(run.TranscriptPath())
	if err != nil {
		t.Fatal(err)
	}
	raw := make(map[Agent]int)
	for line := range strings.Lines(string(data)) {
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == EntryEvent && e.Raw != nil {
			raw[e.Agent]++
		}
	}
	if raw[Claude] == 0 || raw[Codex] == 0 {
		t.Errorf("the transcript has %v raw events, want some of both agents", raw)
	}
}
