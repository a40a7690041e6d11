package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
)

// A scene is a project with a workspace, and a user's home.
type scene struct {
	t             *testing.T
	home, project string
	workspace     *mailbox.Workspace
}

func newScene(t *testing.T) *scene {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, home: filepath.Join(folder, "home"), project: filepath.Join(folder, "project")}
	for _, name := range []string{s.home, filepath.Join(s.project, ".git"), filepath.Join(s.project, ".oacp", "agents", "claude", "inbox")} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if s.workspace, err = mailbox.Open(filepath.Join(s.project, ".oacp"), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.workspace.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *scene) options(program live.Program, scope Scope) Options {
	o := Options{Program: program, Scope: scope, Agent: "claude", Command: "oacp", Getenv: func(name string) string {
		return map[string]string{"HOME": s.home}[name]
	}}
	if scope == Project {
		o.Dir, o.Workspace = s.project, s.workspace
	}
	return o
}

// do applies a plan and returns the action for each file, by its path below the scene.
func (s *scene) do(prepare func(Options) (*Plan, error), o Options) map[string]Action {
	s.t.Helper()
	plan, err := prepare(o)
	if err == nil {
		err = plan.Apply()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	actions := make(map[string]Action)
	for _, c := range plan.Changes {
		below, err := filepath.Rel(filepath.Dir(s.home), c.Path)
		if err != nil {
			s.t.Fatal(err)
		}
		actions[filepath.ToSlash(below)] = c.Action
	}
	return actions
}

// write writes a file below the scene, and makes its folder.
func (s *scene) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(filepath.Dir(s.home), name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o640)); err != nil {
		s.t.Fatal(err)
	}
}

// files returns all files of the scene but those in the workspace, with their modes and contents.
func (s *scene) files() map[string]string {
	s.t.Helper()
	found := make(map[string]string)
	top := filepath.Dir(s.home)
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == ".oacp" {
			return filepath.SkipDir
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		below, _ := filepath.Rel(top, path)
		found[filepath.ToSlash(below)] = info.Mode().String() + "\n" + string(data)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

var everywhere = []struct {
	program live.Program
	scope   Scope
	files   []string
}{
	{live.Claude, Project, []string{"project/.claude/settings.local.json", "home/.claude.json", "project/CLAUDE.md"}},
	{live.Claude, User, []string{"home/.claude/settings.json", "home/.claude.json", "home/.claude/CLAUDE.md"}},
	{live.Codex, Project, []string{"project/.codex/hooks.json", "project/.codex/config.toml", "project/AGENTS.md"}},
	{live.Codex, User, []string{"home/.codex/hooks.json", "home/.codex/config.toml", "home/.codex/AGENTS.md"}},
}

// TestSetup checks which files a setup makes, that a second one changes nothing, that other options
// replace what is ours, and that the removal removes everything.
func TestSetup(t *testing.T) {
	for _, c := range everywhere {
		t.Run(string(c.program)+" "+string(c.scope), func(t *testing.T) {
			s := newScene(t)
			empty := s.files()
			o := s.options(c.program, c.scope)
			all := func(a Action) map[string]Action {
				want := make(map[string]Action)
				for _, name := range c.files {
					want[name] = a
				}
				return want
			}
			wantActions(t, s.do(Prepare, o), all(Made))
			once := s.files()
			wantActions(t, s.do(Prepare, o), all(Unchanged))
			if !maps.Equal(once, s.files()) {
				t.Error("the second setup changed a file")
			}
			o.Agent, o.Sync = "reviewer", "5s"
			want := all(Changed)
			want[c.files[2]] = Unchanged // the instructions name no agent
			wantActions(t, s.do(Prepare, o), want)
			for _, name := range c.files[:2] {
				if text := s.files()[name]; strings.Contains(text, `"claude"`) || strings.Contains(text, "-claude}") || strings.Contains(text, "agent claude") || !strings.Contains(text, "reviewer") {
					t.Errorf("%s still names the agent of before:\n%s", name, text)
				}
			}
			wantActions(t, s.do(PrepareRemoval, o), all(Removed))
			if got := s.files(); !maps.Equal(got, empty) {
				t.Errorf("left after the removal: %v", slices.Sorted(maps.Keys(got)))
			}
			wantActions(t, s.do(PrepareRemoval, o), all(Unchanged))
		})
	}
}

func wantActions(t *testing.T, got, want map[string]Action) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("the actions are %v, want %v", got, want)
	}
}

