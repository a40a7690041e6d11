package gitmail

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/gittest"
	"github.com/oacp-go/oacp/mailbox"
)

// newCode makes a repository with a commit at the path, and options of git init.
func newCode(t *testing.T, dir string, options ...string) string {
	t.Helper()
	gittest.Run(t, filepath.Dir(dir), append(append([]string{"init", "-q"}, options...), dir)...)
	check.WriteFile(t, filepath.Join(dir, "code.txt"), "one\n")
	gittest.Run(t, dir, "add", ".")
	gittest.Run(t, dir, "commit", "-q", "-m", "one")
	return dir
}

// newMailboxes makes a bare repository with a branch of mailboxes, and options of git init.
func newMailboxes(t *testing.T, dir, branch string, options ...string) string {
	t.Helper()
	gittest.Run(t, filepath.Dir(dir), append(append([]string{"init", "-q", "--bare"}, options...), dir)...)
	from := newCode(t, dir+".from", append(options, "--initial-branch="+branch+"-3")...)
	gittest.Run(t, from, "rm", "-q", "code.txt")
	check.WriteFile(t, filepath.Join(from, "workspace.json"), `{"project_name": "shared"}`)
	for _, agent := range []string{"codex", "claude", "-rf", "a b"} {
		check.WriteFile(t, filepath.Join(from, "agents", agent, ".agents", "a1"), "")
	}
	check.WriteFile(t, filepath.Join(from, ".oacp-format"), "3\n")
	gittest.Run(t, from, "add", ".")
	gittest.Run(t, from, "commit", "-q", "-m", "mail")
	gittest.Run(t, from, "push", "-q", dir, branch+"-3")
	return dir
}

// workspaceIn makes an empty workspace.
func workspaceIn(t *testing.T, dir string) *mailbox.Workspace {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "agents"), 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := mailbox.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func initialize(t *testing.T, w *mailbox.Workspace, options InitOptions) Initialized {
	t.Helper()
	made, err := Init(t.Context(), w, options)
	if err != nil {
		t.Fatalf("initializing: %v", err)
	}
	return made
}

