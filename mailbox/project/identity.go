package project

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Files in an agent's folder.
const (
	// StatusName says what the agent does now.
	StatusName = "status.yaml"
	// cardName describes the agent.
	cardName    = "agent_card.yaml"
	profileName = "profile.yaml"
)

// Runtimes are the programs that an agent can run in.
var Runtimes = []string{"claude", "codex", "cursor", "gemini", "human"}

func checkRuntime(runtime string) error {
	if runtime != "" && !slices.Contains(Runtimes, runtime) {
		return fmt.Errorf("runtime %q is not one of %s", runtime, strings.Join(Runtimes, ", "))
	}
	return nil
}

// capabilitiesOf returns what agents in a runtime can do, unless their status file says otherwise.
func capabilitiesOf(runtime string) []string {
	switch runtime {
	case "claude":
		return []string{
			"headless", "mcp_tools", "shell_access", "git_ops", "github_cli", "subagents", "parallel_teams", "web_search",
			"session_memory", "notifications", "async_tasks",
		}
	case "codex":
		return []string{"headless", "shell_access", "git_ops", "github_cli", "subagents", "web_search", "session_memory"}
	case "cursor":
		return []string{"shell_access", "git_ops", "github_cli"}
	case "gemini":
		return []string{"mcp_tools", "shell_access", "git_ops", "github_cli", "web_search", "browser", "session_memory"}
	}
	return nil
}

// A profile holds what an agent is in all projects of a home.
type profile struct {
	Model       string `yaml:"model"`
	Description string `yaml:"description"`
}

// readProfile reads the agent's profile in a home. Without one, it returns an empty profile.
func readProfile(home string, agent schema.AgentName) (p profile, err error) {
	if home == "" {
		return p, nil
	}
	name := schema.AgentPath(agent, profileName)
	root, err := durable.OpenRoot(home)
	if err == nil {
		defer func() { err = errors.Join(err, root.Close()) }()
		var data []byte
		if data, err = durable.ReadFile(root, home, name, maxFileSize); err == nil {
			err = yaml.Unmarshal(data, &p)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return profile{}, nil
	}
	if err != nil {
		return profile{}, fmt.Errorf("the profile %s is not used: %w", filepath.Join(home, name), err)
	}
	return p, nil
}

// files returns the card and the status file of an agent.
func (p profile) files(agent schema.AgentName, runtime string, now time.Time) []newFile {
	if p.Model == "" {
		p.Model = runtime
	}
	if p.Description == "" {
		p.Description = fmt.Sprintf("%s agent (%s runtime)", agent, runtime)
	}
	card := fmt.Appendf(nil, cardTemplate, quoted(string(agent)), quoted(runtime), quoted(p.Model), quoted(p.Description),
		quoted(schema.BoxPath(agent, mailbox.Inbox)+"/"), quoted(schema.BoxPath(agent, mailbox.Outbox)+"/"))
	for _, t := range schema.Types() {
		card = fmt.Appendf(card, "    - %s\n", t)
	}
	return []newFile{{StatusName, newStatus(runtime, p.Model, now)}, {cardName, card}}
}

// quoted returns a text as a double-quoted scalar.
func quoted(text string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // text always has a form in JSON
	return strings.TrimSpace(out.String())
}

// newStatus returns the status file of an agent that waits for work.
func newStatus(runtime, model string, now time.Time) []byte {
	capabilities := capabilitiesOf(runtime)
	status := fmt.Appendf(nil, "runtime: %s\nmodel: %s\nstatus: available\ncurrent_task: \"\"\ncapabilities:", runtime, quoted(model))
	if len(capabilities) == 0 {
		status = append(status, " []"...)
	}
	for _, c := range capabilities {
		status = fmt.Appendf(status, "\n  - %s", c)
	}
	return fmt.Appendf(status, "\nupdated_at: %s\n", quoted(string(schema.NewTimestamp(now))))
}

// AddStatus writes the status file of an agent that has none. The agent's name is taken for its
// runtime if it is one.
func AddStatus(w *mailbox.Workspace, agent schema.AgentName, now time.Time) error {
	runtime := "unknown"
	if slices.Contains(Runtimes, string(agent)) {
		runtime = string(agent)
	}
	_, err := addFiles(w, schema.AgentsName+"/"+string(agent), newFile{StatusName, newStatus(runtime, runtime, now)})
	return err
}

// Status has the fields of a status file that oacp reads.
type Status struct {
	Status string `yaml:"status"`
}

// ReadStatus reads an agent's status file. The error matches fs.ErrNotExist if there is none.
func ReadStatus(w *mailbox.Workspace, agent schema.AgentName) (s Status, err error) {
	err = readAgentFile(w, agent, StatusName, &s)
	return s, err
}

// OfflineNotes says which recipients of a message do not work now, as their status files say: one
// text for each. A file that cannot be read says nothing.
func OfflineNotes(w *mailbox.Workspace, m *schema.Message) (notes []string) {
	for _, agent := range m.To {
		status, err := ReadStatus(w, agent)
		switch {
		case err != nil || !strings.EqualFold(strings.TrimSpace(status.Status), "offline"):
		case m.Priority == schema.P0:
			notes = append(notes, fmt.Sprintf("the message is urgent (P0), but agent %s is OFFLINE: reach it another way, too", agent))
		default:
			notes = append(notes, fmt.Sprintf("agent %s is offline, as its status.yaml says, and may read this late", agent))
		}
	}
	return notes
}