// TestKeepsOthers checks that a removal leaves what others have written before the setup, with its order and the mode of the file.
func TestKeepsOthers(t *testing.T) {
	for _, c := range everywhere {
		t.Run(string(c.program)+" "+string(c.scope), func(t *testing.T) {
			s := newScene(t)
			for _, name := range c.files {
				text := "{\"hooks\" : {\"SessionStart\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"true\"}]}]},\n \"model\": \"opus<\"}"
				switch filepath.Ext(name) {
				case ".md":
					text = "# Rules\r\n\r\nNone.\r\n"
				case ".toml":
					text = "model = \"x\" # mine\n[mcp_servers.other]\ncommand = \"other\"\n"
				}
				s.write(name, text)
			}
			before := s.files()
			o := s.options(c.program, c.scope)
			for range 2 {
				s.do(Prepare, o)
				o.Agent = "reviewer"
			}
			for _, action := range s.do(PrepareRemoval, o) {
				if action != Changed {
					t.Errorf("the action is %s, want changed", action)
				}
			}
			for name, text := range s.files() {
				if !slices.Contains(c.files, name) {
					t.Errorf("%s is left", name)
				} else if want := before[name]; filepath.Ext(name) != ".json" && text != want || sameWords(text) != sameWords(want) {
					t.Errorf("before:\n%q\nafter:\n%q", want, text)
				}
			}
		})
	}
}

// sameWords returns a text without white space.
func sameWords(text string) string { return strings.Join(strings.Fields(text), "") }

// TestTakesServer checks that a server of the user, as codex mcp add and claude mcp add write it, makes way for that of setup, and keeps
// its other settings.
func TestTakesServer(t *testing.T) {
	for _, c := range []struct {
		program    live.Program
		name, text string
	}{
		{live.Codex, "home/.codex/config.toml", "[mcp_servers.oacp]\nargs = [\"mcp\", \"--agent\", \"other\"]\ncommand = \"oacp\"\n"},
		{live.Claude, "home/.claude.json", `{"mcpServers": {"oacp": {"args": ["mcp", "--agent", "other"], "command": "/opt/oacp", "env": {"A": "b"}}}}`},
	} {
		s := newScene(t)
		s.write(c.name, c.text)
		s.do(Prepare, s.options(c.program, User))
		text := withoutMode(s.files()[c.name])
		if strings.Contains(text, "other") || strings.Contains(c.text, "env") != strings.Contains(text, "env") {
			t.Errorf("%s is\n%s", c.name, text)
		}
		s.do(PrepareRemoval, s.options(c.program, User))
		if left, ok := s.files()[c.name]; ok {
			t.Errorf("after the removal it is\n%s", left)
		}
	}
}

// TestSwitchedOff checks what is said of settings that switch hooks off.
func TestSwitchedOff(t *testing.T) {
	for name, c := range map[string]struct {
		program          live.Program
		file, text, want string
	}{
		"prescribed hooks": {live.Claude, "managed/managed-settings.json", `{"allowManagedHooksOnly": true, "hooks": 5}`, "allowManagedHooksOnly in managed/managed-settings.json switches hooks off"},
		"the user's":       {live.Claude, "home/.claude/settings.json", `{"disableAllHooks": true, "allowManagedHooksOnly": true}`, "disableAllHooks in home/.claude/settings.json switches hooks off"},
		"the project's":    {live.Claude, "project/.claude/settings.json", `{"disableAllHooks": true}`, "disableAllHooks in project/.claude/settings.json switches hooks off"},
		"invalid":          {live.Claude, "managed/managed-settings.json", `{`, ""},
		"codex":            {live.Codex, "home/.codex/config.toml", "[features]\nhooks = false\n", "features.hooks in home/.codex/config.toml switches hooks off"},
		"codex, on":        {live.Codex, "home/.codex/config.toml", "[features]\nhooks = true\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			before := managed
			managed = filepath.Join(filepath.Dir(s.home), "managed")
			defer func() { managed = before }()
			s.write(c.file, c.text)
			o := s.options(c.program, Project)
			got := strings.ReplaceAll(strings.Join(o.Obstacles(), "\n"), filepath.Dir(s.home)+string(filepath.Separator), "")
			if got != c.want {
				t.Errorf("setup says %q, want %q", got, c.want)
			}
		})
	}
}

