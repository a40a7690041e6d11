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

// Program returns the path of claude or codex as installed for this repository's tests. If it is
// not installed, Program calls Missing.
func Program(t testing.TB, name string) string {
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
	path := filepath.Join(folder, "testdata", "node_modules", ".bin", name)
	if _, err := os.Stat(path); err != nil {
		Missing(t, name+" is not installed; install it with: npm ci --prefix testdata")
	}
	return path
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
		for _, prefix := range []string{"ANTHROPIC_", "CLAUDE", "CODEX_", "OPENAI_"} {
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
	err := os.MkdirAll(folder, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "config.toml"), fmt.Appendf(nil, codexConfig, s.URL()), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return append(s.commonEnv(home), "CODEX_HOME="+folder, "MODELSTUB_KEY="+key)
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
