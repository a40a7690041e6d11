package turn

import (
	"errors"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// TestRealPrograms checks that the real claude and codex, with a scripted model, answer messages
// through a Runner that has only their names.
func TestRealPrograms(t *testing.T) {
	for _, name := range []string{"claude", "codex"} {
		t.Run(name, func(t *testing.T) {
			program := modelstub.Program(t, name)
			server := modelstub.Start(t, modelstub.Answers(t, modelstub.Reply{Text: "Port 8080."}))
			home := t.TempDir()
			environment := server.ClaudeEnv(home)
			if name == "codex" {
				environment = server.CodexEnv(t, home)
			}
			for _, variable := range environment {
				key, value, _ := strings.Cut(variable, "=")
				t.Setenv(key, value)
			}
			w := newWorkspace(t, "asker", "worker")
			receipt, err := w.Send(t.Context(), schema.Message{
				From: "asker", To: []schema.AgentName{"worker"}, Type: schema.Question,
				Subject: "Which port?", Body: schema.TextValue("Which port does the server listen on?"),
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			settings := Settings{Driver: name, Command: []string{program}, Dir: t.TempDir(), Reply: true}
			config, err := settings.Config("worker")
			if err != nil {
				t.Fatal(err)
			}
			config.Once, config.MaxAttempts = true, 1
			runner, err := New(w, config)
			if err != nil {
				t.Fatal(err)
			}
			if err := runner.Run(t.Context()); err != nil {
				t.Fatalf("running: %v", err)
			}
			answers, err := w.List(t.Context(), "asker", mailbox.Inbox)
			if err != nil || len(answers) != 1 {
				t.Fatalf("%d answers (%v), want 1", len(answers), err)
			}
			if m := answers[0].Message; m.ParentID != receipt.Message.ID || strings.TrimSpace(m.Body.Text) != "Port 8080." {
				t.Errorf("answer to %s says %q, want one to %s with the model's text", m.ParentID, m.Body.Text, receipt.Message.ID)
			}
		})
	}
}

// TestForgottenSession checks that a Runner starts a new session if the agent no longer has the
// conversation's session.
func TestForgottenSession(t *testing.T) {
	t.Parallel()
	var asked []string
	d := newPool("", func(_ schema.ConversationID, session string) agent.Driver {
		asked = append(asked, session)
		return &puppet{start: func() error {
			if session != "" {
				return errors.Join(agent.ErrUnknownSession, errors.New("session "+session))
			}
			return nil
		}}
	}, 1)
	if _, err := d.Get(t.Context(), "conv-20260313-claude-1", "gone", true); err != nil {
		t.Fatalf("taking the driver: %v", err)
	}
	if got := strings.Join(asked, ","); got != "gone," {
		t.Errorf("drivers were made for the sessions %q, want the forgotten one and then none", got)
	}
}