func withoutMode(text string) string {
	_, text, _ = strings.Cut(text, "\n")
	return text
}

// TestRemoveEdited checks that a removal leaves what others have written since the setup.
func TestRemoveEdited(t *testing.T) {
	for _, c := range everywhere {
		t.Run(string(c.program)+" "+string(c.scope), func(t *testing.T) {
			s := newScene(t)
			o := s.options(c.program, c.scope)
			s.do(Prepare, o)
			for name, text := range s.files() {
				_, text, _ = strings.Cut(text, "\n")
				switch filepath.Ext(name) {
				case ".md":
					text = "# Mine\n\n" + text + "\nMore.\n"
				case ".toml":
					text = "model = \"x\"\n\n" + text + "\n[mcp_servers.oacp.tools.send_message]\napproval_mode = \"prompt\"\n\n# Mine, too.\n[tui]\ntheme = \"dark\"\n"
				case ".json":
					text = strings.Replace(text, "{", "{\n  \"theme\": \"dark\",", 1)
					text = strings.Replace(text, "\"Stop\": [", "\"Stop\": [\n      {\"hooks\": [{\"type\": \"command\", \"command\": \"true\"}]},", 1)
					text = strings.Replace(text, "\"SessionStart\": [", "\"PreToolUse\": [", 1) // ours, where setup writes none
				}
				s.write(name, text)
			}
			s.do(PrepareRemoval, o)
			for name, text := range s.files() {
				_, text, _ = strings.Cut(text, "\n")
				want := map[string]string{
					".md":   "# Mine\n\nMore.\n",
					".toml": "model = \"x\"\n\n# Mine, too.\n[tui]\ntheme = \"dark\"\n",
					".json": "{\n  \"theme\": \"dark\"\n}\n",
				}[filepath.Ext(name)]
				if strings.Contains(text, "Stop") {
					want = "{\n  \"theme\": \"dark\",\n  \"hooks\": {\n    \"Stop\": [\n      {\n        \"hooks\": [\n          {\n            \"type\": \"command\",\n            " +
						"\"command\": \"true\"\n          }\n        ]\n      }\n    ]\n  }\n}\n"
				}
				if text != want {
					t.Errorf("%s is\n%s\nwant\n%s", name, text, want)
				}
			}
		})
	}
}

// TestReviewedHooksStay checks that a hook of ours keeps its place among those of others, because
// codex knows reviewed hooks by their places.
func TestReviewedHooksStay(t *testing.T) {
	s := newScene(t)
	o := s.options(live.Codex, User)
	s.do(Prepare, o)
	name := "home/.codex/hooks.json"
	s.write(name, strings.Replace(withoutMode(s.files()[name]), "\"Stop\": [\n", "\"Stop\": [ {\"hooks\":[{\"type\":\"command\",\"command\":\"first\"}]},\n", 1))
	before := withoutMode(s.files()[name])
	wantActions(t, s.do(Prepare, o), map[string]Action{name: Unchanged, "home/.codex/config.toml": Unchanged, "home/.codex/AGENTS.md": Unchanged})
	o.Agent = "reviewer"
	s.do(Prepare, o)
	if got, want := withoutMode(s.files()[name]), strings.ReplaceAll(before, "agent claude", "agent reviewer"); sameWords(got) != sameWords(want) {
		t.Errorf("the file is\n%s\nwant\n%s", got, want)
	}
}

