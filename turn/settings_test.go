package turn

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/settings"
	"github.com/oacp-go/oacp/schema"
)

func TestLoadSettings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		workspace string // workspace.json
		agent     string // config.yaml
		want      Settings
		wantErr   string
	}{
		{name: "nothing"},
		{name: "no section", workspace: `{"project_name":"p"}`, agent: "other: 1\n"},
		{name: "autonomy", agent: "autonomy:\n  default_mode: always_pause\n", want: Settings{Autonomy: project.AutonomyPause}},
		{name: "the agent's own autonomy", workspace: `{"run":{"autonomy":"auto"}}`, agent: "autonomy: {default_mode: auto_review}\n", want: Settings{Autonomy: project.AutonomyReview}},
		{name: "autonomy of turns", agent: "run: {autonomy: auto}\nautonomy: {default_mode: always_pause}\n", want: Settings{Autonomy: project.AutonomyAuto}},
		{name: "autonomy without a mode", agent: "autonomy: {default_mode: }\nrun: {autonomy: null}\n"},
		{name: "unknown autonomy", agent: "autonomy:\n  default_mode: never\n", wantErr: `line 2: unknown autonomy "never"; the values are auto, auto_review, always_pause`},
		{name: "autonomy is a list", agent: "autonomy: [auto]\n", wantErr: "line 1"},
		{name: "an empty section", workspace: `{"run":null}`, agent: "run:\n"},
		{
			name:      "all settings for all agents",
			workspace: `{"run":{"driver":"exec","command":["codex","exec"],"reply":true,"timeout":"5m","grace":"1s","parallel":2,"allow_from":["claude"],"max_attempts":5,"max_turns":7,"max_pair_turns":-1,"input":"body","dir":"/work"}}`,
			want: Settings{
				Driver: "exec", Command: []string{"codex", "exec"}, Reply: true, Timeout: 5 * time.Minute, Grace: time.Second, Parallel: 2,
				AllowFrom: []schema.AgentName{"claude"}, MaxAttempts: 5, MaxTurns: 7, MaxPairTurns: Unlimited, Input: InputBody, Dir: "/work",
			},
		},
		{
			name:      "the agent's own count",
			workspace: `{"run":{"command":["a","b"],"reply":true,"max_turns":7}}`,
			agent:     "run:\n  command: [c]\n  reply: false\n  driver: ash\n  socket: /tmp/s\n",
			want:      Settings{Driver: "ash", Command: []string{"c"}, Socket: "/tmp/s", MaxTurns: 7},
		},
		{
			name:      "a program and its permission",
			workspace: `{"run":{"driver":"claude","model":"m","allow":"edits","args":["--verbose"]}}`,
			want:      Settings{Driver: "claude", Model: "m", Allow: agent.PermitEdits, Args: []string{"--verbose"}},
		},
		{
			name:      "another driver for the agent",
			workspace: `{"run":{"driver":"claude","command":["my-claude"],"model":"m","allow":"edits","args":["--verbose"]}}`,
			agent:     "run:\n  driver: codex\n",
			want:      Settings{Driver: "codex", Allow: agent.PermitEdits},
		},
		{
			name:      "a model for any driver",
			workspace: `{"run":{"model":"m","args":["--verbose"]}}`,
			agent:     "run:\n  driver: claude\n",
			want:      Settings{Driver: "claude", Model: "m", Args: []string{"--verbose"}},
		},
		{name: "unknown permission", agent: "run:\n  allow: everything\n", wantErr: `there is no permission "everything"; there are none, own, edits, all`},
		{name: "unknown setting", agent: "other: 1\nrun:\n  max_turn: 3\n", wantErr: `line 3: run has no setting "max_turn"`},
		{name: "outside the section", agent: "other: 1\nlease: 1m\n", wantErr: "line 2: lease has no effect here: it belongs in the section run, as run: {lease: 1m}"},
		{name: "a list outside the section", workspace: `{"command":["codex","exec"]}`, wantErr: "line 1: command has no effect here"},
		{name: "not a mapping", agent: "run: [1]\n", wantErr: "line 1"},
		{name: "a shell line", agent: "run:\n  command: codex exec\n", wantErr: "line 2"},
		{name: "not a duration", agent: "run:\n  timeout: soon\n", wantErr: "soon"},
		{name: "not YAML", agent: "{{{", wantErr: "config.yaml"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorkspace(t)
			if test.workspace != "" {
				write(t, filepath.Join(w.Dir(), "workspace.json"), test.workspace)
			}
			if test.agent != "" {
				write(t, filepath.Join(w.Dir(), "agents", "codex", "config.yaml"), test.agent)
			}
			allowSettings(t, w)
			got, err := LoadSettings(w, "codex")
			if test.wantErr == "" && err != nil || test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)) {
				t.Fatalf("error %v, want %q", err, test.wantErr)
			}
			if want := []string{"OACP_WORKSPACE=" + w.Dir(), "OACP_AGENT=codex"}; err == nil && !slices.Equal(got.place, want) {
				t.Errorf("the agent's environment is %q, want %q", got.place, want)
			}
			got.place, got.refused = nil, nil
			if err == nil && !reflect.DeepEqual(got, test.want) {
				t.Errorf("settings %+v, want %+v", got, test.want)
			}
		})
	}
}