func TestInitMakesARepository(t *testing.T) {
	dir := gittest.Home(t)
	code := newCode(t, filepath.Join(dir, "code"))
	gittest.Run(t, dir, "init", "-q", "--bare", "hub.git")
	gittest.Run(t, code, "remote", "add", "origin", "../hub.git")
	gittest.Run(t, code, "config", "user.email", "only@here")
	check.WriteFile(t, filepath.Join(dir, "template", "hooks", "pre-push"), "#!/bin/sh\nexit 1\n")
	gittest.Run(t, code, "config", "--global", "init.templateDir", filepath.Join(dir, "template"))
	w := workspaceIn(t, filepath.Join(code, ".oacp"))
	made := initialize(t, w, InitOptions{Enclosing: code})
	hub := filepath.Join(dir, "hub.git")
	if !made.Created || made.Remote != "origin" || made.URL != hub || made.Ref != DefaultRef || made.Found || made.Unreachable != nil {
		t.Errorf("init did %+v", made)
	}
	for key, want := range map[string]string{
		"core.bare": "true", "core.autocrlf": "false", "gc.auto": "0", "oacp.ref": DefaultRef, "oacp.remote": "origin",
		"remote.oacp.url": hub, "include.path": "../../.git/config", "user.email": "only@here",
	} {
		if got := gittest.Run(t, w.Dir(), "config", "--get", key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if got := gittest.Run(t, w.Dir(), "symbolic-ref", "HEAD"); got != DefaultRef+"-3" {
		t.Errorf("HEAD is %s", got)
	}
	if _, err := os.Stat(filepath.Join(w.Dir(), ".git/hooks")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the repository has the hooks of the user's template: %v", err)
	}
	if got := gittest.Run(t, code, "status", "--porcelain", "--ignored"); got != "!! .oacp/" {
		t.Errorf("the code has the status %q", got)
	}
	for _, args := range [][]string{{"status"}, {"add", "-A"}, {"clean", "-fdx"}, {"reset", "--hard"}, {"stash", "-a"}} {
		command := exec.Command("git", args...)
		command.Dir = w.Dir()
		if out, err := command.CombinedOutput(); err == nil {
			t.Errorf("git %s in the workspace succeeds: %s", args, out)
		}
	}
	gittest.Run(t, code, "clean", "-fdx")
	check.WriteFile(t, filepath.Join(code, "code.txt"), "two\n")
	gittest.Run(t, code, "stash", "-a")
	gittest.Run(t, code, "add", "-A")
	if _, err := os.Stat(filepath.Join(w.Dir(), "agents")); err != nil {
		t.Errorf("git clean and stash in the code: %v", err)
	}
}

func TestInitAgain(t *testing.T) {
	dir := gittest.Home(t)
	code := newCode(t, filepath.Join(dir, "code"))
	exclude := filepath.Join(code, ".git/info/exclude")
	check.WriteFile(t, exclude, "*.o")
	gittest.Run(t, code, "remote", "add", "origin", "https://ann:secret@127.0.0.1:1/x.git")
	w := workspaceIn(t, filepath.Join(code, ".oacp"))
	first := initialize(t, w, InitOptions{Enclosing: code, Ref: "refs/oacp/mail"})
	if first.Unreachable == nil || strings.Contains(first.Unreachable.Error(), "secret") {
		t.Errorf("the remote is %v, want an error without the password", first.Unreachable)
	}
	check.WriteFile(t, filepath.Join(w.Dir(), ".git/kept"), "")
	gittest.Run(t, w.Dir(), "config", "oacp.hooks", "true")
	hub := newMailboxes(t, filepath.Join(dir, "hub.git"), "oacp")
	gittest.Run(t, hub, "update-ref", "refs/oacp/mail-3", "refs/heads/oacp-3")
	gittest.Run(t, code, "remote", "set-url", "origin", hub)
	for range 2 {
		again := initialize(t, w, InitOptions{Enclosing: code})
		if again.Created || again.URL != hub || again.Ref != "refs/oacp/mail" || !again.Found || !again.Joined {
			t.Errorf("init did %+v", again)
		}
	}
	gittest.Run(t, w.Dir(), "config", "oacp.hooks")
	if got := check.ReadFile(t, exclude); got != "*.o\n/.oacp/\n" {
		t.Errorf("the exclude file is %q", got)
	}
	if config := check.ReadFile(t, filepath.Join(w.Dir(), ".git/config")); strings.Count(config, "[include]") != 1 || strings.Count(config, "[remote") != 1 {
		t.Errorf("the settings are\n%s", config)
	}
	gittest.Run(t, w.Dir(), "update-ref", "refs/oacp/base", trackingRef)
	// The remote is forgotten in the code: the workspace keeps it.
	gittest.Run(t, code, "remote", "remove", "origin")
	if again := initialize(t, w, InitOptions{Enclosing: code}); again.URL != hub || again.Joined {
		t.Errorf("init did %+v", again)
	}
}

func TestInitChoosesTheRemote(t *testing.T) {
	dir := gittest.Home(t)
	for _, test := range []struct {
		name       string
		remotes    []string
		upstream   string
		detached   bool
		wanted     string
		remote     string
		wantError  string
		wantRemote string
	}{
		{name: "none"},
		{name: "the only one", remotes: []string{"hub"}, wantRemote: "hub"},
		{name: "origin", remotes: []string{"hub", "origin"}, wantRemote: "origin"},
		{name: "that of the branch", remotes: []string{"hub", "origin"}, upstream: "hub", wantRemote: "hub"},
		{name: "the branch follows another branch", remotes: []string{"hub", "origin"}, upstream: ".", wantRemote: "origin"},
		{name: "detached", remotes: []string{"hub", "origin"}, upstream: "hub", detached: true, wantRemote: "origin"},
		{name: "several", remotes: []string{"a", "b"}},
		{name: "by name", remotes: []string{"a", "b/c"}, wanted: "b/c", wantRemote: "b/c"},
		{name: "by URL", remotes: []string{"a"}, wanted: "file:///nowhere/x.git", wantRemote: "file:///nowhere/x.git"},
		{name: "by path", wanted: "/nowhere/x.git", wantRemote: "/nowhere/x.git"},
		{name: "unknown", remotes: []string{"a", "b"}, wanted: "c", wantError: `no remote "c": it has a, b`},
		{name: "unknown, and none is there", wanted: "origin", wantError: `no remote "origin": it has none`},
		{name: "an option", wanted: "--upload-pack=/bin/sh:", wantError: "the repository has no remote"},
		{name: "a line break", wanted: "https://x/\n[core]", wantError: "the repository has no remote"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code := newCode(t, filepath.Join(t.TempDir(), "code"))
			for _, name := range test.remotes {
				gittest.Run(t, code, "remote", "add", name, filepath.Join(dir, "gone", name))
			}
			if test.upstream != "" {
				gittest.Run(t, code, "config", "branch.main.remote", test.upstream)
				gittest.Run(t, code, "config", "branch.main.merge", "refs/heads/main")
			}
			if test.detached {
				gittest.Run(t, code, "checkout", "-q", "--detach")
			}
			w := workspaceIn(t, filepath.Join(code, ".oacp"))
			made, err := Init(t.Context(), w, InitOptions{Remote: test.wanted, Enclosing: code})
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Errorf("the error is %v, want %q", err, test.wantError)
				}
				if _, err := os.Stat(filepath.Join(w.Dir(), ".git")); err == nil {
					t.Error("there is a repository")
				}
				return
			}
			if err != nil || made.Remote != test.wantRemote || (made.Unreachable != nil) != (test.wantRemote != "") {
				t.Errorf("init did %+v, %v, want the remote %q", made, err, test.wantRemote)
			}
			if !slices.Equal(made.Remotes, test.remotes) {
				t.Errorf("the remotes are %q, want %q", made.Remotes, test.remotes)
			}
		})
	}
}

