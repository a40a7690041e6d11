package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/signing"
)

func TestMain(m *testing.M) { mailboxtest.Main(m) }

// newWorkspace makes a workspace whose user has a folder of her own.
func newWorkspace(t *testing.T) (w *mailbox.Workspace, home string) {
	t.Helper()
	home = filepath.Join(t.TempDir(), "oacp")
	t.Setenv("OACP_HOME", home)
	return mailboxtest.New(t, "anna", "codex"), home
}

func write(t *testing.T, w *mailbox.Workspace, name, text string) {
	t.Helper()
	check.WriteFile(t, filepath.Join(w.Dir(), filepath.FromSlash(name)), text)
}

// read describes what counts for codex: the settings of each file, and what is refused.
func read(t *testing.T, w *mailbox.Workspace) (counts, refused []string) {
	t.Helper()
	files, err := Read(w, "codex")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Notify != nil {
			counts = append(counts, "notify")
		}
		for i := 0; f.Run != nil && i < len(f.Run.Content); i += 2 {
			counts = append(counts, f.Run.Content[i].Value)
		}
		for _, s := range f.Refused {
			refused = append(refused, s.Name+" "+s.Value)
		}
	}
	return counts, refused
}

func want(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", when, got, want)
	}
}

func allowAll(t *testing.T, w *mailbox.Workspace) {
	t.Helper()
	waiting, _, err := Waiting(w)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range waiting {
		if err := Allow(w, f, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAllow checks that a setting counts from when it is allowed until it changes or is withdrawn, and only in its place.
func TestAllow(t *testing.T) {
	w, home := newWorkspace(t)
	const config = "run:\n  reply: true\n  command: [sh, -c, 'touch x']\nnotify: [a]\n"
	write(t, w, "agents/codex/config.yaml", config)
	write(t, w, "workspace.json", `{"run":{"max_turns":3,"allow":"all"},"carrier":"postgres"}`)
	counts, refused := read(t, w)
	want(t, "before, counts", counts, "max_turns", "reply")
	want(t, "before, refused", refused, `carrier "postgres"`, `run.allow "all"`, `notify ["a"]`, `run.command ["sh","-c","touch x"]`)

	allowAll(t, w)
	counts, refused = read(t, w)
	want(t, "allowed", counts, "max_turns", "allow", "notify", "reply", "command")
	want(t, "allowed, refused", refused)
	if info, err := os.Stat(filepath.Join(home, "allowed")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the record: %v, %v; want mode 600", info, err)
	}
	if info, err := os.Stat(home); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its folder: %v, %v; want mode 700", info, err)
	}

	write(t, w, "agents/codex/config.yaml", strings.Replace(config, "reply: true", "reply: false # so", 1))
	_, refused = read(t, w)
	want(t, "another setting changed", refused)
	write(t, w, "agents/codex/config.yaml", strings.Replace(config, "touch x", "touch y", 1))
	counts, _ = read(t, w)
	want(t, "changed", counts, "max_turns", "allow", "reply")
	write(t, w, "agents/codex/config.yaml", config)

	clone := filepath.Join(t.TempDir(), "clone")
	if err := os.CopyFS(clone, os.DirFS(w.Dir())); err != nil {
		t.Fatal(err)
	}
	counts, _ = read(t, mailboxtest.Open(t, clone))
	want(t, "a clone", counts, "max_turns", "reply")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(w.Dir(), link); err != nil {
		t.Fatal(err)
	}
	_, refused = read(t, mailboxtest.Open(t, link))
	want(t, "the same workspace through a link", refused)

	gone, err := Revoke(os.Getenv("OACP_HOME"), link)
	if _, refused = read(t, w); err != nil || len(gone) != 2 || len(refused) != 4 {
		t.Errorf("withdrawn: %v, %v, and still counts all but %q", gone, err, refused)
	}
}

// TestChangeablePrograms checks that no program can be allowed that others can change afterwards, and that an earlier version's
// record of one does not count.
func TestChangeablePrograms(t *testing.T) {
	w, home := newWorkspace(t)
	script := func(path string, mode os.FileMode) string {
		check.WriteFile(t, path, "#!/bin/sh\n")
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	inside, outside := script(filepath.Join(w.Dir(), "n.sh"), 0o755), script(filepath.Join(t.TempDir(), "n.sh"), 0o755)
	open, link := script(filepath.Join(t.TempDir(), "open"), 0o777), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(inside, link); err != nil {
		t.Fatal(err)
	}
	waiting := func(config string) File {
		write(t, w, "agents/codex/config.yaml", config)
		files, _, err := Waiting(w)
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		return files[0]
	}
	for words, why := range map[string]string{
		"[./n.sh]": "is a relative path", "[scripts/n.sh]": "is a relative path", "[../n.sh]": "is a relative path",
		"[" + inside + "]": "is in the workspace", "[" + inside + ".later]": "is in the workspace", "[" + link + "]": "is in the workspace",
		"[sh, ./n.sh]": "is in the workspace", "[sh, n.sh]": "is in the workspace", "[" + open + "]": "others can write",
		"[" + outside + "]": "", "[sh, -c, echo, ../x, agents]": "", "[no-such-program]": "",
	} {
		for _, config := range []string{"notify: " + words + "\n", "run: {command: " + words + "}\n"} {
			err := Allow(w, waiting(config), time.Now())
			if why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
				t.Errorf("%s: %v; want it %q", config, err, why)
			}
		}
	}
	record, err := recordOf(w, waiting("notify: [./n.sh]\n"))
	if err == nil {
		_, err = change(home, func(all []Record) []Record { return append(all, record) })
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, refused := read(t, w); len(refused) != 1 {
		t.Errorf("with an earlier record, %q is refused; want notify", refused)
	}
}

// TestOwn checks that the user's own file needs no allowing and wins, and that others cannot have written it.
func TestOwn(t *testing.T) {
	w, home := newWorkspace(t)
	own := filepath.Join(home, "config.yaml")
	check.WriteFile(t, own, "run: {driver: claude}\nagents: {codex: {run: {allow: edits}, notify: [own]}, anna: {run: {model: m}}}\n")
	counts, _ := read(t, w)
	want(t, "own", counts, "driver", "notify", "allow")
	if err := os.Chmod(own, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(w, "codex"); err == nil || !strings.Contains(err.Error(), "chmod go-w "+own) {
		t.Errorf("others can write it: %v", err)
	}
	check.WriteFile(t, own, "run: {comand: x}\n")
	if _, err := Read(w, "codex"); err == nil {
		t.Error("an unknown setting is no error")
	}
}

// TestNoEffect checks that a setting that does not count is an error, wherever it stands.
func TestNoEffect(t *testing.T) {
	w, home := newWorkspace(t)
	own := filepath.Join(home, "config.yaml")
	for _, test := range []struct{ file, text, want string }{
		{own, "allow: none\n", "line 1: allow has no effect here: it belongs in the section run, as run: {allow: none}"},
		{own, "runs: {allow: none}\n", `"runs" has no effect here; what counts here is run, agents`},
		{own, "Run: {allow: none}\n", `"Run" has no effect here`},
		{own, "notify: [a]\n", `"notify" has no effect here`},
		{own, "other: 1\n", `"other" has no effect here`},
		{own, "run: {comand: x}\n", `run has no setting "comand"`},
		{own, "run: {reply: true}\n---\nrun: {allow: none}\n", "a second document has no effect"},
		{own, "agents: {codex: {allow: none}}\n", `agents, "codex": line 1: allow has no effect here: it belongs in the section run`},
		{own, "agents: {codex: {runs: {allow: none}}}\n", `what counts here is run, notify`},
		{own, "agents: {codex: {autonomy: {default_mode: always_pause}}}\n", `autonomy has no effect here`},
		{own, "agents: {anna: {allow: none}}\n", `agents, "anna": line 1: allow has no effect here`},
		{own, "agents: {Codex: {run: {allow: none}}}\n", `agents, "Codex": the workspace has no such agent, but codex`},
		{own, "agents: {codex/: {run: {allow: none}}}\n", `agents, "codex/": agent name "codex/" contains`},
		{own, "agents: [codex]\n", "line 1"},
		{own, "- run\n", "line 1"},
		{own, "run: {reply: true}\nagents: {elsewhere: {run: {allow: edits}, notify: [a]}, codex: }\n", ""},
		{own, "", ""},
		{own, "# nothing\n", ""},
		{"agents/codex/config.yaml", "Allow: none\n", "Allow has no effect here: it belongs in the section run, as run: {allow: none}"},
		{"agents/codex/config.yaml", "RUN: {allow: none}\n", `"RUN" has no effect here; what counts here is run, notify, autonomy`},
		{"agents/codex/config.yaml", "carrier: x\n", `"carrier" has no effect here`},
		{"agents/codex/config.yaml", "run: {reply: true}\n---\nrun: {allow: none}\n", "a second document"},
		{"agents/codex/config.yaml", "signing: {verify_mode: off}\nother: 1\n", ""},
		{"workspace.json", `{"notify": ["a"]}`, `"notify" has no effect here; what counts here is run, carrier, autonomy`},
		{"workspace.json", `{"project_name": "p", "other": 1}`, ""},
	} {
		path := test.file
		if !filepath.IsAbs(path) {
			path = filepath.Join(w.Dir(), path)
		}
		before, _ := os.ReadFile(path)
		check.WriteFile(t, path, test.text)
		_, err := Read(w, "codex")
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), path+": ") || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s with %q: the error is %v, want %q", test.file, test.text, err, test.want)
		}
		check.WriteFile(t, path, string(before))
	}
}

// TestSigned checks that nothing in workspace.json counts for an agent whose settings are signed, and that a signature,
// which the agent itself can make, allows nothing.
func TestSigned(t *testing.T) {
	w, home := newWorkspace(t)
	if _, err := signing.NewStore(home).Generate("codex", time.Now()); err != nil {
		t.Fatal(err)
	}
	options := trust.Options(func() (string, error) { return home, nil })
	w, err := mailbox.Open(w.Dir(), &options)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	write(t, w, "workspace.json", `{"run":{"max_turns":3,"command":["shared"],"autonomy":"auto"}}`)
	write(t, w, "agents/codex/config.yaml", "run: {reply: true, command: [own]}\n")
	counts, _ := read(t, w)
	want(t, "without a signature", counts, "max_turns", "autonomy", "reply")
	write(t, w, trust.PinsName("codex"), "version: 1\nsigners: []\n")
	mailboxtest.SignPolicy(t, w, home, "codex")
	counts, refused := read(t, w)
	want(t, "signed", counts, "reply")
	want(t, "signed, refused", refused, `run.command ["own"]`)
	allowAll(t, w)
	counts, _ = read(t, w)
	want(t, "signed and allowed", counts, "reply", "command")
	if files, err := Read(w, "codex"); err != nil || !files[0].Unsigned || files[1].Unsigned {
		t.Errorf("files: %+v, %v", files, err)
	}
	if files, err := Read(w, "anna"); err != nil || files[0].Unsigned {
		t.Errorf("for an agent without a signature: %+v, %v", files, err)
	}
}

// TestPlace checks that a workspace cannot bring a home of its own.
func TestPlace(t *testing.T) {
	home := t.TempDir()
	t.Setenv("OACP_HOME", "")
	t.Setenv("HOME", home)
	clone := t.TempDir()
	w := mailboxtest.NewIn(t, filepath.Join(clone, "projects", "demo"), "codex")
	check.WriteFile(t, filepath.Join(clone, "config.yaml"), "run: {command: [evil]}\n")
	counts, _ := read(t, w)
	want(t, "a clone that looks like a home", counts)
	if got, err := w.Home(); err != nil || got != filepath.Join(home, "oacp") {
		t.Errorf("the home is %s, %v", got, err)
	}
	t.Chdir(clone)
	for _, relative := range []string{".", "home", "./home", "../clone"} {
		t.Setenv("OACP_HOME", relative)
		if _, err := Read(w, "codex"); err == nil || !strings.Contains(err.Error(), "make the path absolute") {
			t.Errorf("OACP_HOME=%s: %v", relative, err)
		}
		if err := Allow(w, File{}, time.Now()); err == nil {
			t.Errorf("OACP_HOME=%s: Allow records", relative)
		}
	}
}

// TestTricks checks that no way to write a setting hides it from what is shown and hashed.
func TestTricks(t *testing.T) {
	w, _ := newWorkspace(t)
	for name, text := range map[string]string{
		"an alias as a name":       "x: &reply command\nrun:\n  *reply : [evil]\n",
		"an alias as a value":      "x: &evil [evil]\nrun:\n  command: *evil\n",
		"an alias in a value":      "x: &evil evil\nrun:\n  args: [*evil]\n",
		"an alias as the section":  "x: &evil {command: [evil]}\nrun: *evil\n",
		"a merged section":         "x: &evil {command: [evil]}\nrun:\n  <<: *evil\n",
		"a merged file":            "x: &evil {run: {command: [evil]}}\n<<: *evil\n",
		"a mapping":                "run: {args: {evil: x}}\n",
		"binary text":              "run: {model: !!binary ZXZpbA==}\n",
		"a name in binary":         "run: {!!binary Y29tbWFuZA==: [evil]}\n",
		"twice":                    "run: {reply: true, command: [evil], command: [evil]}\n",
		"two sections":             "run: {reply: true}\nrun: {command: [evil]}\n",
		"two documents":            "run: {reply: true}\n---\nrun: {command: [evil]}\n",
		"an empty text":            "run: {command: ''}\n",
		"notify in an alias":       "x: &n [evil]\nnotify: *n\n",
		"a tag of its own":         "run: !evil {command: [evil]}\n",
		"an allowed look-alike":    "run: {Command: [evil]}\n",
		"a setting under any case": "RUN: {command: [evil]}\n",
	} {
		write(t, w, "agents/codex/config.yaml", text)
		files, err := Read(w, "codex")
		for _, f := range files {
			if f.Notify != nil || f.Run != nil && strings.Contains(render(f.Run.Content), "evil") {
				t.Errorf("%s: it counts; the error is %v", name, err)
			}
		}
	}
}

func render(nodes []*yaml.Node) (text string) {
	for _, node := range nodes {
		text += node.Value + " " + render(node.Content)
	}
	return text
}

// TestNull checks that null, which would take back what another file sets, is no value of a setting that needs to be allowed.
func TestNull(t *testing.T) {
	w, _ := newWorkspace(t)
	write(t, w, "workspace.json", `{"run":{"args":["--careful"],"command":["a"],"allow":"none"}}`)
	allowAll(t, w)
	for _, name := range []string{"args", "command", "env", "allow", "model", "driver"} {
		for _, text := range []string{"run: {%s: }\n", "run: {%s: ~}\n", "run: {%s: [~]}\n"} {
			write(t, w, "agents/codex/config.yaml", fmt.Sprintf(text, name))
			if _, err := Read(w, "codex"); err == nil || !strings.Contains(err.Error(), name+" is a ") {
				t.Errorf("%s with %s: the error is %v", text, name, err)
			}
		}
	}
}

// TestLongNames checks that errors quote little of a file.
func TestLongNames(t *testing.T) {
	w, home := newWorkspace(t)
	long := strings.Repeat("x", 100000)
	for _, text := range []string{"run: {" + long + ": 1}\n", "allow: " + long + "\n", "notify: " + long + "\n", "run: {command: " + long + "}\n"} {
		write(t, w, "agents/codex/config.yaml", text)
		if _, err := Read(w, "codex"); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%.20s: no error, or a long one: %.80v", text, err)
		}
	}
	write(t, w, "agents/codex/config.yaml", "")
	check.WriteFile(t, filepath.Join(home, "config.yaml"), "? "+long[:900]+"\n: 1\n")
	if _, err := Read(w, "codex"); err == nil || len(err.Error()) > 500 {
		t.Errorf("the user's own: %v", err)
	}
}

// TestLong checks that nobody is asked about more than a person reads.
func TestLong(t *testing.T) {
	w, _ := newWorkspace(t)
	write(t, w, "agents/codex/config.yaml", "run: {args: ["+strings.Repeat("a", maxShown)+"]}\n")
	waiting, _, err := Waiting(w)
	if err != nil || len(waiting) != 1 {
		t.Fatal(waiting, err)
	}
	if err := Allow(w, waiting[0], time.Now()); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("Allow = %v", err)
	}
}

// TestDocumented checks that the page about security says of each setting which kind it is.
func TestDocumented(t *testing.T) {
	page := check.ReadFile(t, "../../docs/security.md")
	for _, k := range Keys {
		if row := "| `" + k.Name + "` | " + string(k.Kind) + " |"; !strings.Contains(page, row) {
			t.Errorf("docs/security.md lacks the row %s", row)
		}
	}
}
