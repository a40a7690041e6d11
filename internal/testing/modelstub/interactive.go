package modelstub

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// ClaudeTerminalEnv returns the variables of ClaudeEnv. It also writes settings with which claude starts
// in a terminal in the folder without asking questions.
func (s *Server) ClaudeTerminalEnv(t testing.TB, home, folder string) []string {
	t.Helper()
	config := filepath.Join(home, ".claude")
	writeJSON(t, filepath.Join(config, ".claude.json"), map[string]any{
		"hasCompletedOnboarding": true, "theme": "dark",
		"hasSeenAutoDefaultNotice": true, "hasSeenAutoDefaultNudge": true,
		"customApiKeyResponses": map[string]any{"approved": []string{key}, "rejected": []string{}},
		"projects":              map[string]any{resolved(t, folder): map[string]any{"hasTrustDialogAccepted": true}},
	})
	writeJSON(t, filepath.Join(config, "settings.json"), map[string]any{"permissions": map[string]any{"defaultMode": "default"}})
	return s.ClaudeEnv(home)
}

// CodexTerminalEnv returns the variables of CodexEnv. It also writes settings with which codex starts in
// a terminal in the folders without asking questions, and without the process that its terminals share by
// default; see ShareCodex.
func (s *Server) CodexTerminalEnv(t testing.TB, home string, folders ...string) []string {
	t.Helper()
	env := s.CodexEnv(t, home)
	settings := "daemon_auto_start = false\n"
	for _, folder := range folders {
		settings += fmt.Sprintf("\n[projects.%q]\ntrust_level = \"trusted\"\n", resolved(t, folder))
	}
	addCodexConfig(t, home, settings)
	return env
}

// codexHook is a hook of codex in hooks.json.
type codexHook struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Timeout int    `json:"timeout"`
	Async   bool   `json:"async"`
}

// TrustCodexHooks makes codex run the hooks in a file like hooks.json without asking. Call it once, when
// the file is complete: codex asks again if a hook changes.
func TrustCodexHooks(t testing.TB, home, path string) {
	t.Helper()
	trustCodexHooks(t, home, path, resolved(t, path))
}

// TrustCodexPlugin does the same for the file hooks/hooks.json of a plugin with the name, such as plugin@marketplace.
func TrustCodexPlugin(t testing.TB, home, path, name string) {
	t.Helper()
	trustCodexHooks(t, home, path, name+":hooks/hooks.json")
}

func trustCodexHooks(t testing.TB, home, path, source string) {
	t.Helper()
	var file struct {
		Hooks map[string][]struct {
			Matcher *string     `json:"matcher"`
			Hooks   []codexHook `json:"hooks"`
		} `json:"hooks"`
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	var trust strings.Builder
	for event, groups := range file.Hooks {
		event = strings.ToLower(regexp.MustCompile(`\B[A-Z]`).ReplaceAllString(event, "_$0"))
		for i, group := range groups {
			for j, hook := range group.Hooks {
				place := fmt.Sprintf("%s:%s:%d:%d", source, event, i, j)
				fmt.Fprintf(&trust, "\n[hooks.state.%q]\ntrusted_hash = \"sha256:%s\"\n", place, hook.hash(t, event, group.Matcher))
			}
		}
	}
	addCodexConfig(t, home, trust.String())
}

// hash returns the hash by which codex recognizes the hook.
func (h codexHook) hash(t testing.TB, event string, matcher *string) string {
	t.Helper()
	if h.Timeout == 0 && event == "session_end" {
		h.Timeout = 1
	} else if h.Timeout == 0 {
		h.Timeout = 600
	}
	// The keys are in alphabetical order.
	identity := struct {
		Event   string  `json:"event_name"`
		Hooks   []any   `json:"hooks"`
		Matcher *string `json:"matcher,omitempty"`
	}{event, []any{map[string]any{"async": h.Async, "command": h.Command, "timeout": h.Timeout, "type": h.Type}}, matcher}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(identity); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(strings.TrimSuffix(text.String(), "\n")))
	return hex.EncodeToString(sum[:])
}

// addCodexConfig adds lines to the configuration that CodexEnv wrote.
func addCodexConfig(t testing.TB, home, lines string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(home, ".codex", "config.toml"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString(lines)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

// resolved returns the path without symbolic links, as the programs use it.
func resolved(t testing.TB, path string) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func writeJSON(t testing.TB, path string, value any) {
	t.Helper()
	data, err := json.Marshal(value)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
