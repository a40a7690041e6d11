package modelstub

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// requireVariable names the environment variable that, if set, makes tests fail instead of skip
// when a program is not installed.
const requireVariable = "OACP_REQUIRE_CLIS"

// Program returns the path of a program as installed for this repository's tests. If it is not
// installed, Program calls Missing.
func Program(t testing.TB, name string) string {
	t.Helper()
	path := programPath(t, name)
	if _, err := os.Stat(path); err != nil {
		Missing(t, name+" is not installed; install it with: npm ci --prefix testdata")
	}
	return path
}

// OptionalProgram returns the path of a program like Program does, but always skips the test if it is not
// installed.
func OptionalProgram(t testing.TB, name, pack string) string {
	t.Helper()
	path := programPath(t, name)
	if _, err := os.Stat(path); err != nil {
		t.Skip(name + " is not installed; install it with: npm install --no-save --prefix testdata " + pack)
	}
	return path
}

func programPath(t testing.TB, name string) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			break
		}
		if folder == filepath.Dir(folder) {
			t.Fatal("the test does not run inside the repository")
		}
	}
	return filepath.Join(folder, "testdata", "node_modules", ".bin", name)
}

// Missing skips the test for the reason, or fails it if OACP_REQUIRE_CLIS is set.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv(requireVariable) != "" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// isolate removes the variables that configure the programs, or that they set for their children, from the
// environment.
func isolate(t testing.TB) {
	t.Helper()
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		for _, prefix := range []string{"ANTHROPIC_", "CLAUDE", "CODEX_", "OPENAI_", "GEMINI_", "GOOGLE_", "QWEN_", "OPENCODE"} {
			if strings.HasPrefix(name, prefix) {
				if err := os.Unsetenv(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// commonEnv returns the variables for both programs. The server is their proxy, and refuses traffic to
// other hosts.
func (s *Server) commonEnv(home string) []string {
	env := []string{"HOME=" + home, "TMPDIR=" + home, "NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost"}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		env = append(env, name+"="+s.URL())
	}
	return env
}

// key is the API key of the programs.
const key = "not-a-real-key"

// ClaudeEnv returns the variables that make claude use this server and no other, keep its files in the
// folder home, and not repeat failed requests.
func (s *Server) ClaudeEnv(home string) []string {
	return append(s.commonEnv(home),
		"CLAUDE_CONFIG_DIR="+filepath.Join(home, ".claude"),
		"CLAUDE_CODE_TMPDIR="+home,
		"ANTHROPIC_BASE_URL="+s.URL(),
		"ANTHROPIC_API_KEY="+key,
		"CLAUDE_CODE_MAX_RETRIES=0",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL=1",
		"DISABLE_AUTOUPDATER=1",
		"DISABLE_TELEMETRY=1",
		"DISABLE_ERROR_REPORTING=1",
	)
}

// codexConfig is the format of a configuration for codex. The argument is the URL of the server.
const codexConfig = `model = "stub-model"
model_provider = "stub"
check_for_update_on_startup = false

[model_providers.stub]
name = "stub"
base_url = "%s/v1"
wire_api = "responses"
env_key = "MODELSTUB_KEY"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[features]
apps = false
plugins = false
remote_plugin = false
shell_snapshot = false
`

// CodexEnv does for codex what ClaudeEnv does for claude. It writes a configuration into the
// folder.
func (s *Server) CodexEnv(t testing.TB, home string) []string {
	t.Helper()
	folder := filepath.Join(home, ".codex")
	writeFile(t, filepath.Join(folder, "config.toml"), fmt.Sprintf(codexConfig, s.URL()))
	return append(s.commonEnv(home), "CODEX_HOME="+folder, "MODELSTUB_KEY="+key)
}

// GeminiEnv does for gemini what ClaudeEnv does for claude. It writes settings into the folder.
func (s *Server) GeminiEnv(t testing.TB, home string) []string {
	t.Helper()
	writeFile(t, filepath.Join(home, ".gemini", "settings.json"), `{
		"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
		"privacy": {"usageStatisticsEnabled": false}, "general": {"disableAutoUpdate": true, "disableUpdateNag": true},
		"model": {"name": "gemini-2.5-flash"}}`)
	return append(s.commonEnv(home), "GEMINI_API_KEY="+key, "GOOGLE_GEMINI_BASE_URL="+s.URL())
}

// QwenEnv does for qwen what ClaudeEnv does for claude. It writes settings into the folder.
func (s *Server) QwenEnv(t testing.TB, home string) []string {
	t.Helper()
	writeFile(t, filepath.Join(home, ".qwen", "settings.json"), `{
		"security": {"auth": {"selectedType": "anthropic"}}, "model": {"name": "stub-model"}, "telemetry": {"enabled": false},
		"privacy": {"usageStatisticsEnabled": false}, "general": {"disableAutoUpdate": true},
		"memory": {"enableManagedAutoMemory": false}}`)
	return append(s.ClaudeEnv(home), "ANTHROPIC_MODEL=stub-model")
}

// OpenCodeEnv does for opencode what ClaudeEnv does for claude. It writes a configuration into the
// folder.
func (s *Server) OpenCodeEnv(t testing.TB, home string) []string {
	t.Helper()
	writeFile(t, filepath.Join(home, ".config", "opencode", "opencode.json"), fmt.Sprintf(`{
		"model": "anthropic/stub-model", "small_model": "anthropic/stub-model", "autoupdate": false, "share": "disabled",
		"provider": {"anthropic": {"options": {"baseURL": "%s/v1", "apiKey": "%s"}, "models": {"stub-model": {"name": "Stub"}}}}}`, s.URL(), key))
	nowhere := "http://127.0.0.1:1" // it looks for plugins, and works without
	return append(s.commonEnv(home), "XDG_CONFIG_HOME=", "XDG_DATA_HOME=", "XDG_CACHE_HOME=", "XDG_STATE_HOME=",
		"HTTP_PROXY="+nowhere, "HTTPS_PROXY="+nowhere, "ALL_PROXY="+nowhere, "http_proxy="+nowhere, "https_proxy="+nowhere, "all_proxy="+nowhere,
		"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1")
}

// writeFile writes a file and the folders above it.
func writeFile(t testing.TB, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// AllowCodexPlugins lets codex load plugins, after CodexEnv. Codex then also looks for plugins of its own, which no setting
// prevents. Call it before codex starts.
func (s *Server) AllowCodexPlugins(t testing.TB, home string) {
	t.Helper()
	s.looksFor = append(s.looksFor, "github.com:443", "api.github.com:443", "chatgpt.com:443")
	path := filepath.Join(home, ".codex", "config.toml")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(text), "\nplugins = false\n", "\nplugins = true\n", 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