// allowSettings allows what the files of a workspace set, as its user would with oacp allow.
func allowSettings(t testing.TB, w *mailbox.Workspace) {
	t.Helper()
	waiting, _, _ := settings.Waiting(w)
	for _, f := range waiting {
		if err := settings.Allow(w, f, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLoadSettingsOfUnknownAgent(t *testing.T) {
	t.Parallel()
	if _, err := LoadSettings(newWorkspace(t), "../codex"); err == nil {
		t.Error("no error for an invalid name")
	}
}

func TestSettingsConfig(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		settings Settings
		want     any // the driver's type; nil means an error
		input    Input
	}{
		{"command", Settings{Command: []string{"true"}}, agent.NewExec(agent.Options{}), ""},
		{"bridge", Settings{Driver: "ash", Socket: "/tmp/s"}, agent.NewAsh(agent.Options{}), ""},
		{"echo", Settings{Driver: "echo"}, agent.NewEcho(), InputBody},
		{"echo of all", Settings{Driver: "echo", Input: InputMessage}, agent.NewEcho(), InputMessage},
		{"claude", Settings{Driver: "claude"}, agent.NewClaude(agent.Options{}), ""},
		{"codex", Settings{Driver: "codex"}, agent.NewCodex(agent.Options{}), ""},
		{"no command", Settings{}, nil, ""},
		{"no bridge", Settings{Driver: "ash"}, nil, ""},
		{"no such driver", Settings{Driver: "magic"}, nil, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, err := test.settings.Config("codex")
			if test.want == nil {
				if err == nil {
					t.Error("no error, want one")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := c.NewDriver("conv-20260101-claude-1", ""); reflect.TypeOf(got) != reflect.TypeOf(test.want) || c.Input != test.input || c.Agent != "codex" {
				t.Errorf("driver %T and config %+v, want %T and input %q", got, c, test.want, test.input)
			}
		})
	}
}

// TestDocumentedSettings checks that the table in docs/turns.md has every setting.
func TestDocumentedSettings(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", "turns.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range settings.RunNames() {
		if !strings.Contains(string(page), "\n| `"+setting+"` | ") {
			t.Errorf("docs/turns.md has no row for the setting %s", setting)
		}
	}
	_, row, _ := strings.Cut(string(page), "\n| `driver` | ")
	row, _, _ = strings.Cut(row, "\n")
	for _, kind := range agent.Kinds() {
		if want := "`" + kind.Name + "` (" + kind.Summary + ")"; !strings.Contains(row, want) {
			t.Errorf("docs/turns.md, driver: %s lacks %s", row, want)
		}
	}
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	good := Config{Agent: "codex", NewDriver: says("ok")}
	for name, change := range map[string]func(*Config){
		"no agent":          func(c *Config) { c.Agent = "" },
		"unknown agent":     func(c *Config) { c.Agent = "nobody" },
		"no driver":         func(c *Config) { c.NewDriver = nil },
		"unknown input":     func(c *Config) { c.Input = "everything" },
		"unknown autonomy":  func(c *Config) { c.Autonomy = "sometimes" },
		"no name":           func(c *Config) { c.AllowFrom = []schema.AgentName{"../x"} },
		"negative attempts": func(c *Config) { c.MaxAttempts = -1 },
		"negative timeout":  func(c *Config) { c.Timeout = -1 },
	} {
		c := good
		change(&c)
		if _, err := New(w, c); err == nil {
			t.Errorf("%s: no error, want one", name)
		}
	}
}
