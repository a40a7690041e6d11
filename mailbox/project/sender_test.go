package project_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

func TestInferAgent(t *testing.T) {
	tests := []struct {
		name string
		// cards is the runtime on each agent's card; "bad" is a card that is not YAML, and "" means
		// no card.
		cards map[schema.AgentName]string
		env   map[string]string
		want  schema.AgentName
		words []string
	}{
		{"OACP_AGENT", nil, map[string]string{"OACP_AGENT": "alice", "AGENT_NAME": "bob", "CLAUDECODE": "1"}, "alice", nil},
		{"AGENT_NAME", nil, map[string]string{"AGENT_NAME": "bob", "CLAUDECODE": "1"}, "bob", nil},
		{"an invalid name", nil, map[string]string{"OACP_AGENT": "../x"}, "", []string{"OACP_AGENT", "../x"}},
		{"nothing", map[schema.AgentName]string{"claude": "claude"}, nil, "", []string{"no agent is given"}},
		{"Claude Code", map[schema.AgentName]string{"alice": "claude", "bob": "codex"}, map[string]string{"CLAUDECODE": "1"}, "alice", nil},
		{"Claude Code, older", map[schema.AgentName]string{"alice": "claude"}, map[string]string{"CLAUDE_CODE": "1"}, "alice", nil},
		{"Codex in CI", map[schema.AgentName]string{"alice": "claude", "bob": "codex"}, map[string]string{"CODEX_CI": "1"}, "bob", nil},
		{"Codex's shell", map[schema.AgentName]string{"bob": "codex"}, map[string]string{"CODEX_SHELL": "1"}, "bob", nil},
		{"Codex's thread", map[schema.AgentName]string{"bob": "codex"}, map[string]string{"CODEX_THREAD_ID": "x"}, "bob", nil},
		{"Gemini's command line", map[schema.AgentName]string{"eve": "gemini"}, map[string]string{"GEMINI_CLI": "1"}, "eve", nil},
		{"Gemini's agent", map[schema.AgentName]string{"eve": "gemini"}, map[string]string{"GEMINI_AGENT": "1"}, "eve", nil},
		{"OACP_RUNTIME before the marks", map[schema.AgentName]string{"alice": "claude", "me": "human"}, map[string]string{"OACP_RUNTIME": "human", "CLAUDECODE": "1"}, "me", nil},
		{"an unknown OACP_RUNTIME", map[schema.AgentName]string{"alice": "claude"}, map[string]string{"OACP_RUNTIME": "unknown", "CLAUDECODE": "1"}, "alice", nil},
		{"no such card", map[schema.AgentName]string{"bob": "codex", "eve": ""}, map[string]string{"CLAUDECODE": "1"}, "", []string{"no agent's card", "claude"}},
		{"two such cards", map[schema.AgentName]string{"alice": "claude", "anna": "claude"}, map[string]string{"CLAUDECODE": "1"}, "", []string{"alice, anna", "claude"}},
		{"a session of claude", map[schema.AgentName]string{"alice": "claude", "bob": "claude"}, map[string]string{"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "bob-1"}, "bob", nil},
		{"a session of codex", map[schema.AgentName]string{"alice": "codex", "bob": ""}, map[string]string{"CODEX_THREAD_ID": "bob-1"}, "bob", nil},
		{"a session of claude in one of codex", map[schema.AgentName]string{"alice": "", "bob": ""}, map[string]string{"CLAUDE_CODE_SESSION_ID": "alice-1", "CODEX_THREAD_ID": "bob-1"}, "bob", nil},
		{"OACP_AGENT before the session", map[schema.AgentName]string{"bob": ""}, map[string]string{"OACP_AGENT": "alice", "CODEX_THREAD_ID": "bob-1"}, "alice", nil},
		{"an unknown session", map[schema.AgentName]string{"alice": "claude", "bob": "codex"}, map[string]string{"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "bob-2"}, "alice", nil},
		{"a session that is a path", map[schema.AgentName]string{"alice": "codex", "bob": ""}, map[string]string{"CODEX_THREAD_ID": "../bob/bob-1"}, "alice", nil},
		{"a folder in place of a session", map[schema.AgentName]string{"alice": "codex", "bob": ""}, map[string]string{"CODEX_THREAD_ID": "folder"}, "alice", nil},
		{"another card is broken", map[schema.AgentName]string{"alice": "claude", "anna": "bad"}, map[string]string{"CLAUDECODE": "1"}, "alice", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := mailboxtest.New(t)
			for agent, runtime := range test.cards {
				if _, err := project.AddAgent(w, agent, project.AgentOptions{Now: mailboxtest.Time}); err != nil {
					t.Fatal(err)
				}
				check.WriteFile(t, filepath.Join(w.Dir(), project.SessionsName(agent), string(agent)+"-1"+project.SessionSuffix), "{}")
				check.WriteFile(t, filepath.Join(w.Dir(), project.SessionsName(agent), "folder"+project.SessionSuffix, "file"), "{}")
				card := map[string]string{"": "", "bad": "runtime: ["}[runtime]
				if card == "" && runtime != "" {
					card = "name: " + string(agent) + "\nruntime: " + runtime + "\n"
				}
				if card != "" {
					check.WriteFile(t, filepath.Join(w.Dir(), schema.AgentsName, string(agent), project.CardName), card)
				}
			}
			got, err := project.InferAgent(w, environment(test.env))
			if got != test.want {
				t.Errorf("the sender is %q (%v), want %q", got, err, test.want)
			}
			if test.want == "" {
				check.Error(t, err, test.words...)
				if test.env["OACP_AGENT"] == "" && !errors.Is(err, project.ErrNoSender) {
					t.Errorf("the error is %v, want one that matches ErrNoSender", err)
				}
			}
		})
	}
}
