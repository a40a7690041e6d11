package gitmail_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

var hugeBlob = flag.Int64("huge-blob", 64<<20, "the size in bytes of the file that TestHugeBlob pushes")

// A hostile writes trees into the remote that git would not write.
type hostile struct {
	*network
	// files are the files of the tree. Path elements may be anything.
	files map[string]treeFile
	// made counts the messages, written has the objects.
	made    int
	written map[string]bool
}

// A treeFile is an entry of a tree: the mode and the object.
type treeFile struct{ mode, oid string }

func (n *network) newHostile() *hostile { return &hostile{network: n, written: make(map[string]bool)} }

// load takes the tree of the remote.
func (h *hostile) load() {
	h.files = make(map[string]treeFile)
	for line := range strings.SplitSeq(strings.TrimSuffix(h.git(h.remote, "ls-tree", "-r", "-z", mailRef), "\x00"), "\x00") {
		about, path, _ := strings.Cut(line, "\t")
		fields := strings.Fields(about)
		if strings.HasPrefix(path, "/") || strings.Contains(path, "//") {
			continue // an earlier attack; git takes no empty element
		}
		h.files[path] = treeFile{fields[0], fields[2]}
	}
}

// add adds a file to the tree.
func (h *hostile) add(mode, path, content string) {
	h.files[path] = treeFile{mode, h.writeObject("blob", content)}
}

// writeObject writes an object, which may be invalid, into the remote.
func (h *hostile) writeObject(kind, content string) (oid string) {
	data := fmt.Appendf(nil, "%s %d\x00%s", kind, len(content), content)
	oid = fmt.Sprintf("%x", sha1.Sum(data))
	if h.written[oid] {
		return oid
	}
	h.written[oid] = true
	var compressed bytes.Buffer
	w := zlib.NewWriter(&compressed)
	if _, err := w.Write(data); err != nil {
		h.t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		h.t.Fatal(err)
	}
	path := filepath.Join(h.remote, "objects", oid[:2], oid[2:])
	if _, err := os.Lstat(path); err != nil {
		check.WriteFile(h.t, path, compressed.String())
	}
	return oid
}

// push commits the tree to the branch.
func (h *hostile) push() { h.pushTo(mailRef) }

// pushTo commits the tree, on the tip of the branch, to a ref.
func (h *hostile) pushTo(ref string) {
	const who = "Mallory <mallory@example.com> 1777636800 +0000"
	commit := fmt.Sprintf("tree %s\nparent %s\nauthor %s\ncommitter %s\n\nHostile\n", h.writeTree(h.files), h.tip(), who, who)
	h.git(h.remote, "update-ref", ref, h.writeObject("commit", commit))
}

// writeTree writes the tree of the files, whatever their names are. Two spaces in a path element
// stand for a slash in it.
func (h *hostile) writeTree(files map[string]treeFile) string {
	folders := make(map[string]map[string]treeFile)
	entries := make(map[string]string)
	for path, file := range files {
		first, rest, below := strings.Cut(path, "/")
		if !below {
			entries[strings.ReplaceAll(first, "  ", "/")] = file.mode + " " + file.oid
			continue
		}
		if folders[first] == nil {
			folders[first] = make(map[string]treeFile)
		}
		folders[first][rest] = file
	}
	for name, below := range folders {
		entries[name] = "40000 " + h.writeTree(below)
	}
	order := func(name string) string {
		if folders[name] != nil {
			return name + "/"
		}
		return name
	}
	var tree bytes.Buffer
	for _, name := range slices.SortedFunc(maps.Keys(entries), func(a, b string) int { return strings.Compare(order(a), order(b)) }) {
		mode, oid, _ := strings.Cut(entries[name], " ")
		raw, err := hex.DecodeString(oid)
		if err != nil {
			h.t.Fatal(err)
		}
		fmt.Fprintf(&tree, "%s %s\x00%s", mode, name, raw)
	}
	return h.writeObject("tree", tree.String())
}

