package project

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// ErrNoSender is returned if no agent is given, and none can be inferred.
var ErrNoSender = failure.New("no_sender", "no agent is given", "use --agent AGENT, or set OACP_AGENT")

// runtimeMarks are the environment variables that the runtimes set.
var runtimeMarks = []struct{ variable, runtime string }{
	{"CODEX_CI", "codex"}, {"CODEX_SHELL", "codex"}, {"CODEX_THREAD_ID", "codex"},
	{"CLAUDECODE", "claude"}, {"CLAUDE_CODE", "claude"},
	{"GEMINI_CLI", "gemini"}, {"GEMINI_AGENT", "gemini"},
}

// AgentFromEnvironment returns the agent that OACP_AGENT, or else AGENT_NAME, names. If neither is
// set, the error matches ErrNoSender.
func AgentFromEnvironment(getenv func(string) string) (schema.AgentName, error) {
	for _, variable := range []string{"OACP_AGENT", "AGENT_NAME"} {
		if name := getenv(variable); name != "" {
			agent, err := schema.ParseAgentName(name)
			if err != nil {
				return "", fmt.Errorf("%s: %w", variable, err)
			}
			return agent, nil
		}
	}
	return "", ErrNoSender
}

// sessionVariables hold the id of the session that runs the command. A session of claude inside one
// of codex has both.
var sessionVariables = []string{"CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID"}

// Each live session of an agent has a file in SessionsName. Its name is the id of the session and
// SessionSuffix. SessionsFolder holds the folders of all agents.
const (
	SessionsFolder = "state/live"
	SessionSuffix  = ".json"
)

// SessionsName returns the folder, below the workspace, with the live sessions of an agent.
func SessionsName(agent schema.AgentName) string { return SessionsFolder + "/" + string(agent) }

// ValidSession reports whether the text can be the id of a session, which becomes the name of a file.
func ValidSession(id string) bool {
	const most = 128
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	return id != "" && len(id) <= most && !strings.ContainsFunc(id, other)
}

// SessionAgent returns the agent of the live session that runs this process. The error matches ErrNoSender if no session of
// the workspace runs it.
func SessionAgent(w *mailbox.Workspace, getenv func(string) string) (schema.AgentName, error) {
	for _, variable := range sessionVariables {
		id := getenv(variable)
		if !ValidSession(id) {
			continue
		}
		agents, err := w.Agents()
		if err != nil {
			return "", err
		}
		for _, agent := range agents {
			if info, err := w.Root().Lstat(SessionsName(agent) + "/" + id + SessionSuffix); err == nil && info.Mode().IsRegular() {
				return agent, nil
			}
		}
	}
	return "", ErrNoSender
}

// InferAgent returns the agent that this process acts for. It is the first of: the agent of
// AgentFromEnvironment, the agent of the session that runs the process, and the only agent whose
// card names the current runtime. The runtime is OACP_RUNTIME if that is one of Runtimes, else the
// one whose variables Claude Code, Codex or Gemini sets. The error matches ErrNoSender if no agent,
// or more than one, matches.
func InferAgent(w *mailbox.Workspace, getenv func(string) string) (schema.AgentName, error) {
	agent, err := AgentFromEnvironment(getenv)
	if !errors.Is(err, ErrNoSender) {
		return agent, err
	}
	if agent, err = SessionAgent(w, getenv); !errors.Is(err, ErrNoSender) {
		return agent, err
	}
	runtime := CurrentRuntime(getenv)
	if runtime == "" {
		return "", ErrNoSender
	}
	agents, err := w.Agents()
	if err != nil {
		return "", err
	}
	var matching []string
	for _, agent := range agents {
		// Agents without a readable card do not match.
		if r, err := runtimeOf(w, agent); err == nil && r == runtime {
			matching = append(matching, string(agent))
		}
	}
	switch len(matching) {
	case 0:
		return "", fmt.Errorf("%w: no agent's card has the runtime %s", ErrNoSender, runtime)
	case 1:
		return schema.AgentName(matching[0]), nil
	}
	return "", fmt.Errorf("%w: %s all have the runtime %s", ErrNoSender, strings.Join(matching, ", "), runtime)
}

// CurrentRuntime returns the runtime that this process runs in; empty if it is unknown. See InferAgent.
func CurrentRuntime(getenv func(string) string) string {
	if runtime := getenv("OACP_RUNTIME"); slices.Contains(Runtimes, runtime) {
		return runtime
	}
	for _, mark := range runtimeMarks {
		if getenv(mark.variable) != "" {
			return mark.runtime
		}
	}
	return ""
}

// runtimeOf returns the runtime on an agent's card.
func runtimeOf(w *mailbox.Workspace, agent schema.AgentName) (runtime string, err error) {
	var card struct {
		Runtime string `yaml:"runtime"`
	}
	if _, err := schema.ParseAgentName(string(agent)); err != nil {
		return "", err
	}
	name := schema.AgentPath(agent, cardName)
	data, err := durable.ReadFile(w.Root(), w.Dir(), name, maxFileSize)
	if err != nil {
		return "", err
	}
	if err := yaml.Unmarshal(data, &card); err != nil {
		return "", fmt.Errorf("reading %s: %w", filepath.Join(w.Dir(), name), err)
	}
	return card.Runtime, nil
}