// TestRefuses checks what stops a setup, and that it then changes nothing.
func TestRefuses(t *testing.T) {
	settings, config, notes := "project/.claude/settings.local.json", "project/.codex/config.toml", "project/CLAUDE.md"
	for _, c := range []struct {
		name, text, want string
		program          live.Program
	}{
		{settings, "{\n  \"a\": 1,\n  oops\n}", "settings.local.json: line 3, column 3: ", live.Claude},
		{settings, "{\n  // mine\n  \"a\": 1\n}", "settings.local.json: line 2, column 3: invalid character", live.Claude},
		{settings, "{\"a\": [1,\n]}", "settings.local.json: line 2, column 1: invalid character", live.Claude},
		{settings, "[]", "settings.local.json: the file: want an object", live.Claude},
		{settings, `{"hooks": []}`, "settings.local.json: hooks: want an object", live.Claude},
		{settings, `{"hooks": {"Stop": {}}}`, "settings.local.json: hooks.Stop: want an array", live.Claude},
		{settings, `{"permissions": {"allow": "all"}}`, "settings.local.json: permissions.allow: want an array", live.Claude},
		{"home/.claude.json", `{"projects": 5}`, ".claude.json: projects: want an object", live.Claude},
		{"home/.claude.json", `{"projects": {"PROJECT": {"mcpServers": {"oacp": {"command": "docker"}}}}}`, "another MCP server is registered as oacp: \"docker\"", live.Claude},
		{notes, "text\n" + sectionBegin + "\n", "CLAUDE.md: line 2, column 1: <!-- oacp:begin --> and <!-- oacp:end --> are not there once each, in this order", live.Claude},
		{notes, sectionEnd, "CLAUDE.md: line 1, column 18: <!-- oacp:begin --> and", live.Claude},
		{config, "a = 1\nb = = 2\n", "config.toml: line 2, column 5: ", live.Codex},
		{config, "[mcp_servers.oacp]\ncommand = \"docker\"\nargs = [\"run it\"]\n", "another MCP server is registered as oacp: \"docker\"", live.Codex},
		{config, "mcp_servers = {}\n", "config.toml: the table mcp_servers is written in a way that oacp cannot change", live.Codex},
		{config, "mcp_servers = 1\n", "config.toml: mcp_servers is not a table", live.Codex},
	} {
		t.Run(c.want, func(t *testing.T) {
			s := newScene(t)
			s.write(c.name, strings.ReplaceAll(c.text, "PROJECT", s.project))
			before := s.files()
			_, err := Prepare(s.options(c.program, Project))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %s", err, c.want)
			}
			if !maps.Equal(before, s.files()) {
				t.Error("a file changed")
			}
		})
	}
}

// TestObstacles checks files that cannot be written, or lead elsewhere.
func TestObstacles(t *testing.T) {
	settings := "project/.claude/settings.local.json"
	for name, c := range map[string]struct {
		prepare func(s *scene) error
		want    string
	}{
		"read-only file": {func(s *scene) error {
			s.write(settings, "{}")
			return os.Chmod(filepath.Join(s.project, ".claude/settings.local.json"), 0o400)
		}, "settings.local.json: it is read-only"},
		"folder": {func(s *scene) error {
			return os.MkdirAll(filepath.Join(s.project, ".claude/settings.local.json"), 0o755)
		}, durable.ErrNotRegular.Error()},
		"file for a folder": {func(s *scene) error { s.write("project/.claude", ""); return nil }, "not a directory"},
		"link to nothing": {func(s *scene) error {
			return os.Symlink("missing", filepath.Join(s.project, "CLAUDE.md"))
		}, "CLAUDE.md: it is a link to a file that does not exist"},
		"link out of the project": {func(s *scene) error {
			s.write("home/.bashrc", "")
			return os.Symlink(filepath.Join(s.home, ".bashrc"), filepath.Join(s.project, "CLAUDE.md"))
		}, "CLAUDE.md: it is a link that leads out of the project"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			if err := c.prepare(s); err != nil {
				t.Fatal(err)
			}
			_, err := Prepare(s.options(live.Claude, Project))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %s", err, c.want)
			}
		})
	}
}