// message makes a message from mallory to codex and returns its file name, text and the day of the
// name.
func (h *hostile) message(change func(m *schema.Message)) (name, text, day string) {
	h.t.Helper()
	h.made++
	at := time.Date(2026, 5, 1, 12, 0, h.made, 0, time.UTC)
	m := draft("mallory", "codex")
	m.Priority, m.CreatedAt = schema.P2, schema.NewTimestamp(at)
	var err error
	if m.ID, err = schema.NewID(at, "mallory", m.Type, schema.LongRand, strings.NewReader(fmt.Sprintf("%064d", h.made))); err != nil {
		h.t.Fatal(err)
	}
	if name, err = m.LongFileName(); err != nil {
		h.t.Fatal(err)
	}
	if change != nil {
		change(&m)
	}
	data, err := schema.Encode(&m)
	if err != nil {
		h.t.Fatal(err)
	}
	return name, string(data), at.Format("20060102")
}

// deliver adds a message to the outbox of mallory and the inbox of codex.
func (h *hostile) deliver(name, text, day string) {
	h.add("100644", "agents/mallory/outbox/"+day+"/"+name, text)
	h.add("100644", "agents/codex/inbox/"+name, text)
}

// An attack changes the tree.
type attack struct {
	name string
	do   func(h *hostile)
	// silent says that a sync need not report it.
	silent bool
}

