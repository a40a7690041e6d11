package project_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// environment reads variables from a map.
func environment(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

// workspaceAt makes the folders of a workspace and, if marked, its workspace.json.
func workspaceAt(t *testing.T, dir string, marked bool) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, schema.AgentsName), 0o755); err != nil {
		t.Fatal(err)
	}
	if marked {
		check.WriteFile(t, filepath.Join(dir, schema.MarkerName), "{}")
	}
}

// home makes a home with projects, repositories that lead to them, and a workspace of its own, and
// returns its path without links.
func home(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, project := range []string{"alpha", "beta"} {
		workspaceAt(t, filepath.Join(dir, "oacp/projects", project), true)
	}
	workspaceAt(t, filepath.Join(dir, "oacp/projects/unmarked"), false)
	check.WriteFile(t, filepath.Join(dir, "oacp/projects/file"), "")
	workspaceAt(t, filepath.Join(dir, "own"), true)
	workspaceAt(t, filepath.Join(dir, "folder/.oacp"), true)
	for _, folder := range []string{"own/a/b", "folder/a", "linked/a", "broken", "elsewhere/agents"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"linked/.oacp": "../oacp/projects/beta/workspace.json",
		"broken/.oacp": "nowhere",
		"own/a/.oacp":  filepath.Join(dir, "own/a/b"), // leads to no workspace
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFindWorkspace(t *testing.T) {
	dir := home(t)
	tests := []struct {
		name  string
		place project.Place
		env   map[string]string
		from  string
		want  string
	}{
		{"folder", project.Place{Dir: "given", Project: "alpha"}, map[string]string{"OACP_WORKSPACE": "env"}, "own", "given"},
		{"project of a given home", project.Place{Project: "alpha", Home: dir + "/oacp"}, map[string]string{"OACP_HOME": "wrong", "OACP_WORKSPACE": "env"}, "own", dir + "/oacp/projects/alpha"},
		{"project of OACP_HOME", project.Place{Project: "beta"}, map[string]string{"OACP_HOME": dir + "/oacp"}, "own", dir + "/oacp/projects/beta"},
		{"project without a marker", project.Place{Project: "unmarked"}, map[string]string{"OACP_HOME": dir + "/oacp"}, "own", dir + "/oacp/projects/unmarked"},
		{"OACP_WORKSPACE", project.Place{}, map[string]string{"OACP_WORKSPACE": "env"}, "own", "env"},
		{"the folder itself", project.Place{}, nil, "own", dir + "/own"},
		{"a folder above", project.Place{}, nil, "own/a/b", dir + "/own"},
		{"a folder .oacp", project.Place{}, nil, "folder/a", dir + "/folder/.oacp"},
		{"a link .oacp", project.Place{}, nil, "linked/a", dir + "/oacp/projects/beta"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := test.place
			p.Getenv, p.WorkingDir = environment(test.env), filepath.Join(dir, test.from)
			if got, err := p.Find(); err != nil || got != test.want {
				t.Errorf("found %q (%v), want %q", got, err, test.want)
			}
		})
	}
	for _, from := range []string{"broken", "elsewhere", "oacp/projects"} {
		p := project.Place{Getenv: environment(nil), WorkingDir: filepath.Join(dir, from)}
		if got, err := p.Find(); !errors.Is(err, mailbox.ErrNoWorkspace) {
			t.Errorf("from %s found %q (%v), want ErrNoWorkspace", from, got, err)
		}
	}
}

func TestFindUnknownProject(t *testing.T) {
	dir := home(t)
	p := project.Place{Project: "alhpa", Home: filepath.Join(dir, "oacp"), Getenv: environment(nil)}
	_, err := p.Find()
	var unknown *project.UnknownProjectError
	if !errors.As(err, &unknown) || len(unknown.Known) != 3 || unknown.Known[0] != "alpha" {
		t.Fatalf("finding gave %v, want an UnknownProjectError with alpha first", err)
	}
	check.Error(t, err, "alhpa", "alpha", "beta", filepath.Join(dir, "oacp"))
	p.Home = filepath.Join(dir, "nowhere")
	if _, err := p.Find(); !errors.As(err, &unknown) || len(unknown.Known) != 0 {
		t.Errorf("finding in a missing home gave %v, want an UnknownProjectError without names", err)
	}
}

func TestProjectNamesThatArePaths(t *testing.T) {
	for _, name := range []string{"..", ".", ".hidden", "-x", "a/b", "/etc", `a\b`, "a\x00b", "../own"} {
		p := project.Place{Project: name, Home: t.TempDir(), Getenv: environment(nil)}
		var unknown *project.UnknownProjectError
		if dir, err := p.Find(); err == nil || errors.As(err, &unknown) {
			t.Errorf("project %q gave %q (%v), want an error about the name", name, dir, err)
		}
	}
	if _, err := (project.Place{Home: "home"}).ProjectDir(); err == nil {
		t.Error("the empty project name gave no error")
	}
	for _, name := range []string{"a", "my project", "v1.2", "ü"} {
		p := project.Place{Project: name, Home: "/home"}
		if dir, err := p.ProjectDir(); err != nil || dir != filepath.Join("/home/projects", name) {
			t.Errorf("project %q is at %q (%v)", name, dir, err)
		}
	}
}

func TestProjects(t *testing.T) {
	p := project.Place{Home: filepath.Join(home(t), "oacp")}
	got, err := p.Projects()
	if want := []string{"alpha", "beta", "unmarked"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("the projects are %q (%v), want %q", got, err, want)
	}
}
