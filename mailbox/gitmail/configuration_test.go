package gitmail_test

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/gittest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
)

// A configuration is something about a user's clone or git that must not disturb mailboxes, and that
// mailboxes must not disturb.
type configuration struct {
	name string
	// remote are arguments for the git init of the remote, clone for the git clone.
	remote, clone []string
	// prepare changes the clone before the workspace is made.
	prepare func(t *testing.T, m *machine)
	// unsigned says that commits cannot be signed, so that mail cannot leave.
	unsigned bool
	// alone says that the configuration does not go together with others.
	alone bool
	// variables says that prepare sets variables of this process, so no other test may run at the same time.
	variables bool
}

var thorough = flag.Bool("thorough", false, "test every combination of crashes, boxes and attacks, and each configuration in a clone of its own")

// set returns a prepare that sets values of the clone's configuration.
func set(settings ...string) func(*testing.T, *machine) {
	return func(_ *testing.T, m *machine) {
		for _, setting := range settings {
			name, value, _ := strings.Cut(setting, "=")
			m.n.git(m.clone, "config", name, value)
		}
	}
}

var configurations = []configuration{
	{name: "nothing special"},
	{name: "autocrlf", prepare: set("core.autocrlf=true", "core.safecrlf=true", "core.eol=crlf")},
	{name: "autocrlf input", alone: true, prepare: set("core.autocrlf=input")},
	{name: "attributes", alone: true, prepare: func(t *testing.T, m *machine) {
		check.WriteFile(t, filepath.Join(m.clone, ".git/info/attributes"), "* text eol=crlf filter=shout ident\n")
		set("filter.shout.clean=tr a-z A-Z", "filter.shout.smudge=tr a-z A-Z", "filter.shout.required=true")(t, m)
	}},
	{name: "signing program", alone: true, prepare: signing(`echo "[GNUPG:] SIG_CREATED D 1 8 00 1 0123456789ABCDEF" >&2
cat >/dev/null; printf -- '-----BEGIN PGP SIGNATURE-----\n\nabcd\n-----END PGP SIGNATURE-----\n'`)},
	{name: "signing fails", unsigned: true, prepare: signing("cat >/dev/null; echo no secret key >&2; exit 2")},
	{name: "insteadOf", alone: true, prepare: func(t *testing.T, m *machine) {
		set("url."+m.n.dir+"/.insteadOf=company:", "remote.origin.url=company:remote.git")(t, m)
	}},
	{name: "pushInsteadOf", alone: true, prepare: func(t *testing.T, m *machine) {
		set("url."+m.n.remote+".pushInsteadOf="+m.n.dir+"/readonly.git", "remote.origin.url="+m.n.dir+"/readonly.git")(t, m)
		if err := os.Symlink(m.n.remote, filepath.Join(m.n.dir, "readonly.git")); err != nil {
			t.Fatal(err)
		}
	}},
	{name: "pushurl", alone: true, prepare: func(t *testing.T, m *machine) {
		if err := os.Symlink(m.n.remote, filepath.Join(m.n.dir, "mirror.git")); err != nil {
			t.Fatal(err)
		}
		set("remote.origin.url="+m.n.dir+"/mirror.git", "remote.origin.pushurl="+m.n.remote)(t, m)
	}},
	{name: "relative URL", alone: true, prepare: set("remote.origin.url=../remote.git")},
	{name: "SHA-256", remote: []string{"--object-format=sha256"}},
	{name: "reftable", remote: []string{"--ref-format=reftable"}, clone: []string{"--ref-format=reftable"}},
	{name: "detached HEAD", alone: true, prepare: func(_ *testing.T, m *machine) { m.n.git(m.clone, "checkout", "--quiet", "--detach", "HEAD~1") }},
	{name: "shallow clone", clone: []string{"--depth=1", "--no-local"}},
	{name: "partial clone", clone: []string{"--filter=blob:none", "--no-local"}},
	{name: "single branch", clone: []string{"--single-branch", "--branch=main"}},
	{name: "rebase in progress", alone: true, prepare: func(t *testing.T, m *machine) { conflict(t, m, "rebase") }},
	{name: "merge in progress", alone: true, prepare: func(t *testing.T, m *machine) { conflict(t, m, "merge") }},
	{name: "locks", alone: true, prepare: func(t *testing.T, m *machine) {
		check.WriteFile(t, filepath.Join(m.clone, ".git/index.lock"), "")
		check.WriteFile(t, filepath.Join(m.clone, ".git/HEAD.lock"), "")
		check.WriteFile(t, filepath.Join(m.clone, ".git/config.lock"), "")
		check.WriteFile(t, filepath.Join(m.clone, ".git/packed-refs.lock"), "")
	}},
	{name: "failing hooks", alone: true, prepare: func(t *testing.T, m *machine) {
		hooks := filepath.Join(m.n.dir, "hooks")
		for _, hook := range []string{"pre-push", "pre-commit", "reference-transaction", "commit-msg", "post-commit", "post-checkout"} {
			writeScript(t, filepath.Join(hooks, hook), "echo the hook "+hook+" ran >&2; exit 1")
		}
		set("core.hooksPath="+hooks)(t, m)
	}},
	{name: "fetch.prune", prepare: set("fetch.prune=true", "fetch.pruneTags=true", "remote.origin.prune=true")},
	{name: "followTags", prepare: func(t *testing.T, m *machine) {
		m.n.git(m.clone, "tag", "-a", "-m", "not for others", "private")
		set("push.followTags=true", "remote.origin.tagOpt=--tags", "fetch.all=true")(t, m)
	}},
	{name: "signed pushes", prepare: set("push.gpgSign=if-asked")},
	{name: "push settings", prepare: set("push.default=nothing", "remote.pushDefault=elsewhere", "push.autoSetupRemote=true", "remote.origin.push=refs/heads/*:refs/heads/*")},
	{name: "mirror", alone: true, prepare: set("remote.origin.mirror=true", "remote.origin.fetch=+refs/*:refs/*")},
	{name: "fsckObjects", prepare: set("transfer.fsckObjects=true", "fetch.fsckObjects=true", "receive.fsckObjects=true")},
	{name: "protocol 0", prepare: set("protocol.version=0")},
	{name: "protocol 1", alone: true, prepare: set("protocol.version=1")},
	{name: "aliases", prepare: set("alias.fetch=!false", "alias.push=!false", "alias.mail=!false")},
	{name: "colors, formats and pagers", prepare: set("color.ui=always", "color.diff=always", "log.showSignature=true", "core.pager=false", "pager.diff-tree=false",
		"diff.renames=copies", "diff.noprefix=true", "diff.external=false", "status.short=true", "core.quotePath=true", "core.abbrev=4", "format.pretty=oneline", "advice.pushFetchFirst=false")},
	{name: "automatic maintenance", prepare: set("gc.auto=1", "gc.autoDetach=true", "maintenance.auto=true", "fetch.writeCommitGraph=true", "gc.pruneExpire=now", "fetch.unpackLimit=1", "transfer.unpackLimit=1")},
	{name: "compression", prepare: set("core.compression=0", "pack.compression=0", "core.bigFileThreshold=1", "core.looseCompression=0")},
	{name: "untracked cache and monitor", prepare: set("core.untrackedCache=true", "core.fsmonitor=false", "core.splitIndex=true", "feature.manyFiles=true")},
	{name: "worktree config", prepare: func(t *testing.T, m *machine) {
		set("extensions.worktreeConfig=true")(t, m)
		m.n.git(m.clone, "config", "--worktree", "core.sparseCheckout", "true")
	}},
	{name: "core.worktree", alone: true, prepare: func(t *testing.T, m *machine) { set("core.worktree="+m.clone)(t, m) }},
	{name: "encodings", alone: true, prepare: set("i18n.commitEncoding=ISO-8859-1", "i18n.logOutputEncoding=ISO-8859-1", "user.name=J\u00f6rg \u2603")},
	{name: "no identity", alone: true, variables: true, prepare: func(t *testing.T, m *machine) {
		m.n.git(m.clone, "config", "--unset", "user.name")
		m.n.git(m.clone, "config", "--unset", "user.email")
		set("user.useConfigOnly=true")(t, m)
		config := filepath.Join(m.n.dir, "no-identity")
		check.WriteFile(t, config, "[user]\n\tuseConfigOnly = true\n")
		t.Setenv("GIT_CONFIG_GLOBAL", config)
	}},
	{name: "hook environment", alone: true, variables: true, prepare: func(t *testing.T, m *machine) {
		for name, value := range map[string]string{
			"GIT_DIR": filepath.Join(m.clone, ".git"), "GIT_INDEX_FILE": filepath.Join(m.clone, ".git/index"), "GIT_WORK_TREE": m.clone, "GIT_PREFIX": "sub/",
			"GIT_OBJECT_DIRECTORY": filepath.Join(m.clone, ".git/objects"), "GIT_QUARANTINE_PATH": filepath.Join(m.n.dir, "quarantine"),
			"GIT_AUTHOR_DATE": "yesterday", "GIT_COMMITTER_DATE": "1 1", "GIT_NAMESPACE": "hidden", "GIT_CONFIG_PARAMETERS": "'core.bare=true'",
			"GIT_LITERAL_PATHSPECS": "1", "GIT_EDITOR": "false", "GIT_REDIRECT_STDOUT": "off", "GIT_DEFAULT_HASH": "sha256", "GIT_COMMON_DIR": filepath.Join(m.clone, ".git"),
		} {
			t.Setenv(name, value)
		}
	}},
	{name: "traces", alone: true, variables: true, prepare: func(t *testing.T, _ *machine) {
		for _, name := range []string{"GIT_TRACE", "GIT_TRACE_PACKET", "GIT_TRACE_SETUP", "GIT_CURL_VERBOSE", "GIT_TRACE_PERFORMANCE", "GIT_TRACE_REFS"} {
			t.Setenv(name, "1")
		}
	}},
	{name: "language", variables: true, prepare: func(t *testing.T, _ *machine) {
		t.Setenv("LANG", "de_DE.UTF-8")
		t.Setenv("LC_ALL", "de_DE.UTF-8")
		t.Setenv("LANGUAGE", "de:fr")
	}},
}