// attacks are each called on a tree that has the earlier ones.
var attacks = []attack{
	{"symlink", func(h *hostile) {
		name, _, day := h.message(nil)
		h.add("120000", "agents/mallory/outbox/"+day+"/"+name, "/etc/passwd")
		h.add("120000", "agents/codex/inbox/"+name, "/etc/passwd")
	}, false},
	{"symlink of a box", func(h *hostile) { h.add("120000", "agents/eve/inbox", "../../../..") }, true},
	{"symlink of a mailbox", func(h *hostile) { h.add("120000", "agents/trudy", "/tmp") }, true},
	{"executable", func(h *hostile) {
		name, text, day := h.message(nil)
		h.add("100755", "agents/mallory/outbox/"+day+"/"+name, text)
		h.add("100755", "agents/codex/inbox/"+name, text)
	}, false},
	{"submodule", func(h *hostile) {
		name, _, _ := h.message(nil)
		h.files["agents/codex/inbox/"+name] = treeFile{"160000", h.tip()}
	}, false},
	{"parent folders", func(h *hostile) {
		name, text, _ := h.message(nil)
		h.add("100644", "agents/../../outside.txt", "outside\n")
		h.add("100644", "agents/codex/inbox/../../../../"+name, text)
		h.add("100644", "../outside.txt", "outside\n")
		h.add("100644", "agents/../agents/codex/inbox/"+name, text)
	}, true},
	{"slash in a name", func(h *hostile) {
		name, text, _ := h.message(nil)
		h.add("100644", "agents/codex/inbox/..  ..  ..  ..  "+name, text)
		h.add("100644", "agents/codex/inbox/..  ..  ..  ..  outside.yaml", text)
		h.add("100644", "  etc  outside.yaml", text)
	}, true},
	{"dotted names", func(h *hostile) {
		name, text, _ := h.message(nil)
		h.add("100644", "agents/./codex/inbox/"+name, text)
	}, true},
	{"repository", func(h *hostile) {
		h.add("100755", ".git/hooks/post-checkout", "#!/bin/sh\ntouch outside\n")
		h.add("100644", ".git/config", "[core]\n\tfsmonitor = touch outside\n")
		h.add("100644", "agents/codex/inbox/.git/config", "[core]\n\tfsmonitor = touch outside\n")
		h.add("100644", ".gitattributes", "* filter=evil\n")
		h.add("100644", ".gitmodules", "[submodule \"a\"]\n\tpath = -a\n\turl = -u./payload\n")
	}, true},
	{"dash names", func(h *hostile) {
		h.add("100644", "-rf.yaml", "x\n")
		h.add("100644", "agents/codex/inbox/-rf.yaml", "x\n")
		h.add("100644", "agents/-rf/.agents/a1", "")
		h.add("100644", "agents/--upload-pack=touch outside/.agents/a1", "")
	}, false},
	{"state", func(h *hostile) {
		h.add("100644", "state/git/sync.lock", "x\n")
		h.add("100644", "state/outgoing/x", "x\n")
	}, true},
	{"case of a message", func(h *hostile) {
		name, text, day := h.message(nil)
		h.deliver(name, text, day)
		h.add("100644", "agents/codex/inbox/"+strings.ToUpper(name[:len(name)-5])+".yaml", text)
	}, false},
	{"control characters", func(h *hostile) {
		h.add("100644", "agents/red\x1b[31m\nagent/.agents/a1", "")
		h.add("100644", "agents/codex/inbox/\x1b]0;title\a\n.yaml", "x\n")
		h.add("100644", "agents/\xff\xfe/.agents/a1", "")
	}, false},
	{"reserved agent names", func(h *hostile) {
		h.add("100644", "agents/"+strings.Repeat("a", 300)+"/.agents/a1", "")
		h.add("100644", "agents/all/.agents/a1", "")
		h.add("100644", "agents/oacp/.agents/a1", "")
	}, true},
	{"another sender", func(h *hostile) {
		name, text, day := h.message(func(m *schema.Message) { m.From = "claude" })
		h.deliver(name, text, day)
	}, false},
	{"somebody else's outbox", func(h *hostile) {
		name, text, day := h.message(nil)
		h.add("100644", "agents/claude/outbox/"+day+"/"+name, text)
		h.add("100644", "agents/codex/inbox/"+name, text)
	}, false},
	{"not a recipient", func(h *hostile) {
		name, text, day := h.message(func(m *schema.Message) { m.To = []schema.AgentName{"claude"} })
		h.deliver(name, text, day)
	}, false},
	{"no outbox copy", func(h *hostile) {
		name, text, _ := h.message(nil)
		h.add("100644", "agents/codex/inbox/"+name, text)
	}, true},
	{"inbox copy differs", func(h *hostile) {
		name, text, day := h.message(nil)
		h.deliver(name, text, day)
		h.add("100644", "agents/codex/inbox/"+name, strings.Replace(text, "red", "green", 1))
	}, true},
	{"another id", func(h *hostile) {
		name, text, day := h.message(func(m *schema.Message) { m.ID = "msg-20260501T1200Z-mallory-ffffffffffffffff" })
		h.deliver(name, text, day)
	}, true},
	{"not YAML", func(h *hostile) {
		name, _, day := h.message(nil)
		h.deliver(name, "id: [\x00\x01", day)
	}, false},
	{"not a message", func(h *hostile) {
		name, _, day := h.message(nil)
		h.deliver(name, "id: x\n", day)
	}, false},
	{"empty", func(h *hostile) {
		name, _, day := h.message(nil)
		h.deliver(name, "", day)
	}, false},
	{"2 MiB", func(h *hostile) {
		name, text, day := h.message(nil)
		h.deliver(name, text+strings.Repeat("#", 2<<20), day)
	}, false},
	{"another day", func(h *hostile) {
		name, text, _ := h.message(nil)
		h.deliver(name, text, "20200101")
	}, false},
	{"folder for a file", func(h *hostile) {
		name, text, day := h.message(nil)
		h.add("100644", "agents/mallory/outbox/"+day+"/"+name+"/"+name, text)
		h.add("100644", "agents/codex/inbox/"+name+"/"+name, text)
	}, true},
	{"file for a box", func(h *hostile) { h.add("100644", "agents/peggy/outbox", "x\n") }, true},
	{"reason without a dead letter", func(h *hostile) {
		name, _, day := h.message(nil)
		h.add("100644", "agents/codex/dead_letter/"+day+"/"+name+mailbox.ReasonSuffix, "not JSON")
	}, true},
	{"archive of nothing", func(h *hostile) {
		name, _, day := h.message(nil)
		h.add("100644", "agents/codex/archive/"+day+"/"+name, "\x00")
	}, false},
	{"workspace.json", func(h *hostile) { h.add("100644", "workspace.json", "[[[") }, true},
	{"workspace.json as a symlink", func(h *hostile) { h.add("120000", "workspace.json", "/etc/passwd") }, true},
	{"2,000 foreign files", func(h *hostile) {
		h.add("100644", "foreign/0", "x\n")
		for i := range 2_000 {
			h.files[fmt.Sprintf("foreign/%d", i)] = h.files["foreign/0"]
			h.files[fmt.Sprintf("agents/codex/inbox/%d.txt", i)] = h.files["foreign/0"]
		}
	}, true},
}

