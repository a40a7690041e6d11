package agent

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Program is a program that runs agents, with what was observed when a release of it ran against a
// scripted model.
type Program struct {
	// Name is how people call it, and usually the name of its agents.
	Name string `json:"name"`
	// Driver is the driver that runs it; Command starts it.
	Driver  string   `json:"driver"`
	Command []string `json:"command"`
	// Install is the command that installs it.
	Install string `json:"install"`
	// Version is the release that was observed, "" if none was.
	Version string `json:"version,omitempty"`
	// Turn says whether turns work, Resume how a session continues after the program was killed, Cancel
	// whether a turn can be ended without killing the program, Permissions how it asks, Usage what it
	// reports, and LiveMail how live sessions get mail.
	Turn        bool   `json:"turn"`
	Resume      string `json:"resume,omitempty"`
	Cancel      bool   `json:"cancel"`
	Permissions string `json:"permissions,omitempty"`
	Usage       string `json:"usage,omitempty"`
	LiveMail    string `json:"live_mail,omitempty"`
	// Note is what else one should know.
	Note string `json:"note,omitempty"`

	// identity is the name by which it introduces itself.
	identity string
	// asksIf is the variable without which it does not ask for permission, "" if it always asks.
	asksIf string
}

// Installed returns the version of the program on the PATH, "" if it is unknown. It starts nothing: the installers of these programs
// name the file by its version, or put a package.json above it.
func (p *Program) Installed() string {
	path, err := exec.LookPath(p.Command[0])
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return ""
	}
	if name := filepath.Base(path); isVersion(name) {
		return name
	}
	const highest = 3
	for range highest {
		path = filepath.Dir(path)
		var described struct{ Version string }
		data, err := os.ReadFile(filepath.Join(path, "package.json"))
		if err == nil && json.Unmarshal(data, &described) == nil && isVersion(described.Version) {
			return described.Version
		}
	}
	return ""
}

// isVersion reports whether the text is three numbers with dots between.
func isVersion(text string) bool {
	parts := strings.Split(text, ".")
	return len(parts) == 3 && !slices.ContainsFunc(parts, func(part string) bool { _, err := strconv.ParseUint(part, 10, 32); return err != nil })
}

// npm returns the command that installs packages.
func npm(packages string) string { return "npm install -g " + packages }

var knownPrograms = []Program{
	{
		Name: "claude", Driver: "claude", Command: []string{"claude"}, Install: npm("@anthropic-ai/claude-code"),
		Version: "2.1.332", Turn: true, Resume: "yes", Permissions: "asks", Usage: "tokens, cost", LiveMail: "hooks",
	},
	{
		Name: "codex", Driver: "codex", Command: []string{"codex"}, Install: npm("@openai/codex"),
		Version: "0.171.0", Turn: true, Resume: "yes", Permissions: "sandbox, asks", Usage: "tokens", LiveMail: "hooks",
	},
	{
		Name: "gemini", Driver: "acp", Command: []string{"gemini", "--acp"}, Install: npm("@google/gemini-cli"),
		Version: "0.61.0", Turn: true, Resume: "rarely: else a new session begins", Cancel: true, Permissions: "asks", Usage: "tokens",
		identity: "gemini-cli",
	},
	{
		Name: "qwen", Driver: "acp", Command: []string{"qwen", "--acp"}, Install: npm("@qwen-code/qwen-code"),
		Version: "0.24.4", Turn: true, Resume: "yes", Cancel: true, Permissions: "asks", Usage: "tokens", Note: "a refusal ends the turn",
		identity: "qwen-code",
	},
	{
		Name: "opencode", Driver: "acp", Command: []string{"opencode", "acp"}, Install: npm("opencode-ai"),
		Version: "1.18.33", Turn: true, Resume: "yes", Cancel: true, Permissions: "asks if told to", Usage: "tokens of the last request, cost",
		Note:     `a refusal ends the turn; without OPENCODE_PERMISSION='{"*":"ask"}' it does not ask, and needs --allow all`,
		identity: "OpenCode", asksIf: "OPENCODE_PERMISSION",
	},
	{
		Name: "claude-agent-acp", Driver: "acp", Command: []string{"claude-agent-acp"}, Install: npm("@agentclientprotocol/claude-agent-acp"),
		Version: "0.101.0", Turn: true, Resume: "yes", Cancel: true, Permissions: "asks", Usage: "tokens, cost",
		Note: "the user root needs IS_SANDBOX=1", identity: "@agentclientprotocol/claude-agent-acp",
	},
	{
		Name: "codex-acp", Driver: "acp", Command: []string{"codex-acp"}, Install: npm("@agentclientprotocol/codex-acp"),
		Version: "2.6.0", Turn: true, Resume: "yes", Cancel: true, Permissions: "sandbox, asks", Usage: "tokens", Note: "a refusal ends the turn",
		identity: "@agentclientprotocol/codex-acp",
	},
	{
		Name: "copilot", Driver: "acp", Command: []string{"copilot", "--acp"}, Install: npm("@github/copilot"),
		Note: "needs a login, so it was not observed",
	},
}

// KnownPrograms returns the programs that are known to run agents.
func KnownPrograms() []Program { return slices.Clone(knownPrograms) }

// FindProgram returns the known program with the name, nil if there is none.
func FindProgram(name string) *Program {
	for _, p := range knownPrograms {
		if p.Name == name {
			return &p
		}
	}
	return nil
}
