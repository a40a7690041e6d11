package setup

import (
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/oacp-go/oacp/internal/guide"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox/doctor"
)

var update = flag.Bool("update", false, "write the skill of the plugin anew")

const (
	repository = "../.."
	pluginDir  = repository + "/plugin"
	// codexDir has the plugin for codex: beside a plugin.json, codex 0.169.0 runs no hooks.
	codexDir = pluginDir + "/com.openai.codex"
)

// skillHead is before the page for agents in the skill.
const skillHead = `---
name: oacp
description: Send messages to other coding agents and people, and read and answer theirs, with the command oacp. Use it when a hook shows mail from another agent, or when work goes to or comes from one.
---

`

// TestSkill checks that the skill is the page for agents.
func TestSkill(t *testing.T) {
	for _, folder := range []string{pluginDir, codexDir} {
		path := filepath.Join(folder, "skills", "oacp", "SKILL.md")
		if *update {
			check.WriteFile(t, path, skillHead+guide.Agent)
		}
		if got := check.ReadFile(t, path); got != skillHead+guide.Agent {
			t.Errorf("%s is not the page of oacp help agent; go test ./live/setup -run TestSkill -update writes it", path)
		}
	}
}

// A manifest is that of a plugin. Claude has the hooks in it, and codex the name of their file.
type manifest struct {
	Name, Description, Homepage, Repository, License string

	Author   map[string]string
	Keywords []string
	Hooks    json.RawMessage
	Servers  map[string]mcpCall `json:"mcpServers"`
}

func readManifest(t *testing.T, path string) (m manifest) {
	t.Helper()
	if err := json.Unmarshal([]byte(check.ReadFile(t, path)), &m); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return m
}

// TestPluginDoesWhatSetupDoes checks that the plugin has the hooks and the server of a setup.
func TestPluginDoesWhatSetupDoes(t *testing.T) {
	for program, path := range map[live.Program]string{
		live.Claude: pluginDir + "/.claude-plugin/plugin.json", live.Codex: codexDir + "/.codex-plugin/plugin.json",
	} {
		m := readManifest(t, path)
		text := string(m.Hooks)
		if program == live.Codex {
			if text != `"./hooks/hooks.json"` {
				t.Fatalf("%s has the hooks %s, want the file in which codex looks by default", path, text)
			}
			text = check.ReadFile(t, codexDir+"/hooks/hooks.json")
		} else {
			text = `{"hooks":` + text + `}`
		}
		wanted := hooks{program, "oacp hook " + string(program) + " --plugin"}
		if after := must(t, wanted.put, []byte(text)); string(after) != text {
			t.Errorf("the hooks of %s are\n%s\nwant\n%s", program, text, after)
		}
		if left := must(t, wanted.take, []byte(text)); left != nil {
			t.Errorf("the plugin for %s has hooks besides: %s", program, left)
		}
		if call := (mcpCall{"oacp", []string{"mcp", "--agent", string(program), "--plugin"}}); len(m.Servers) != 1 || !m.Servers[serverName].equal(call) {
			t.Errorf("the plugin for %s has the servers %v, want %v", program, m.Servers, call)
		}
	}
	// Codex reads the hooks of claude if they are here.
	if _, err := os.Stat(pluginDir + "/hooks"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("plugin/hooks is there (%v)", err)
	}
}

// TestManifests checks the manifests against each other and the published schema, and that the marketplaces lead to them.
func TestManifests(t *testing.T) {
	portable := readManifest(t, pluginDir+"/plugin.json")
	for _, path := range []string{pluginDir + "/.claude-plugin/plugin.json", codexDir + "/.codex-plugin/plugin.json"} {
		m := readManifest(t, path)
		m.Hooks, m.Servers = nil, nil
		if encode(m) != encode(portable) {
			t.Errorf("%s says %+v, and plugin.json %+v", path, m, portable)
		}
	}
	// Go has no lookahead in regular expressions. The name has neither -- nor ..
	text := strings.Replace(check.ReadFile(t, repository+"/testdata/agent-plugins-1.0.0/plugin.schema.json"), `(?!.*(?:--|\\.\\.))`, "", 1)
	schema, err := jsonschema.CompileString("https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", text)
	if err != nil {
		t.Fatal(err)
	}
	var plugin any
	if err := json.Unmarshal([]byte(check.ReadFile(t, pluginDir+"/plugin.json")), &plugin); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(plugin); err != nil {
		t.Errorf("plugin.json: %#v", err)
	}
	for path, want := range map[string]string{
		"/.claude-plugin/marketplace.json":  `"source": "./plugin",`,
		"/.agents/plugins/marketplace.json": `"path": "./plugin/com.openai.codex"`,
	} {
		if text := check.ReadFile(t, repository+path); !strings.Contains(text, want) || strings.Count(text, `"name": "oacp"`) != 2 {
			t.Errorf("%s does not lead to the plugin oacp with %s:\n%s", path, want, text)
		}
	}
}