// signing returns a prepare that makes commits signed by a program.
func signing(script string) func(*testing.T, *machine) {
	return func(t *testing.T, m *machine) {
		program := writeScript(t, filepath.Join(m.n.dir, "gpg"), script)
		set("commit.gpgsign=true", "tag.gpgsign=true", "gpg.program="+program, "user.signingKey=0123456789ABCDEF")(t, m)
	}
}

// conflict leaves a rebase or merge of the user's in the middle of a conflict.
func conflict(t *testing.T, m *machine, command string) {
	m.n.git(m.clone, "checkout", "--quiet", "-b", "mine", "HEAD~1")
	check.WriteFile(t, filepath.Join(m.clone, "code.txt"), "another\n")
	m.n.git(m.clone, "commit", "--quiet", "-am", "Mine")
	if _, err := gittest.Try(m.clone, "", command, "main"); err == nil {
		t.Fatalf("git %s found no conflict", command)
	}
}

// TestConfigurations makes mailboxes in clones that are configured in every unusual way, and uses
// them. Mail arrives, and nothing in the user's repository changes except info/exclude.
func TestConfigurations(t *testing.T) {
	notInShort(t)
	together := configuration{name: "together", variables: true, prepare: func(t *testing.T, m *machine) {
		for _, c := range configurations {
			if !c.isAlone() {
				c.prepare(t, m)
			}
		}
	}}
	for _, c := range append(configurations, together) {
		if c.isAlone() || *thorough || c.name == "together" {
			t.Run(c.name, func(t *testing.T) { c.test(t) })
		}
	}
}

