package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/gittest"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// A gitPlace is a clone of a bare repository with a workspace that has a repository of its own.
type gitPlace struct {
	remote, clone string
	w             *mailbox.Workspace
}

// newGitPlace makes the place, isolated from the user's settings.
func newGitPlace(t *testing.T) *gitPlace {
	t.Helper()
	dir := gittest.Home(t)
	p := &gitPlace{remote: filepath.Join(dir, "remote.git"), clone: filepath.Join(dir, "clone")}
	gittest.Run(t, dir, "init", "--quiet", "--bare", p.remote)
	gittest.Run(t, dir, "clone", "--quiet", p.remote, p.clone)
	gittest.Run(t, p.clone, "commit", "--quiet", "--allow-empty", "-m", "First")
	workspace := filepath.Join(p.clone, ".oacp")
	if _, err := project.Init(workspace, project.InitOptions{Agents: []schema.AgentName{"claude", "codex"}, Now: mailboxtest.Time}); err != nil {
		t.Fatal(err)
	}
	if _, err := gitmail.Init(t.Context(), mailboxtest.Open(t, workspace), gitmail.InitOptions{Enclosing: p.clone}); err != nil {
		t.Fatal(err)
	}
	p.w = mailboxtest.Open(t, workspace)
	p.sync(t)
	return p
}

func (p *gitPlace) sync(t testing.TB) {
	t.Helper()
	r, err := gitmail.Open(t.Context(), p.w)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Sync(t.Context(), gitmail.Options{}); err != nil {
		t.Fatal(err)
	}
}

func (p *gitPlace) options(now time.Time) Options {
	return Options{Now: now, Autonomy: unset, Notify: silent, Enclosing: p.clone}
}

// inspect returns the findings about git, each in a line.
func (p *gitPlace) inspect(t testing.TB, now time.Time) string {
	t.Helper()
	findings, err := Inspect(t.Context(), p.w, p.options(now))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range findings {
		if f.Category == categoryGit {
			lines = append(lines, fmt.Sprintf("%s %s: %s", f.Severity, f.Name, f.Message))
		}
	}
	return strings.Join(lines, "\n")
}

func TestGitWorkspaceInGoodOrder(t *testing.T) {
	p := newGitPlace(t)
	want := fmt.Sprintf("ok remote: oacp-3 of %s\nok sync: nothing to send; the last sync was 60s ago", p.remote)
	r, err := gitmail.Open(t.Context(), p.w)
	if err != nil {
		t.Fatal(err)
	}
	at, err := r.LastSync()
	if err != nil {
		t.Fatal(err)
	}
	if got := p.inspect(t, at.Add(time.Minute)); got != want {
		t.Errorf("found\n%s\nwant\n%s", got, want)
	}
}

// gitTroubles are what is wrong with the repository of a workspace.
var gitTroubles = []struct {
	name string
	make func(t *testing.T, p *gitPlace)
	// finding begins the line of the finding, and words are in it.
	finding string
	words   []string
}{
	{"unsent", func(t *testing.T, p *gitPlace) {
		mailboxtest.Send(t, p.w, mailboxtest.Draft("codex"))
		r := mailboxtest.Send(t, p.w, mailboxtest.Draft("codex"))
		check.Remove(t, r.Inboxes[0])
	}, "warn sync: ", []string{"2 changes to send", "ago"}},
	{"no objects", func(t *testing.T, p *gitPlace) {
		check.Remove(t, filepath.Join(p.w.Dir(), ".git/objects"))
		check.WriteFile(t, filepath.Join(p.w.Dir(), ".git/objects/info/x"), "")
	}, "error .git: cannot be used: ", []string{"its git repository is damaged", "git ls-tree"}},
	{"empty objects", func(t *testing.T, p *gitPlace) {
		objects, err := filepath.Glob(filepath.Join(p.w.Dir(), ".git/objects/??/*"))
		if err != nil || len(objects) == 0 {
			t.Fatal(objects, err)
		}
		for _, object := range objects {
			check.Remove(t, object)
			check.WriteFile(t, object, "")
		}
	}, "error .git: cannot be used: ", []string{"its git repository is damaged"}},
	{"no HEAD", func(t *testing.T, p *gitPlace) { check.Remove(t, filepath.Join(p.w.Dir(), ".git/HEAD")) },
		"error .git: cannot be used: ", []string{"its git repository is damaged", "not a git repository"}},
	{"no config", func(t *testing.T, p *gitPlace) { check.Remove(t, filepath.Join(p.w.Dir(), ".git/config")) },
		"error .git: cannot be used: ", []string{"its git repository is damaged: its settings are gone"}},
	{"bad config", func(t *testing.T, p *gitPlace) { check.WriteFile(t, filepath.Join(p.w.Dir(), ".git/config"), "[[") },
		"error .git: cannot be used: ", []string{"its git repository is damaged", "bad config"}},
	{"no remote", func(t *testing.T, p *gitPlace) {
		gittest.Run(t, p.w.Dir(), "config", "--unset", "remote.oacp.url")
	}, "ok remote: is missing", nil},
	{"password", func(t *testing.T, p *gitPlace) {
		gittest.Run(t, p.w.Dir(), "config", "remote.oacp.url", "https://ada:secret@example.com/mail.git")
	}, "warn remote: the URL holds a password", nil},
	{"token", func(t *testing.T, p *gitPlace) {
		gittest.Run(t, p.w.Dir(), "config", "remote.oacp.url", "https://ghp_secret67890123456789@example.com/mail.git")
	}, "warn remote: the URL holds a password", nil},
	{"shown", func(t *testing.T, p *gitPlace) {
		check.WriteFile(t, filepath.Join(p.clone, ".git/info/exclude"), "# nothing\n")
	},
		"warn .oacp: is not ignored", []string{"clone"}},
	{"tracked", func(t *testing.T, p *gitPlace) {
		check.WriteFile(t, filepath.Join(p.clone, ".git/info/exclude"), "")
		blob := gittest.Run(t, p.clone, "hash-object", "-w", ".oacp/workspace.json")
		gittest.Run(t, p.clone, "update-index", "--add", "--cacheinfo", "100644,"+blob+",.oacp/workspace.json")
	}, "error .oacp: ", []string{"version control"}},
}