// TestThroughLinks checks that a link to settings elsewhere stays one.
func TestThroughLinks(t *testing.T) {
	s := newScene(t)
	s.write("home/dotfiles/settings.json", "{}\n")
	s.write("project/AGENTS.md", "# Rules\n")
	for link, to := range map[string]string{"home/.claude": "dotfiles", "project/CLAUDE.md": "AGENTS.md"} {
		if err := os.Symlink(to, filepath.Join(filepath.Dir(s.home), link)); err != nil {
			t.Fatal(err)
		}
	}
	s.do(Prepare, s.options(live.Claude, User))
	if text := s.files()["home/dotfiles/settings.json"]; !strings.Contains(text, "oacp hook claude") {
		t.Errorf("the file behind the link is\n%s", text)
	}
	s.do(Prepare, s.options(live.Claude, Project))
	s.do(Prepare, s.options(live.Codex, Project))
	if text := s.files()["project/AGENTS.md"]; strings.Count(text, sectionBegin) != 1 {
		t.Errorf("the instructions are\n%s", text)
	}
	s.do(PrepareRemoval, s.options(live.Codex, Project))
	if text := withoutMode(s.files()["project/AGENTS.md"]); !strings.Contains(text, sectionBegin+" claude -->") {
		t.Errorf("without codex, AGENTS.md is\n%s", text)
	}
	s.do(PrepareRemoval, s.options(live.Claude, Project))
	if text := withoutMode(s.files()["project/AGENTS.md"]); text != "# Rules\n" {
		t.Errorf("AGENTS.md is\n%s", text)
	}
}

// TestTwoProjects checks that the setups of two projects, which have a file in common, go
// one by one.
func TestTwoProjects(t *testing.T) {
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		s := newScene(t)
		text := "{\n  \"projects\": {\"/other\": {}}\n}\n"
		s.write("home/.claude.json", text)
		setups := []Options{s.options(live.Claude, Project), s.options(live.Claude, Project)}
		if setups[1].Dir = filepath.Join(filepath.Dir(s.project), "second"); os.Mkdir(setups[1].Dir, 0o755) != nil {
			t.Fatal("no second project")
		}
		for _, o := range setups {
			s.do(Prepare, o)
		}
		s.do(PrepareRemoval, setups[order[0]])
		left := withoutMode(s.files()["home/.claude.json"])
		if !strings.Contains(left, setups[order[1]].Dir) || strings.Contains(left, setups[order[0]].Dir) {
			t.Errorf("after the first removal the file is\n%s", left)
		}
		s.do(PrepareRemoval, setups[order[1]])
		if got := withoutMode(s.files()["home/.claude.json"]); sameWords(got) != sameWords(text) {
			t.Errorf("after both the file is\n%s", got)
		}
	}
}

// TestChangedMeanwhile checks that a file which changes between plan and work is left alone.
func TestChangedMeanwhile(t *testing.T) {
	s := newScene(t)
	s.write("home/.claude/settings.json", "{}")
	plan, err := Prepare(s.options(live.Claude, User))
	if err != nil {
		t.Fatal(err)
	}
	s.write("home/.claude/settings.json", `{"theme":"dark"}`)
	if err := plan.Apply(); !errors.Is(err, errChanged) {
		t.Errorf("the error is %v, want %v", err, errChanged)
	}
	if got := withoutMode(s.files()["home/.claude/settings.json"]); got != `{"theme":"dark"}` {
		t.Errorf("the file is %s", got)
	}
}

// TestSectionIsShort checks the size of what every session of an agent reads: a token has about
// four characters.
func TestSectionIsShort(t *testing.T) {
	if tokens := live.Tokens(sectionText); tokens > 120 {
		t.Errorf("the section has %d tokens, want at most 120", tokens)
	}
}

// TestHookNeverChanges pins the hook: codex asks its user to review one that differs in anything.
func TestHookNeverChanges(t *testing.T) {
	o := Options{Program: live.Codex, Agent: "codex", Command: "oacp", Sync: "5s"}
	got, err := json.Marshal(entryFor("Stop", o.hookCommand()))
	if want := `{"type":"command","command":"oacp hook codex --agent codex --sync 5s","timeout":30}`; err != nil || string(got) != want {
		t.Errorf("the hook is %s, %v, want %s", got, err, want)
	}
	got, err = json.Marshal(entryFor("SessionEnd", "oacp"))
	if want := `{"type":"command","command":"oacp","timeout":3}`; err != nil || string(got) != want {
		t.Errorf("the hook is %s, %v, want %s", got, err, want)
	}
	if !bytes.Contains([]byte((Options{Program: live.Codex, Agent: "a", Command: "/home/my user/oacp"}).hookCommand()), []byte("'/home/my user/oacp' hook")) {
		t.Error("a path with a space is not quoted")
	}
}
