package setup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox/doctor"
)

// lines returns findings as doctor prints them, without the folder of the scene and skipped ones.
func (s *scene) lines(findings []doctor.Finding) []string {
	var lines []string
	for _, f := range findings {
		if f.Severity != doctor.SeveritySkipped {
			lines = append(lines, string(f.Severity)+" "+f.Name+": "+strings.ReplaceAll(f.Message, filepath.Dir(s.home)+"/", ""))
		}
	}
	return lines
}

// TestInspect checks what doctor says of setups that do not work.
func TestInspect(t *testing.T) {
	t.Setenv("PATH", "")
	hooksOK := "ok claude (project): hooks in project/.claude/settings.local.json: oacp hook claude --agent claude"
	notOnPath := "warn claude (project): hooks call oacp, and there is no such program on the PATH"
	settings := "project/.claude/settings.local.json"
	for name, c := range map[string]struct {
		prepare func(s *scene)
		want    []string
	}{
		"nothing": {func(*scene) {}, nil},
		"all":     {func(s *scene) { s.do(Prepare, s.options(live.Claude, Project)) }, []string{hooksOK, notOnPath}},
		"another program": {func(s *scene) {
			o := s.options(live.Claude, Project)
			o.Command = "/gone/oacp"
			s.do(Prepare, o)
		}, []string{
			"ok claude (project): hooks in project/.claude/settings.local.json: /gone/oacp hook", "warn claude (project): hooks call /gone/oacp, and there is no such program",
		}},
		"unknown agent": {func(s *scene) {
			o := s.options(live.Claude, Project)
			o.Agent = "gone"
			s.do(Prepare, o)
		}, []string{
			"ok claude (project): hooks in " + settings, notOnPath, "warn claude (project): the workspace has no agent gone",
		}},
		"edited": {func(s *scene) {
			s.do(Prepare, s.options(live.Claude, Project))
			text := withoutMode(s.files()[settings])
			text = strings.Replace(text, `"Stop"`, `"PreToolUse"`, 1)
			s.write(settings, strings.Replace(text, "{", `{"disableAllHooks": true,`, 1))
			s.write("home/.claude.json", "{}")
		}, []string{
			"warn claude (project): no hook for Stop in " + settings, notOnPath,
			"warn claude (project): the MCP server is not registered in home/.claude.json",
			"warn claude (project): disableAllHooks in " + settings + " switches hooks off",
		}},
		"invalid": {func(s *scene) {
			s.do(Prepare, s.options(live.Claude, Project))
			s.write(settings, "{")
		}, []string{
			"warn claude (project): no hook for SessionStart",
			"warn claude (project): " + settings + ": line 1, column 2: ",
		}},
		"a link": {func(s *scene) {
			s.write("home/dotfiles/settings.json", "{}\n")
			link := filepath.Join(s.home, ".claude", "settings.json")
			if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink("../dotfiles/settings.json", link)); err != nil {
				t.Fatal(err)
			}
			s.do(Prepare, s.options(live.Claude, User))
		}, []string{"ok claude (user): hooks in home/.claude/settings.json", "warn claude (user): hooks call oacp, and"}},
		"both scopes": {func(s *scene) {
			s.do(Prepare, s.options(live.Codex, Project))
			s.do(Prepare, s.options(live.Codex, User))
			s.write("home/.codex/config.toml", withoutMode(s.files()["home/.codex/config.toml"])+"[features]\nhooks = false\n")
		}, []string{
			"ok codex (project): hooks in project/.codex/hooks.json",
			"warn codex (project): hooks call oacp, and",
			"warn codex (project): features.hooks in home/.codex/config.toml switches hooks off",
			"ok codex (user): hooks in home/.codex/hooks.json",
			"warn codex (user): hooks call oacp, and",
			"warn codex (user): features.hooks in home/.codex/config.toml switches hooks off",
			"warn codex: it is set up for the project and for the user: codex runs both",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			if err := os.WriteFile(filepath.Join(s.project, ".git", "HEAD"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			c.prepare(s)
			got := s.lines(Inspect(Options{Workspace: s.workspace, Getenv: s.options(live.Claude, User).Getenv}, s.project))
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("doctor says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestInspectErrors checks that doctor lists the last errors of hooks, but no old ones.
func TestInspectErrors(t *testing.T) {
	s := newScene(t)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	inspect := func() []string {
		t.Helper()
		findings, err := InspectErrors(s.workspace, now)
		if err != nil {
			t.Fatal(err)
		}
		return s.lines(findings)
	}
	if got := inspect(); got != nil {
		t.Errorf("an untouched workspace has %q", got)
	}
	for hours := 30; hours >= 0; hours -= 10 {
		if err := live.NoteError(s.workspace, now.Add(-time.Duration(hours)*time.Hour), errors.New("no space left")); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"warn hook: 2026-02-28T16:00:00Z no space left", "warn hook: 2026-03-01T02:00:00Z no space left", "warn hook: 2026-03-01T12:00:00Z no space left",
	}
	if got := inspect(); !slices.Equal(got, want) {
		t.Errorf("doctor says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
