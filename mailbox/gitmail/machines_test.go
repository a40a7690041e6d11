package gitmail_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/gittest"
	"github.com/oacp-go/oacp/internal/testing/memoryfolder"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// TestMain isolates git from the user's configuration. The test binary runs
// itself as other processes: see child.
func TestMain(m *testing.M) {
	if settings := os.Getenv(childVariable); settings != "" {
		os.Exit(runChild(settings))
	}
	err := memoryfolder.Use()
	var home string
	if err == nil {
		home, err = os.MkdirTemp("", "oacp-gitmail-home-")
	}
	if err == nil {
		home, err = filepath.EvalSymlinks(home)
	}
	if err == nil {
		err = errors.Join(gittest.Isolate(home), os.Setenv(orphans.Variable, string(testMark)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	prototypes.dir = home
	status := m.Run()
	ended, err := orphans.OwnerOf("").End(context.Background(), testMark)
	if len(ended) > 0 {
		err = errors.Join(err, fmt.Errorf("processes were left behind: %q", ended))
	}
	if err = errors.Join(err, os.RemoveAll(home)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	os.Exit(status)
}

// testMark is in the environment of every process that the tests start.
var testMark = orphans.OwnerOf("").NewMark()

// The ref of the mailboxes, on the remote and as each machine has it.
const (
	mailRef = gitmail.DefaultRef + "-3"
	baseRef = "refs/oacp/base"
)

// A network is a bare repository and the machines that have a clone of it.
type network struct {
	t testing.TB
	// dir holds everything, remote is the bare repository.
	dir, remote string
	machines    []*machine
	// tolerant says that a sync may find problems.
	tolerant bool
	// pruned are the names of messages that may be gone from the branch or from machines.
	pruned map[string]bool
}

// A machine is a clone with a workspace in .oacp.
type machine struct {
	n     *network
	name  string
	clone string
	// dir is the workspace, which w has open.
	dir string
	w   *mailbox.Workspace
	// remembered is what boxes returned.
	remembered map[string][]schema.ID
}

// prototypes are networks that tests copy, by what they are, in a folder of their own.
var prototypes = struct {
	sync.Mutex
	dir      string
	networks map[string]*network
}{networks: make(map[string]*network)}

// newPrepared returns a copy of the network that prepare makes of a new remote. The arguments are for
// git init. The name says what prepare does, which is done once.
func newPrepared(t testing.TB, arguments []string, name string, prepare func(n *network)) *network {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	prototypes.Lock()
	defer prototypes.Unlock()
	key := fmt.Sprintf("%q %s", arguments, name)
	n := prototypes.networks[key]
	if n == nil {
		dir, err := os.MkdirTemp(prototypes.dir, "network-")
		if err != nil {
			t.Fatal(err)
		}
		n = &network{t: t, dir: dir, remote: filepath.Join(dir, "remote.git")}
		n.fill(arguments)
		prepare(n)
		prototypes.networks[key] = n
	}
	return n.copy(t)
}

// newRemote makes a bare repository with two commits of code. The arguments are for git init.
func newRemote(t testing.TB, arguments ...string) *network {
	t.Helper()
	return newPrepared(t, arguments, "remote", func(*network) {})
}

// fill makes the bare repository, with two commits of code.
func (n *network) fill(arguments []string) {
	n.t.Helper()
	n.git(n.dir, append([]string{"init", "--quiet", "--bare", n.remote}, arguments...)...)
	first := filepath.Join(n.dir, "first")
	n.git(n.dir, append([]string{"init", "--quiet", first}, arguments...)...)
	check.WriteFile(n.t, filepath.Join(first, "code.txt"), "one\ntwo\nthree\n")
	check.WriteFile(n.t, filepath.Join(first, "sub", "more.txt"), "more\n")
	n.git(first, "add", "-A")
	n.git(first, "commit", "--quiet", "-m", "First")
	check.WriteFile(n.t, filepath.Join(first, "code.txt"), "one\ntwo\nthree\nfour\n")
	n.git(first, "commit", "--quiet", "-am", "Second")
	n.git(first, "push", "--quiet", n.remote, "HEAD:refs/heads/main")
	check.Remove(n.t, first)
}

// leaveNoProcesses fails the test if processes work in the network's folder when it ends. TestMain ends
// them, and finds those that left the folder.
func (n *network) leaveNoProcesses() {
	n.t.Cleanup(func() {
		if found := processesIn(n.dir); len(found) > 0 && !n.t.Failed() {
			n.t.Errorf("processes were left behind: %q", found)
		}
	})
}

// copy returns a copy of the network for another test. It is made in a new folder, which the caller may
// prepare.
func (n *network) copy(t testing.TB, prepare ...func(dir string)) *network {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := &network{t: t, dir: dir}
	for _, f := range prepare {
		f(c.dir)
	}
	c.remote = filepath.Join(c.dir, filepath.Base(n.remote))
	c.leaveNoProcesses()
	if err := os.CopyFS(c.dir, os.DirFS(n.dir)); err != nil {
		t.Fatal(err)
	}
	for _, m := range n.machines {
		clone := filepath.Join(c.dir, m.name)
		copied := &machine{n: c, name: m.name, clone: clone, dir: filepath.Join(clone, ".oacp")}
		for _, dir := range []string{copied.clone, copied.dir} {
			config := filepath.Join(dir, ".git", "config")
			check.WriteFile(t, config, strings.ReplaceAll(check.ReadFile(t, config), n.dir, c.dir))
		}
		if err := copied.open(); err != nil {
			t.Fatal(err)
		}
		c.machines = append(c.machines, copied)
	}
	return c
}

// newNetwork makes a network of machines m0, m1 and so on, which have synced. All of them have the
// agents.
func newNetwork(t testing.TB, machines int, agents ...schema.AgentName) *network {
	t.Helper()
	return newPrepared(t, nil, fmt.Sprint(machines, agents), func(n *network) {
		for i := range machines {
			n.join(fmt.Sprintf("m%d", i), agents...)
		}
		n.settle()
	})
}

// join adds a machine: a clone, and a workspace in it with the agents.
func (n *network) join(name string, agents ...schema.AgentName) *machine {
	n.t.Helper()
	m := n.clone(name)
	m.init(agents...)
	return m
}

// clone adds a machine that has no workspace yet. The arguments are for git clone.
func (n *network) clone(name string, arguments ...string) *machine {
	n.t.Helper()
	m := &machine{n: n, name: name, clone: filepath.Join(n.dir, name)}
	m.dir = filepath.Join(m.clone, ".oacp")
	identity := []string{"--config=user.name=User of " + name, "--config=user.email=" + name + "@example.com"}
	n.git(n.dir, slices.Concat([]string{"clone", "--quiet"}, identity, arguments, []string{n.remote, m.clone})...)
	n.machines = append(n.machines, m)
	return m
}

// init makes the workspace and its repository.
func (m *machine) init(agents ...schema.AgentName) {
	m.n.t.Helper()
	if err := m.tryInit(agents...); err != nil {
		m.n.t.Fatalf("%s: init: %v", m.name, err)
	}
}

func (m *machine) tryInit(agents ...schema.AgentName) error {
	if _, err := project.Init(m.dir, project.InitOptions{Project: "test", Agents: agents, Now: time.Now()}); err != nil {
		return err
	}
	w, err := mailbox.Open(m.dir, nil)
	if err != nil {
		return err
	}
	_, err = gitmail.Init(m.n.t.Context(), w, gitmail.InitOptions{Remote: "origin", Ref: gitmail.DefaultRef, Enclosing: m.clone})
	err = errors.Join(err, w.Close())
	if err == nil && m.w == nil {
		err = m.open()
	}
	return err
}

// open opens the workspace for the duration of the test.
func (m *machine) open() (err error) {
	if m.w, err = mailbox.Open(m.dir, &mailbox.Options{NoSync: true}); err != nil {
		return err
	}
	m.n.t.Cleanup(func() {
		if err := m.w.Close(); err != nil {
			m.n.t.Error(err)
		}
	})
	return nil
}

// trySync syncs in this process.
func (m *machine) trySync() (gitmail.Result, error) { return m.syncWithin(time.Minute) }

func (m *machine) syncWithin(limit time.Duration) (gitmail.Result, error) {
	ctx, cancel := context.WithTimeout(m.n.t.Context(), limit)
	defer cancel()
	r, err := gitmail.Open(ctx, m.w)
	if err != nil {
		return gitmail.Result{}, err
	}
	return r.Sync(ctx, gitmail.Options{})
}

// sync syncs in this process and fails the test if that fails or finds a problem.
func (m *machine) sync() gitmail.Result {
	m.n.t.Helper()
	result, err := m.trySync()
	if err != nil {
		m.n.t.Fatalf("%s: sync: %v", m.name, err)
	}
	for _, problem := range result.Problems {
		if m.n.tolerant {
			break
		}
		m.n.t.Errorf("%s: sync: %s: %v", m.name, problem.Path, problem.Err)
	}
	return result
}

// settle syncs all machines until they have the same commit.
func (n *network) settle() {
	n.t.Helper()
	commits := make(map[*machine]string)
	for round := 0; round < 10; round++ {
		for _, m := range n.machines {
			commits[m] = m.sync().Commit
			if len(commits) == len(n.machines) && !slices.ContainsFunc(n.machines, func(other *machine) bool { return commits[other] != commits[m] }) {
				return
			}
		}
	}
	n.t.Fatalf("after 10 syncs of each machine they have the commits %q", slices.Collect(maps.Values(commits)))
}

func (m *machine) send(from schema.AgentName, to ...schema.AgentName) *mailbox.Receipt {
	m.n.t.Helper()
	r, err := m.w.Send(m.n.t.Context(), draft(from, to...), nil)
	if err != nil {
		m.n.t.Fatalf("%s: sending: %v", m.name, err)
	}
	return r
}

func draft(from schema.AgentName, to ...schema.AgentName) schema.Message {
	return schema.Message{
		From: from, To: to, Type: schema.Notification, Subject: "Look at #42",
		Body: schema.TextValue("The build is red.\nSee the log.\n"),
	}
}

// entry returns the message's file in an inbox.
func (m *machine) entry(agent schema.AgentName, id schema.ID) mailbox.Entry {
	m.n.t.Helper()
	e, err := m.w.Pending(m.n.t.Context(), string(id), agent)
	if err != nil {
		m.n.t.Fatalf("%s: %v", m.name, err)
	}
	return e
}

func (m *machine) acknowledge(agent schema.AgentName, id schema.ID) {
	m.n.t.Helper()
	if err := m.w.Acknowledge(m.entry(agent, id)); err != nil {
		m.n.t.Fatalf("%s: acknowledging: %v", m.name, err)
	}
}

func (m *machine) bury(agent schema.AgentName, id schema.ID) {
	m.n.t.Helper()
	if _, err := m.w.DeadLetter(m.entry(agent, id), mailbox.DeadLetterReason{Reason: "it cannot be done"}); err != nil {
		m.n.t.Fatalf("%s: burying: %v", m.name, err)
	}
}

// restore puts a message back into an inbox.
func (m *machine) restore(agent schema.AgentName, r *mailbox.Receipt) {
	m.n.t.Helper()
	if _, err := m.w.Restore(m.n.t.Context(), r.Message, agent, func(mailbox.Entry) error { return nil }); err != nil {
		m.n.t.Fatalf("%s: restoring: %v", m.name, err)
	}
}

// ids returns the ids of the messages in a box, sorted.
func (m *machine) ids(agent schema.AgentName, box mailbox.Box) []schema.ID {
	m.n.t.Helper()
	entries, err := m.w.List(m.n.t.Context(), agent, box)
	if err != nil {
		m.n.t.Fatalf("%s: %v", m.name, err)
	}
	var ids []schema.ID
	for _, e := range entries {
		if e.Err != nil {
			m.n.t.Errorf("%s: %s: %v", m.name, e.Path, e.Err)
			continue
		}
		ids = append(ids, e.Message.ID)
	}
	slices.Sort(ids)
	return ids
}

// want fails the test unless the box holds exactly these messages.
func (m *machine) want(agent schema.AgentName, box mailbox.Box, want ...*mailbox.Receipt) {
	m.n.t.Helper()
	var ids []schema.ID
	for _, r := range want {
		ids = append(ids, r.Message.ID)
	}
	slices.Sort(ids)
	if got := m.ids(agent, box); !slices.Equal(got, ids) {
		m.n.t.Errorf("%s: %s of %s holds %q, want %q", m.name, box, agent, got, ids)
	}
}

// want fails the test unless the box holds exactly these messages on all machines.
func (n *network) want(agent schema.AgentName, box mailbox.Box, want ...*mailbox.Receipt) {
	n.t.Helper()
	for _, m := range n.machines {
		m.want(agent, box, want...)
	}
}

// git runs git with the configuration of the tests and returns what it prints, without the last
// newline.
func (n *network) git(dir string, arguments ...string) string {
	n.t.Helper()
	return n.gitInput(dir, "", arguments...)
}

func (n *network) gitInput(dir, input string, arguments ...string) string {
	n.t.Helper()
	output, err := gittest.Try(dir, input, arguments...)
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.TrimSuffix(output, "\n")
}

// tip returns the commit that the remote's mailboxes are at.
func (n *network) tip() string {
	n.t.Helper()
	return n.git(n.remote, "rev-parse", mailRef)
}

// checkEqual checks that all machines have one commit and one set of files, that a sync has nothing to
// do, that the history is linear and that git finds no fault in any of the repositories.
func (n *network) checkEqual() {
	n.t.Helper()
	for _, m := range n.machines {
		if changes := m.sync().Changes; len(changes) > 0 {
			n.t.Errorf("%s: another sync changes %s", m.name, toJSON(changes))
		}
	}
	tip := n.tip()
	if merges := n.git(n.remote, "rev-list", "--count", "--merges", mailRef); merges != "0" {
		n.t.Errorf("the history has %s merges, want none", merges)
	}
	for _, m := range n.machines {
		if base := n.git(m.dir, "rev-parse", baseRef); base != tip {
			n.t.Errorf("%s has the base %s, the remote has %s", m.name, base, tip)
		}
		m.checkFolder(tip)
		n.checkRepository(m.dir)
	}
	n.checkRepository(n.remote)
}

func (n *network) checkRepository(dir string) {
	n.t.Helper()
	if output, err := gittest.Try(dir, "", "fsck", "--strict", "--no-dangling", "--no-progress"); err != nil || output != "" {
		n.t.Errorf("git fsck in %s: %v\n%s", dir, err, output)
	}
}

// checkFolder checks that the mailboxes of the workspace hold the files of the commit and no others.
func (m *machine) checkFolder(commit string) {
	m.n.t.Helper()
	committed := make(map[string]string)
	for line := range strings.SplitSeq(m.n.git(m.dir, "ls-tree", "-r", commit, "agents"), "\n") {
		// "100644 blob <oid>\t<path>"
		line = strings.Replace(line, "/.status", "/status.yaml", 1)
		if about, path, ok := strings.Cut(line, "\t"); ok && !strings.HasPrefix(filepath.Base(path), ".") && !strings.Contains(path, "/.facts/") && !strings.Contains(path, "/.removed/") {
			committed[path] = strings.Fields(about)[2]
		}
	}
	var paths []string
	err := filepath.WalkDir(filepath.Join(m.dir, "agents"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		m.n.t.Fatal(err)
	}
	oids := strings.Fields(m.n.gitInput(m.dir, strings.Join(paths, "\n"), "hash-object", "--no-filters", "--stdin-paths"))
	for i, path := range paths {
		below, err := filepath.Rel(m.dir, path)
		if err != nil {
			m.n.t.Fatal(err)
		}
		name := treePath(filepath.ToSlash(below))
		// Two machines can give one message up for different reasons: each keeps its own.
		isReason := strings.HasSuffix(name, mailbox.ReasonSuffix) && json.Valid([]byte(check.ReadFile(m.n.t, path)))
		if committed[name] == "" && m.n.pruned[message(name)] {
			continue
		}
		if committed[name] == "" || committed[name] != oids[i] && !isReason {
			m.n.t.Errorf("%s: %s is %s, the commit has %q", m.name, below, oids[i], committed[name])
		}
		delete(committed, name)
	}
	for name := range committed {
		if m.n.pruned[message(name)] || !m.w.Knows(schema.AgentName(strings.Split(name, "/")[1])) { // it waits for its agent
			continue
		}
		m.n.t.Errorf("%s: %s of the commit is not in the workspace", m.name, name)
	}
}

// message returns the file name of a message, from its path or the path of its reason.
func message(name string) string { return strings.TrimSuffix(path.Base(name), mailbox.ReasonSuffix) }

// treePath returns the path that a file of a mailbox has in a commit: all boxes but inboxes have a
// folder for each day.
func treePath(below string) string {
	folder, file := path.Split(below)
	if strings.HasSuffix(folder, "/inbox/") {
		return below
	}
	name, err := schema.ParseFileName(strings.TrimSuffix(file, mailbox.ReasonSuffix))
	if err != nil {
		return below
	}
	return folder + name.At.Format("20060102") + "/" + file
}

// writeScript writes a shell script that others can run.
func writeScript(t testing.TB, path, script string) string {
	t.Helper()
	check.WriteFile(t, path, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func toJSON(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// notInShort skips a test that mostly runs git with -short. With the race detector, it would take minutes and find
// nothing that the other tests do not find.
func notInShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it runs without -short")
	}
}

// removeAgent removes an agent, as oacp remove-agent does, but without a sync.
func (m *machine) removeAgent(agent schema.AgentName) {
	m.n.t.Helper()
	if err := mailbox.RemoveAgent(m.n.t.Context(), m.w, agent); err != nil {
		m.n.t.Fatalf("%s: removing %s: %v", m.name, agent, err)
	}
}

// addAgent adds an agent, as oacp add-agent does.
func (m *machine) addAgent(agent schema.AgentName) {
	m.n.t.Helper()
	if _, err := project.AddAgent(m.w, agent, project.AgentOptions{}); err != nil {
		m.n.t.Fatalf("%s: adding %s: %v", m.name, agent, err)
	}
}