func TestGitTroubles(t *testing.T) {
	for _, trouble := range gitTroubles {
		t.Run(trouble.name, func(t *testing.T) {
			p := newGitPlace(t)
			trouble.make(t, p)
			found := p.inspect(t, time.Now())
			lines := strings.Split(found, "\n")
			at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, trouble.finding) })
			if at < 0 {
				t.Fatalf("found\n%s\nwant a line that begins with %q", found, trouble.finding)
			}
			for _, word := range trouble.words {
				if !strings.Contains(lines[at], word) {
					t.Errorf("finding %q does not say %q", lines[at], word)
				}
			}
			if strings.Contains(found, "secret") {
				t.Errorf("a secret is in\n%s", found)
			}
			fixed, _, err := Repair(t.Context(), p.w, p.options(time.Now()))
			if err != nil {
				t.Fatal(err)
			}
			if len(fixed) > 0 {
				t.Errorf("repaired %q", fixed)
			}
		})
	}
}

// TestGitDamageLosesNoMail follows the hint for a damaged repository.
func TestGitDamageLosesNoMail(t *testing.T) {
	p := newGitPlace(t)
	r := mailboxtest.Send(t, p.w, mailboxtest.Draft("codex"))
	p.sync(t)
	later := mailboxtest.Send(t, p.w, mailboxtest.Draft("codex"))
	check.Remove(t, filepath.Join(p.w.Dir(), ".git"))
	if _, err := gitmail.Init(t.Context(), p.w, gitmail.InitOptions{Enclosing: p.clone}); err != nil {
		t.Fatal(err)
	}
	p.sync(t)
	if got := mailboxtest.Files(t, p.w, "agents/codex/inbox"); !slices.Equal(got, []string{filepath.Base(r.Inboxes[0]), filepath.Base(later.Inboxes[0])}) {
		t.Errorf("the inbox holds %q", got)
	}
	if got := gittest.Run(t, p.w.Dir(), "log", "-1", "--format=%s", "oacp-3"); !strings.Contains(got, "claude → codex") {
		t.Errorf("the last commit is %q, want the message that was not sent", got)
	}
}

// TestCommittedWorkspace inspects a workspace that users commit with their code.
func TestCommittedWorkspace(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"good", map[string]string{}, "ok messages: git keeps them as they are"},
		{"no attributes", map[string]string{"mail/agents/.gitattributes": ""}, "warn .gitattributes: does not keep git"},
		{"other attributes", map[string]string{"mail/agents/.gitattributes": "*.md text\n"}, "warn .gitattributes: does not keep git"},
		{"attributes above", map[string]string{"mail/agents/.gitattributes": "", ".gitattributes": "mail/** -text -merge\n"}, "ok messages"},
		{"outboxes are ignored", map[string]string{".gitignore": "x\n*_task_request.yaml\n"}, "warn messages: git ignores them, because of .gitignore:2"},
		{"all is ignored", map[string]string{".gitignore": "mail/\n"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newGitPlace(t)
			dir := filepath.Join(p.clone, "mail")
			if _, err := project.Init(dir, project.InitOptions{Agents: []schema.AgentName{"claude", "codex"}, Now: mailboxtest.Time}); err != nil {
				t.Fatal(err)
			}
			for name, data := range c.files {
				if name = filepath.Join(p.clone, name); data == "" {
					check.Remove(t, name)
					continue
				}
				check.WriteFile(t, name, data)
			}
			p.w = mailboxtest.Open(t, dir)
			if got := p.inspect(t, time.Now()); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

// TestWorkspaceOutsideGit checks that nothing is said about git where there is none.
func TestWorkspaceOutsideGit(t *testing.T) {
	p := newGitPlace(t)
	p.w = mailboxtest.New(t, "claude")
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(p.w.Dir()))
	if got := p.inspect(t, time.Now()); got != "" {
		t.Errorf("found %q, want nothing", got)
	}
	t.Setenv("PATH", t.TempDir())
	if got := p.inspect(t, time.Now()); got != "" {
		t.Errorf("without git, found %q, want nothing", got)
	}
}

// TestGitWorkspaceWithoutGit checks that only a workspace with a repository of its own needs git.
func TestGitWorkspaceWithoutGit(t *testing.T) {
	p := newGitPlace(t)
	t.Setenv("PATH", t.TempDir())
	if got := p.inspect(t, time.Now()); got != "error git: git is not installed" {
		t.Errorf("found %q", got)
	}
	script := "#!/bin/sh\necho git version 2.29.9\n"
	check.WriteFile(t, filepath.Join(os.Getenv("PATH"), "git"), script)
	if err := os.Chmod(filepath.Join(os.Getenv("PATH"), "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := p.inspect(t, time.Now()); got != "error git: git 2.29.9 is too old: version 2.30 or later is needed" {
		t.Errorf("found %q", got)
	}
}