// TestPluginInSettings checks in which settings the plugin is found, what doctor says of it, and what it leaves to a setup.
func TestPluginInSettings(t *testing.T) {
	t.Setenv("PATH", "")
	const claude, codex = "home/.claude/settings.json", "home/.codex/config.toml"
	for name, c := range map[string]struct {
		prepare func(s *scene)
		want    []string
	}{
		"claude": {func(s *scene) { s.write(claude, `{"enabledPlugins": {"oacp@oacp": true}}`) },
			[]string{"ok claude (plugin): is enabled in " + claude}},
		"another agent": {func(s *scene) { s.write(codex, "[plugins.\"oacp@oacp\"]\nenabled = true\n") },
			[]string{"ok codex (plugin): is enabled in " + codex, "warn codex (plugin): the workspace has no agent codex"}},
		"off": {func(s *scene) { s.write(codex, "[plugins.\"oacp@oacp\"]\nenabled = false\n") }, nil},
		"off in the project": {func(s *scene) {
			s.write(claude, `{"enabledPlugins": {"oacp@oacp": true}}`)
			s.write("project/.claude/settings.local.json", `{"enabledPlugins": {"oacp@oacp": false}}`)
		}, nil},
		"without hooks": {func(s *scene) {
			s.write(claude, `{"enabledPlugins": {"other@oacp": true}}`)
			s.write("project/.claude/settings.json", `{"enabledPlugins": {"oacp@oacp": true}, "disableAllHooks": true}`)
		}, []string{"ok claude (plugin): is enabled in project/.claude/settings.json",
			"warn claude (plugin): disableAllHooks in project/.claude/settings.json"}},
		"with a setup": {func(s *scene) {
			s.write(claude, `{"enabledPlugins": {"oacp@oacp": true}}`)
			s.do(Prepare, s.options(live.Claude, Project))
		}, []string{"ok claude (project): hooks in ", "warn claude (project): hooks call oacp, and",
			"ok claude (plugin): is enabled in " + claude + ", and leaves the sessions to oacp setup"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			check.WriteFile(t, filepath.Join(s.project, ".git", "HEAD"), "")
			c.prepare(s)
			o := Options{Workspace: s.workspace, Getenv: s.options(live.Claude, User).Getenv}
			if got := s.lines(Inspect(o, s.project)); !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("doctor says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if slices.ContainsFunc(Inspect(o, s.project), func(f doctor.Finding) bool {
				return f.Severity == doctor.SeveritySkipped && c.want != nil && f.Name == strings.Fields(c.want[0])[1]
			}) {
				t.Error("doctor says that it is not set up")
			}
		})
	}
}

// TestIsSetUp checks for which sessions the plugin finds a setup.
func TestIsSetUp(t *testing.T) {
	for _, c := range everywhere {
		t.Run(string(c.program)+" "+string(c.scope), func(t *testing.T) {
			s := newScene(t)
			check.WriteFile(t, filepath.Join(s.project, ".git", "HEAD"), "")
			check.WriteFile(t, filepath.Join(s.project, "below", "x"), "")
			o := s.options(c.program, c.scope)
			isSetUp := func(folder string, want bool) {
				t.Helper()
				if got := (Options{Program: c.program, Getenv: o.Getenv}).IsSetUp(folder); got != want {
					t.Errorf("%s is set up: %t, want %t", folder, got, want)
				}
			}
			isSetUp(s.project, false)
			s.do(Prepare, o)
			isSetUp(s.project, true)
			isSetUp(filepath.Join(s.project, "below"), true)
			isSetUp(s.home, c.scope == User)
			s.write(c.files[0], "{")
			isSetUp(s.project, false)
			s.write(c.files[0], "{}")
			s.do(PrepareRemoval, o)
			isSetUp(s.project, false)
		})
	}
}
