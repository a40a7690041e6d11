package modelstub

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// RequireVariable names the environment variable that, when not empty, makes tests fail that would
// be skipped because a program is not installed.
const RequireVariable = "OACP_REQUIRE_CLIS"

// Program returns the path of claude or codex as installed for this repository's tests. Where it is
// not, the test is skipped, or fails if RequireVariable demands it.
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
		reason := fmt.Sprintf("%s is not installed; install it with: npm ci --prefix testdata", name)
		if os.Getenv(RequireVariable) != "" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	return path
}

// isolate takes variables that steer the programs, or that they leave for programs they start, out
// of the environment until the test ends.
func isolate(t testing.TB) {
	t.Helper()
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		for _, prefix := range []string{"ANTHROPIC_", "CLAUDE", "CODEX_", "OPENAI_"} {
			if strings.HasPrefix(name, prefix) {
				t.Setenv(name, "") // which puts it back in the end
				if err := os.Unsetenv(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// commonEnv are the variables for both programs. All that is not meant for loopback goes through
// the server, which lets nothing pass.
func (s *Server) commonEnv(home string) []string {
	env := []string{"HOME=" + home, "NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost"}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		env = append(env, name+"="+s.URL())
	}
	return env
}

// ClaudeEnv returns the environment variables that make claude ask this server, keep all it keeps
// in the folder home, reach for nothing else, and not repeat requests that failed.
func (s *Server) ClaudeEnv(home string) []string {
	return append(s.commonEnv(home),
		"CLAUDE_CONFIG_DIR="+filepath.Join(home, ".claude"),
		"CLAUDE_CODE_TMPDIR="+home,
		"ANTHROPIC_BASE_URL="+s.URL(),
		"ANTHROPIC_API_KEY=not-a-real-key",
		"CLAUDE_CODE_MAX_RETRIES=0",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"DISABLE_AUTOUPDATER=1",
		"DISABLE_TELEMETRY=1",
		"DISABLE_ERROR_REPORTING=1",
	)
}

// codexConfig is a configuration for codex: the model's address goes into it.
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
	return append(s.commonEnv(home), "CODEX_HOME="+folder, "MODELSTUB_KEY=not-a-real-key")
}