// TestHostileTrees pushes trees that no sync would make. What is wrong is skipped and reported, and
// mail in the same commit arrives. Nothing is written outside the mailboxes.
func TestHostileTrees(t *testing.T) {
	notInShort(t)
	t.Parallel()
	n := newNetwork(t, 2, "claude", "codex", "mallory")
	here, there := n.machines[0], n.machines[1]
	n.settle()
	n.tolerant = true
	h := n.newHostile()
	outside := takeSnapshot(t, here.clone)
	var before *mailbox.Receipt
	silent := attack{"silent", func(h *hostile) { // one commit with all of these
		for _, a := range attacks {
			if a.silent {
				a.do(h)
			}
		}
	}, true}
	for _, attack := range append(attacks, silent) {
		if attack.silent && attack.name != silent.name && !*thorough {
			continue
		}
		t.Run(attack.name, func(t *testing.T) {
			n.t = t
			h.load()
			attack.do(h)
			name, text, day := h.message(nil)
			h.deliver(name, text, day)
			h.push()
			r := here.send("claude", "codex")
			if before != nil {
				here.acknowledge("codex", before.Message.ID)
			}
			result := here.sync()
			if len(result.Problems) == 0 && !attack.silent {
				t.Error("the sync reports no problem")
			}
			if len(result.Problems) > 100 {
				t.Errorf("the sync reports %d problems, want fewer for people to read", len(result.Problems))
			}
			if got := check.ReadFile(t, filepath.Join(here.w.BoxPath("codex", mailbox.Inbox), name)); got != text {
				t.Errorf("the message that came with it is %q", got)
			}
			outside.compare(t, "a sync")
			here.checkNames()
			there.sync()
			pending := there.ids("codex", mailbox.Inbox)
			if count(pending, r.Message.ID) != 1 {
				t.Error("mail from here does not arrive there any more")
			}
			if before != nil && count(pending, before.Message.ID) != 0 {
				t.Error("an acknowledgement from here does not arrive there any more")
			}
			before = r
		})
	}
	n.t = t
	here.acknowledge("codex", before.Message.ID)
	here.sync()
	there.sync()
	if count(there.ids("codex", mailbox.Inbox), before.Message.ID) != 0 {
		t.Error("the last acknowledgement from here does not arrive there")
	}
}