func (c configuration) isAlone() bool {
	return c.alone || c.remote != nil || c.clone != nil || c.unsigned || c.prepare == nil
}

func (c configuration) test(t *testing.T) {
	if !c.variables {
		t.Parallel()
	}
	if slices.Contains(c.remote, "--ref-format=reftable") {
		probe := &network{t: t, dir: t.TempDir()}
		if _, err := gittest.Try(probe.dir, "", "init", "--ref-format=reftable"); err != nil {
			t.Skip("this git has no reftable")
		}
	}
	n := newPrepared(t, c.remote, "there", func(n *network) { n.join("there", both...) })
	here, there := n.clone("here", c.clone...), n.machines[0]
	disturb(t, here)
	if c.prepare != nil {
		c.prepare(t, here)
	}
	before := takeSnapshot(t, here.clone)
	status := n.git(here.clone, "--no-optional-locks", "status", "--porcelain=v2")
	here.init("claude", "codex")
	before.compare(t, "init", ".git/info/exclude")

	before = takeSnapshot(t, here.clone)
	if c.unsigned {
		here.send("claude", "codex")
		if _, err := here.trySync(); err == nil || !strings.Contains(err.Error(), "gpg failed to sign") {
			t.Errorf("sync = %v, want what git says", err)
		}
		before.compare(t, "a sync that fails")
		return
	}
	there.sync()
	first := there.send("codex", "claude")
	second := there.send("codex", "claude")
	there.sync()
	here.sync()
	here.want("claude", mailbox.Inbox, first, second)
	here.acknowledge("claude", first.Message.ID)
	here.bury("claude", second.Message.ID)
	third := here.send("claude", "codex")
	here.sync()
	here.sync()
	there.sync()
	there.want("codex", mailbox.Inbox, third)
	there.want("claude", mailbox.Inbox)
	there.want("claude", mailbox.DeadLetters, second)
	before.compare(t, "syncs")
	if got := n.git(here.clone, "--no-optional-locks", "status", "--porcelain=v2"); got != status {
		t.Errorf("git status says\n%s\nwant\n%s", got, status)
	}
	if refs := n.git(n.remote, "for-each-ref", "--format=%(refname)"); refs != "refs/heads/main\n"+mailRef && refs != "refs/heads/main\n"+mailRef+"\n" {
		t.Errorf("the remote has the refs %q, want only those of the code and the mail", refs)
	}
	n.settle()
	n.checkEqual()
}