func TestInitChecksTheRef(t *testing.T) {
	dir := gittest.Home(t)
	gittest.Run(t, dir, "init", "-q", "--bare", "hub.git")
	code := newCode(t, filepath.Join(dir, "code"))
	gittest.Run(t, code, "remote", "add", "origin", "../hub.git")
	for _, test := range []struct {
		ref  string
		want error
	}{
		{ref: "refs/heads/mail"},
		{ref: "refs/oacp/mail"},
		{ref: "refs/heads/agents/mail"},
		{ref: "heads/mail", want: ErrBadRef},
		{ref: "refs/heads", want: ErrBadRef},
		{ref: "refs/heads/", want: ErrBadRef},
		{ref: "refs/heads/a..b", want: ErrBadRef},
		{ref: "refs/heads/a b", want: ErrBadRef},
		{ref: "refs/heads/-x", want: ErrBadRef},
		{ref: "refs/heads/a\nb", want: ErrBadRef},
		{ref: "refs/heads/x.lock", want: ErrBadRef},
		{ref: "refs/oacp/claims", want: ErrBadRef},
		{ref: "refs/oacp/claims/x", want: ErrBadRef},
		{ref: "refs/oacp/machines/x", want: ErrBadRef},
	} {
		w := workspaceIn(t, filepath.Join(code, "mail"))
		if _, err := Init(t.Context(), w, InitOptions{Ref: test.ref, Enclosing: code}); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.ref, err, test.want)
		}
		if err := os.RemoveAll(w.Dir()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInitTakesTheObjectFormat(t *testing.T) {
	dir := gittest.Home(t)
	t.Setenv("TMPDIR", filepath.Join(dir, "none")) // it leaves nothing there
	newMailboxes(t, filepath.Join(dir, "sha1.git"), "oacp", "--object-format=sha1")
	newMailboxes(t, filepath.Join(dir, "sha256.git"), "oacp", "--object-format=sha256")
	gittest.Run(t, dir, "init", "-q", "--bare", "--object-format=sha1", "empty1.git")
	gittest.Run(t, dir, "init", "-q", "--bare", "--object-format=sha256", "empty256.git")
	for _, code := range []string{"sha1", "sha256"} {
		newCode(t, filepath.Join(dir, code), "--object-format="+code)
		for remote, want := range map[string]string{
			"sha1.git": "sha1", "sha256.git": "sha256", "empty1.git": "sha1", "empty256.git": "sha256", "gone.git": code,
		} {
			w := workspaceIn(t, filepath.Join(dir, code, remote))
			made := initialize(t, w, InitOptions{Remote: filepath.Join(dir, remote), Enclosing: filepath.Join(dir, code)})
			if got := gittest.Run(t, w.Dir(), "rev-parse", "--show-object-format"); got != want {
				t.Errorf("with %s, the workspace in %s has the format %s", remote, code, got)
			}
			if found := remote == want+".git"; made.Found != found || made.Joined != found {
				t.Errorf("with %s, init in %s did %+v", remote, code, made)
			}
			if strings.HasPrefix(remote, "empty") {
				checkInitAgain(t, w, InitOptions{Enclosing: filepath.Join(dir, code)})
			}
		}
	}
}

// checkInitAgain checks that Init keeps the settings of the repository, and mends what earlier versions removed from them.
func checkInitAgain(t *testing.T, w *mailbox.Workspace, options InitOptions) {
	t.Helper()
	config := filepath.Join(w.Dir(), ".git/config")
	before := check.ReadFile(t, config)
	initialize(t, w, options)
	if after := check.ReadFile(t, config); after != before {
		t.Errorf("init again changed the settings from\n%s\nto\n%s", before, after)
	}
	gittest.Run(t, w.Dir(), "config", "--file", config, "--unset", "core.bare")
	initialize(t, w, options)
	command := exec.Command("git", "clean", "-fdx")
	command.Dir = w.Dir()
	if out, err := command.CombinedOutput(); err == nil {
		t.Errorf("git clean in the workspace succeeds: %s", out)
	}
	if _, err := os.Stat(filepath.Join(w.Dir(), "agents")); err != nil {
		t.Error(err)
	}
}

func TestInitJoins(t *testing.T) {
	dir := gittest.Home(t)
	hub := newMailboxes(t, filepath.Join(dir, "hub.git"), "oacp")
	w := workspaceIn(t, filepath.Join(dir, "alone"))
	made := initialize(t, w, InitOptions{Remote: hub})
	if !made.Joined || len(made.Agents) != 2 || made.Agents[0] != "claude" || made.Excluded != "" {
		t.Errorf("init did %+v", made)
	}
	if got := check.ReadFile(t, filepath.Join(w.Dir(), "workspace.json")); got != `{"project_name": "shared"}` {
		t.Errorf("workspace.json is %s", got)
	}
	if entries, err := os.ReadDir(filepath.Join(w.Dir(), "agents")); err != nil || len(entries) > 0 {
		t.Errorf("init made %v, %v", entries, err)
	}
	kept := workspaceIn(t, filepath.Join(dir, "kept"))
	check.WriteFile(t, filepath.Join(kept.Dir(), "workspace.json"), "{}")
	initialize(t, kept, InitOptions{Remote: hub})
	if got := check.ReadFile(t, filepath.Join(kept.Dir(), "workspace.json")); got != "{}" {
		t.Errorf("workspace.json became %s", got)
	}
}

func TestInitReachesTheRemoteAsTheUserDoes(t *testing.T) {
	dir := gittest.Home(t)
	hub := newMailboxes(t, filepath.Join(dir, "hub.git"), "oacp")
	code := newCode(t, filepath.Join(dir, "code"))
	gittest.Run(t, code, "remote", "add", "origin", "hub:mail")
	gittest.Run(t, code, "config", "url."+hub+".insteadOf", "hub:mail")
	// Some settings hold only for the folder .git of the code.
	check.WriteFile(t, filepath.Join(dir, "credentials"), "[http]\n\textraHeader = x\n")
	check.WriteFile(t, filepath.Join(dir, "everywhere"), "[http]\n\tproxy = y\n")
	gittest.Run(t, code, "config", "includeIf.gitdir:"+code+"/.git.path", filepath.Join(dir, "credentials"))
	gittest.Run(t, code, "config", "include.path", filepath.Join(dir, "everywhere"))
	w := workspaceIn(t, filepath.Join(code, ".oacp"))
	for range 2 {
		if made := initialize(t, w, InitOptions{Enclosing: code}); !made.Found || made.URL != "hub:mail" {
			t.Errorf("init did %+v", made)
		}
		for key, want := range map[string]string{"http.extraHeader": "x", "http.proxy": "y"} {
			if got := gittest.Run(t, w.Dir(), "config", "--get-all", key); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
	}
}

func TestInitRefuses(t *testing.T) {
	dir := gittest.Home(t)
	hub := newMailboxes(t, filepath.Join(dir, "hub.git"), "oacp")
	code := newCode(t, filepath.Join(dir, "code"))
	gittest.Run(t, code, "push", "-q", hub, "main")
	gittest.Run(t, code, "checkout", "-q", "-b", "work")
	refused := func(name string, w *mailbox.Workspace, o InitOptions, want error) {
		t.Helper()
		before, err := os.ReadDir(w.Dir())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Init(t.Context(), w, o); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		after, err := os.ReadDir(w.Dir())
		if err != nil || len(after) != len(before) {
			t.Errorf("%s: the workspace holds %v, %v", name, after, err)
		}
	}
	refused("a branch of code", workspaceIn(t, filepath.Join(code, ".oacp")), InitOptions{Remote: hub, Ref: "refs/heads/main", Enclosing: code}, ErrForeignBranch)
	check.WriteFile(t, filepath.Join(code, "mail/agents/a/inbox/.gitkeep"), "")
	gittest.Run(t, code, "add", ".")
	if strings.Contains(check.ReadFile(t, filepath.Join(code, ".git/info/exclude")), "oacp") {
		t.Error("the workspace is excluded")
	}
	refused("a tracked workspace", workspaceIn(t, filepath.Join(code, "mail")), InitOptions{Enclosing: code}, git.ErrTracked)
	refused("a repository of the user", workspaceIn(t, code), InitOptions{}, ErrForeignRepository)
	gittest.Run(t, code, "worktree", "add", "-q", "-b", "linked", "../linked")
	refused("a worktree of the user", workspaceIn(t, filepath.Join(dir, "linked")), InitOptions{}, ErrForeignRepository)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := workspaceIn(t, filepath.Join(dir, "cancelled"))
	if _, err := Init(ctx, w, InitOptions{Remote: hub}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	for script, want := range map[string]string{
		"#!/bin/sh\necho git version 2.20.1\n": "git 2.20.1 is too old: version 2.30 or later is needed",
		"":                                     git.ErrMissing.Error(),
	} {
		t.Setenv("PATH", t.TempDir())
		if script != "" {
			check.WriteFile(t, filepath.Join(os.Getenv("PATH"), "git"), script)
			if err := os.Chmod(filepath.Join(os.Getenv("PATH"), "git"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Init(t.Context(), w, InitOptions{}); err == nil || err.Error() != want {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}

// TestManyInit checks that processes that initialize a workspace at the same time make one repository.
func TestManyInit(t *testing.T) {
	dir := gittest.Home(t)
	hub := newMailboxes(t, filepath.Join(dir, "hub.git"), "oacp")
	code := newCode(t, filepath.Join(dir, "code"))
	gittest.Run(t, code, "remote", "add", "origin", hub)
	const processes = 8
	w := workspaceIn(t, filepath.Join(code, ".oacp"))
	created := make(chan bool, processes)
	for range processes {
		go func() {
			made, err := Init(t.Context(), w, InitOptions{Enclosing: code})
			if err != nil || !made.Found || made.Excluded == "" {
				t.Errorf("init did %+v, %v", made, err)
			}
			created <- made.Created
		}()
	}
	count := 0
	for range processes {
		if <-created {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d made the repository, want one", count)
	}
	if found, err := filepath.Glob(filepath.Join(w.Dir(), ".git*")); err != nil || len(found) != 1 {
		t.Errorf("there are %v, %v", found, err)
	}
	if got := strings.Count(check.ReadFile(t, filepath.Join(code, ".git/info/exclude")), "/.oacp/"); got != 1 {
		t.Errorf("the workspace is listed %d times", got)
	}
}

func TestInitExcludes(t *testing.T) {
	dir := gittest.Home(t)
	code := newCode(t, filepath.Join(dir, "code"))
	gittest.Run(t, code, "worktree", "add", "-q", "../linked")
	exclude := filepath.Join(code, ".git/info/exclude")
	if err := os.RemoveAll(filepath.Dir(exclude)); err != nil {
		t.Fatal(err)
	}
	w := workspaceIn(t, filepath.Join(dir, "linked", "a[b]*c"))
	if made := initialize(t, w, InitOptions{Enclosing: filepath.Join(dir, "linked")}); made.Excluded != exclude {
		t.Errorf("the workspace is listed in %s", made.Excluded)
	}
	if got := check.ReadFile(t, exclude); got != "/a\\[b]\\*c/\n" {
		t.Errorf("the exclude file is %q", got)
	}
	if got := gittest.Run(t, filepath.Join(dir, "linked"), "status", "--porcelain"); got != "" {
		t.Errorf("the status is %q", got)
	}
	// A file that cannot be written matters, unless the workspace is ignored anyway.
	if err := errors.Join(os.Remove(exclude), os.Symlink("/nowhere/exclude", exclude)); err != nil {
		t.Fatal(err)
	}
	w = workspaceIn(t, filepath.Join(code, ".oacp"))
	if _, err := Init(t.Context(), w, InitOptions{Enclosing: code}); err == nil || !strings.Contains(err.Error(), "exclude") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(filepath.Join(w.Dir(), ".git")); err == nil {
		t.Error("there is a repository")
	}
	check.WriteFile(t, filepath.Join(code, ".gitignore"), ".oacp\n")
	if made := initialize(t, w, InitOptions{Enclosing: code}); made.Excluded != "" {
		t.Errorf("the workspace is listed in %s", made.Excluded)
	}
}

// TestInitLeavesTheCodeAlone checks that Init works in repositories of several kinds, and changes nothing there
// except the exclude file. TestConfigurations has more of them.
func TestInitLeavesTheCodeAlone(t *testing.T) {
	dir := gittest.Home(t)
	hub := newMailboxes(t, filepath.Join(dir, "hub.git"), "oacp")
	from := newCode(t, filepath.Join(dir, "from"))
	check.WriteFile(t, filepath.Join(from, "code.txt"), "two\n")
	gittest.Run(t, from, "commit", "-q", "-a", "-m", "two")
	gittest.Run(t, from, "push", "-q", hub, "main")
	clone := func(args ...string) func(string) string {
		return func(code string) string {
			gittest.Run(t, dir, append(append([]string{"clone", "-q", "-b", "main"}, args...), "file://"+hub, code)...)
			return code
		}
	}
	for name, prepare := range map[string]func(code string) (top string){
		"clone": clone(),
		"unborn branch": func(code string) string {
			gittest.Run(t, dir, "init", "-q", code)
			gittest.Run(t, code, "remote", "add", "origin", hub)
			return code
		},
		"linked worktree": func(code string) string {
			clone()(code)
			gittest.Run(t, code, "worktree", "add", "-q", "--detach", code+".linked")
			return code + ".linked"
		},
		"submodule": func(code string) string {
			newCode(t, code)
			gittest.Run(t, code, "submodule", "--quiet", "add", "-b", "main", "file://"+hub, "sub")
			return filepath.Join(code, "sub")
		},
		"separate git folder": clone("--separate-git-dir=" + filepath.Join(dir, "separate")),
		"reference":           clone("--shared"),
		"staged and changed files": func(code string) string {
			clone()(code)
			check.WriteFile(t, filepath.Join(code, "staged.txt"), "staged\n")
			gittest.Run(t, code, "add", "staged.txt")
			check.WriteFile(t, filepath.Join(code, "staged.txt"), "changed\n")
			check.WriteFile(t, filepath.Join(code, "untracked.txt"), "untracked\n")
			gittest.Run(t, code, "update-index", "--assume-unchanged", "code.txt")
			return code
		},
	} {
		t.Run(name, func(t *testing.T) {
			top := prepare(filepath.Join(dir, strings.ReplaceAll(name, " ", "-")))
			common := gittest.Run(t, top, "rev-parse", "--git-common-dir")
			if !filepath.IsAbs(common) {
				common = filepath.Join(top, common)
			}
			before, status := folders(t, top, common), gittest.Run(t, top, "--no-optional-locks", "status", "--porcelain=v2", "--branch")
			w := workspaceIn(t, filepath.Join(top, ".oacp"))
			if made := initialize(t, w, InitOptions{Enclosing: top}); !made.Joined || made.Remote != "origin" {
				t.Errorf("init did %+v", made)
			}
			if err := os.RemoveAll(w.Dir()); err != nil {
				t.Fatal(err)
			}
			exclude := filepath.Join(common, "info/exclude")
			if !strings.HasSuffix(check.ReadFile(t, exclude), "\n/.oacp/\n") {
				t.Errorf("the exclude file is %q", check.ReadFile(t, exclude))
			}
			after := folders(t, top, common)
			delete(before, exclude)
			delete(after, exclude)
			for file, data := range before {
				if after[file] != data {
					t.Errorf("%s has changed", file)
				}
			}
			if len(after) != len(before) {
				t.Errorf("there were %d files and folders, and are %d", len(before), len(after))
			}
			if got := gittest.Run(t, top, "--no-optional-locks", "status", "--porcelain=v2", "--branch"); got != status {
				t.Errorf("the status was\n%s\nand is\n%s", status, got)
			}
		})
	}
}

// folders returns the content of every file below the folders, with its time.
func folders(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			found[path] = entry.Type().String()
			if entry.Type().IsRegular() {
				info, err := entry.Info()
				if err != nil {
					return err
				}
				found[path] = info.ModTime().String() + check.ReadFile(t, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}