// checkNames checks that the workspace holds nothing but what a workspace holds, and that the mail is
// valid.
func (m *machine) checkNames() {
	m.n.t.Helper()
	err := filepath.WalkDir(m.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(m.dir, path)
		if err != nil || below == "." {
			return err
		}
		parts := strings.Split(filepath.ToSlash(below), "/")
		if parts[0] == ".git" || parts[0] == "state" {
			return fs.SkipDir
		}
		if !entry.IsDir() && !entry.Type().IsRegular() {
			m.n.t.Errorf("%s is a %v", below, entry.Type())
		}
		if info, err := entry.Info(); err == nil && entry.Type().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			m.n.t.Errorf("%s can be executed", below)
		}
		if len(parts) == 4 && parts[2] == ".agents" || len(parts) == 2 && parts[1] == ".gitattributes" {
			return nil
		}
		known := slices.Contains([]string{"agents", "workspace.json", ".gitattributes", ".gitignore"}, parts[0])
		if len(parts) > 1 {
			known = known && (schema.AgentName(parts[1]).Valid() || below == "agents/.gitattributes")
		}
		if len(parts) == 4 && parts[3] != ".gitkeep" && parts[3] != "archive" {
			_, err := schema.ParseFileName(strings.TrimSuffix(parts[3], mailbox.ReasonSuffix))
			known = known && err == nil
		}
		if !known || len(parts) > 5 || len(parts) == 5 && parts[3] != "archive" {
			m.n.t.Errorf("%q is in the workspace", below)
		}
		return nil
	})
	if err != nil {
		m.n.t.Fatal(err)
	}
	for _, agent := range []schema.AgentName{"claude", "codex", "mallory"} {
		for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox} {
			m.ids(agent, box) // reports what is not valid
		}
	}
}

// TestEditedMessages edits a message in the tree after it was published. The copies here stay as they
// are.
func TestEditedMessages(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, "claude", "codex")
	here := n.machines[0]
	r := here.send("claude", "codex")
	n.settle()
	h := n.newHostile()
	h.load()
	edited := strings.Replace(check.ReadFile(t, r.Outbox), "red", "green", 1)
	for path := range h.files {
		if strings.HasSuffix(path, filepath.Base(r.Outbox)) {
			h.add("100644", path, edited)
		}
	}
	h.push()
	result, err := here.trySync()
	if err != nil || len(result.Problems) == 0 {
		t.Errorf("sync = %+v, %v; want a problem that names the edited message", result, err)
	}
	for _, path := range append(r.Inboxes, r.Outbox) {
		if strings.Contains(check.ReadFile(t, path), "green") {
			t.Errorf("%s was edited", path)
		}
	}
	here.want("codex", mailbox.Inbox, r)
}

// TestHugeBlob pushes a huge file that compresses well. A sync skips it and needs little memory.
func TestHugeBlob(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, "claude", "codex", "mallory")
	here := n.machines[0]
	n.settle()
	h := n.newHostile()
	h.load()
	name, text, day := h.message(nil)
	h.deliver(name, text, day)
	bad, _, _ := h.message(nil)
	zeros := filepath.Join(n.dir, "zeros")
	check.WriteFile(t, zeros, "")
	if err := os.Truncate(zeros, *hugeBlob); err != nil {
		t.Fatal(err)
	}
	oid := n.git(n.remote, "-c", "core.bigFileThreshold=1m", "hash-object", "-w", "--no-filters", zeros)
	h.files["agents/mallory/outbox/"+day+"/"+bad] = treeFile{"100644", oid}
	h.files["agents/codex/inbox/"+bad] = treeFile{"100644", oid}
	h.push()
	check.Remove(t, zeros)
	start := time.Now()
	p := n.start(child{Role: "once", Dir: here.dir})
	<-p.ended
	if p.err == nil || !strings.Contains(strings.Join(p.lines, "\n"), bad) {
		t.Errorf("the sync ended with %v and printed %q, want a problem with %s", p.err, p.lines, bad)
	}
	if got := check.ReadFile(t, filepath.Join(here.w.BoxPath("codex", mailbox.Inbox), name)); got != text {
		t.Errorf("the message that came with it is %q", got)
	}
	t.Log(time.Since(start))
	for _, line := range p.lines {
		var memory int64
		if _, err := fmt.Sscanf(line, "memory: %d KiB", &memory); err == nil {
			t.Logf("%d MiB of memory", memory>>10)
			if memory > 100<<10 {
				t.Errorf("the sync used %d MiB of memory", memory>>10)
			}
		}
	}
}