// disturb leaves staged, unstaged, untracked and ignored files.
func disturb(t *testing.T, m *machine) {
	t.Helper()
	check.WriteFile(t, filepath.Join(m.clone, ".git/info/exclude"), "ignored*\n# a comment without a newline at the end")
	check.WriteFile(t, filepath.Join(m.clone, "staged.txt"), "staged\r\n")
	m.n.git(m.clone, "add", "staged.txt")
	check.WriteFile(t, filepath.Join(m.clone, "sub", "more.txt"), "unstaged\n")
	check.WriteFile(t, filepath.Join(m.clone, "untracked.txt"), "untracked\n")
	check.WriteFile(t, filepath.Join(m.clone, "ignored.txt"), "ignored\n")
}

// A snapshot says what is in a folder.
type snapshot struct {
	dir   string
	files map[string]string
}

func takeSnapshot(t *testing.T, dir string) *snapshot {
	t.Helper()
	s := &snapshot{dir: dir, files: make(map[string]string)}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Name() == ".oacp" {
			return fs.SkipDir
		}
		below, err := filepath.Rel(dir, path)
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content := info.Mode().String()
		if info.Mode().IsRegular() {
			content += fmt.Sprintf(" %x", sha256.Sum256([]byte(check.ReadFile(t, path))))
		}
		s.files[filepath.ToSlash(below)] = content
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// compare fails the test if anything but the exceptions changed.
func (s *snapshot) compare(t *testing.T, what string, exceptions ...string) {
	t.Helper()
	now := takeSnapshot(t, s.dir)
	for _, path := range slices.Sorted(maps.Keys(s.files)) {
		if now.files[path] != s.files[path] && !slices.Contains(exceptions, path) {
			t.Errorf("%s changed %s", what, path)
		}
	}
	for path := range now.files {
		if _, old := s.files[path]; !old && !slices.Contains(exceptions, path) {
			t.Errorf("%s made %s", what, path)
		}
	}
}

// TestPlantedPrograms checks that who can write to a workspace starts no program through the configuration of its repository, and
// that the user's own configuration counts.
func TestPlantedPrograms(t *testing.T) {
	n := newNetwork(t, 1, both...)
	m := n.machines[0]
	m.sync()
	shot := writeScript(t, filepath.Join(n.dir, "shot"), `echo ran >>"$0.log"; exit 1`)
	file := filepath.Join(m.dir, ".git", "config")
	before := check.ReadFile(t, file)
	included := filepath.Join(n.dir, "included")
	for _, setting := range []string{
		"gpg.program=" + shot, "gpg.ssh.program=" + shot, "gpg.ssh.defaultKeyCommand=" + shot, "core.sshCommand=" + shot, "credential.helper=" + shot,
		"credential.https://example.com.helper=" + shot, "core.alternateRefsCommand=" + shot, "remote.oacp.receivepack=" + shot,
		"remote.oacp.uploadpack=" + shot, "filter.x.clean=" + shot, "diff.x.textconv=" + shot, "merge.x.driver=" + shot,
		"protocol.ext.allow=always", "url.ext::" + shot + ".insteadOf=/", "oacp.hooks=true",
	} {
		name, value, _ := strings.Cut(setting, "=")
		for _, target := range []string{file, included} {
			check.WriteFile(t, included, "")
			n.git(m.dir, "config", "commit.gpgsign", "true")
			if target == included {
				n.git(m.dir, "config", "include.path", included)
			}
			n.git(m.dir, "config", "--file", target, name, value)
			m.send("claude", "codex")
			_, err := m.trySync()
			if _, is := errors.AsType[*gitmail.ProgramError](err); !is {
				t.Errorf("with %s in %s, sync = %v; want it refused", setting, target, err)
			}
			check.WriteFile(t, file, before)
		}
	}
	if _, err := os.Stat(shot + ".log"); err == nil {
		t.Error("a program ran")
	}
	n.git(m.dir, "config", "--global", "credential.helper", shot)
	n.git(m.dir, "config", "oacp.hooks", "false")
	m.sync()
	n.git(m.dir, "config", "--global", "--unset-all", "credential.helper")
}

// TestHooks checks that a sync runs the user's hooks only if the last value of oacp.hooks is true, and
// that other protections stay as they are.
func TestHooks(t *testing.T) {
	n := newNetwork(t, 1, both...)
	m := n.machines[0]
	m.sync()
	hook := writeScript(t, filepath.Join(m.dir, ".git", "hooks", "pre-push"), `echo ran >>"$0.log"`)
	n.git(m.dir, "config", "core.hooksPath", filepath.Dir(hook))
	for _, test := range []struct {
		values []string
		runs   bool
	}{
		{nil, false},
		{[]string{"true"}, true},
		{[]string{"yes", "on"}, true},
		{[]string{"false"}, false},
		{[]string{"true", "false"}, false},
	} {
		for _, value := range test.values {
			n.git(m.dir, "config", "--global", "--add", "oacp.hooks", value)
		}
		m.send("claude", "codex")
		m.sync()
		log, err := os.ReadFile(hook + ".log")
		if runs := err == nil; runs != test.runs {
			t.Errorf("with oacp.hooks = %q, the hook runs: %v (%s), want %v", test.values, runs, log, test.runs)
		}
		r, err := gitmail.Open(t.Context(), m.w)
		if err != nil {
			t.Fatal(err)
		}
		if settings := r.Git().Config; !slices.Contains(settings, "core.fsmonitor=false") {
			t.Errorf("with oacp.hooks = %q, git has the settings %q", test.values, settings)
		}
		if len(test.values) > 0 {
			n.git(m.dir, "config", "--global", "--unset-all", "oacp.hooks")
		}
		if test.runs {
			check.Remove(t, hook+".log")
		}
	}
}
