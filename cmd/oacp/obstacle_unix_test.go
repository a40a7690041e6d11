//go:build unix

package main

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/oacp-go/oacp/cmd/oacp-dashboard/dashboard"
	"github.com/oacp-go/oacp/internal/command"
)

// patience is how long a command may take before it counts as hanging. It is a guard, far above
// what any command takes.
const patience = 2 * time.Minute

// An obstacle takes the place of a folder or file of a workspace.
type obstacle struct {
	name string
	// put makes the obstacle at the path, which is free. In a workspace, isFolder says what belongs
	// there. Outside is a folder that is in no workspace.
	put func(workspace, path, outside string, isFolder bool) error
	// every says that every command meets the obstacle, and not only one that cannot do without.
	every bool
}

var obstacles = []obstacle{
	{"pipe", func(_, path, _ string, _ bool) error { return unix.Mkfifo(path, 0o666) }, true},
	{"link out", func(_, path, outside string, isFolder bool) error {
		return os.Symlink(filepath.Join(outside, nameOf(isFolder)), path)
	}, true},
	{"link inside", func(workspace, path, _ string, isFolder bool) error {
		target, err := filepath.Rel(filepath.Dir(path), filepath.Join(workspace, "elsewhere", nameOf(isFolder)))
		if err != nil {
			return err
		}
		return os.Symlink(target, path)
	}, true},
	{"link to nothing", func(_, path, outside string, _ bool) error {
		return os.Symlink(filepath.Join(outside, "missing"), path)
	}, false},
	{"socket", func(_, path, _ string, _ bool) error { return makeSocket(path) }, false},
	{"device", func(_, path, _ string, _ bool) error {
		return unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) // /dev/zero
	}, false},
}

func nameOf(isFolder bool) string {
	if isFolder {
		return "folder"
	}
	return "file"
}

// makeSocket makes a socket. The path of a socket must be short, so it is moved to its place.
func makeSocket(path string) error {
	short, err := os.MkdirTemp("", "s")
	if err != nil {
		return err
	}
	defer os.RemoveAll(short)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(short, "s"), Net: "unix"})
	if err != nil {
		return err
	}
	listener.SetUnlinkOnClose(false)
	defer listener.Close()
	return os.Rename(filepath.Join(short, "s"), path)
}

// Command lines of TestObstacles. ID and LOG stand for a message in the inbox of b and a bridge log.
var (
	mailCommands = []string{
		"inbox --agent b", "inbox --all --json", "status", "status ID", "read ID", "thread ID", "dashboard --once",
		"send --from a --to b --type question --subject s --body x", "send --from b --to a --type question --subject s --body x",
		"reply ID --from b --body y", "ack ID --agent b", "validate .", "add-agent b --runtime claude",
	}
	turnCommands   = []string{"status", "dashboard --once", "watch --agent b", "run --agent b --once --driver echo"}
	mirrorCommands = []string{"mirror --bridge LOG", "bridge send --bridge LOG --from b --to a --type chat --content x", "mirror --bridge LOG"}
)

// obstaclePlaces are the folders and files of a workspace that commands open; a slash ends folders.
// Refused is a command that cannot do without: it must fail.
var obstaclePlaces = []struct {
	path     string
	refused  string
	commands [][]string
}{
	{"agents/b/", "inbox --agent b", [][]string{mailCommands, turnCommands, mirrorCommands}},
	{"agents/b/inbox/", "inbox --agent b", [][]string{mailCommands, turnCommands, mirrorCommands}},
	{"agents/b/outbox/", "send --from b --to a --type question --subject s --body x", [][]string{mailCommands, turnCommands, mirrorCommands}},
	{"agents/b/dead_letter/", "status", [][]string{mailCommands, turnCommands}},
	{"agents/b/inbox/archive/", "ack ID --agent b", [][]string{mailCommands, turnCommands}},
	{"agents/b/config.yaml", "run --agent b --once --driver echo", [][]string{mailCommands, turnCommands}},
	{"agents/b/agent_card.yaml", "", [][]string{mailCommands, turnCommands}},
	{"agents/b/status.yaml", "", [][]string{mailCommands}},
	{"agents/b/inbox/message.yaml", "run --agent b --once --driver echo", [][]string{mailCommands, turnCommands}},
	{"agents/b/dead_letter/letter.yaml.reason.json", "", [][]string{mailCommands}},
	{"workspace.json", "", [][]string{mailCommands, turnCommands}},
	{"schemas/", "", [][]string{mailCommands}},
	{"schemas/question.schema.json", "", [][]string{mailCommands}},
	{"trust/", "", [][]string{mailCommands}},
	{"state/", "send --from a --to b --type question --subject s --body x", [][]string{mailCommands, turnCommands, mirrorCommands}},
	{"state/.gitignore", "", [][]string{mailCommands}},
	{"state/deliver.lock", "", [][]string{mailCommands}},
	{"state/outgoing/", "send --from a --to b --type question --subject s --body x", [][]string{mailCommands, turnCommands, mirrorCommands}},
	{"state/outgoing/msg-20260313T1201Z-a-aaa1@b@inbox", "", [][]string{mailCommands, turnCommands}},
	{"state/turns/", "run --agent b --once --driver echo", [][]string{turnCommands}},
	{"state/turns/b.jsonl", "run --agent b --once --driver echo", [][]string{turnCommands}},
	{"state/turns/b.jsonl.lock", "", [][]string{turnCommands}},
	{"state/run/", "run --agent b --once --driver echo", [][]string{turnCommands}},
	{"state/run/b.lock", "", [][]string{turnCommands}},
	{"state/run/b.json", "", [][]string{turnCommands}},
	{"state/watch/", "watch --agent b", [][]string{turnCommands}},
	{"state/watch/b.json", "watch --agent b", [][]string{turnCommands}},
	{"state/watch/b.json.lock", "", [][]string{turnCommands}},
	{"state/mirror/", "mirror --bridge LOG", [][]string{mirrorCommands}},
	{"state/mirror/dead_letter/", "", [][]string{mirrorCommands}},
	{"state/mirror/LOG-in.json", "", [][]string{mirrorCommands}},
}

// TestObstacles puts what does not belong there in the place of each folder and file of a workspace.
// Every command must end, change nothing outside of the workspace, and if it fails name the path and
// say what to do.
func TestObstacles(t *testing.T) {
	t.Parallel()
	template := newSession(t, "a,b")
	template.must(t, "send", "--from", "a", "--to", "b", "--type", "question", "--subject", "s", "--body", "x")
	template.must(t, "run", "--once", "--agent", "a", "--driver", "echo")
	for _, place := range obstaclePlaces {
		t.Run(place.path, func(t *testing.T) {
			t.Parallel()
			mirrored := strings.Contains(place.path, "LOG")
			inTurn := newObstructed(t, template.Dir, mirrored)
			var running sync.WaitGroup // commands mostly wait for the disk
			for _, o := range obstacles {
				c, commands := inTurn, []string{cmp.Or(place.refused, place.commands[0][0])}
				check := func() {
					t.Run(o.name, func(t *testing.T) {
						if o.every { // the commands change the workspace
							c, commands = newObstructed(t, template.Dir, mirrored), slices.Concat(place.commands...)
						}
						path := c.obstruct(t, o, place.path)
						for _, line := range append(commands, "doctor --fix") { // it reports what doctor does
							if exit := c.wantReturn(t, path, line); line == place.refused && exit != 1 {
								t.Errorf("oacp %s: exit status %d, want 1", line, exit)
							}
						}
						if after := snapshot(t, c.outside); !maps.Equal(c.before, after) {
							t.Errorf("outside of the workspace there was %v, and now %v", c.before, after)
						}
					})
				}
				if o.every {
					running.Go(check)
				} else {
					check()
				}
			}
			running.Wait()
		})
	}
}

// obstructed is a session in a workspace with an obstacle, and a folder outside of it.
type obstructed struct {
	*session
	id, log, outside string
	before           map[string]string
}

// newObstructed returns a session in a copy of a workspace, with a mirror if one is wanted.
func newObstructed(t *testing.T, template string, mirrored bool) *obstructed {
	t.Helper()
	c := &obstructed{session: new(session), outside: t.TempDir(), log: filepath.Join(t.TempDir(), "bridge.jsonl")}
	c.Streams = &command.Streams{
		In: strings.NewReader(""), Err: &c.stderr, Dir: t.TempDir(), Now: time.Now, Getenv: func(string) string { return "" },
	}
	if err := os.CopyFS(c.Dir, os.DirFS(template)); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{c.outside, filepath.Join(c.Dir, "elsewhere")} {
		if err := os.MkdirAll(filepath.Join(folder, "folder"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "file"), []byte("{}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c.before = snapshot(t, c.outside)
	inbox, err := filepath.Glob(filepath.Join(c.Dir, "agents/b/inbox/*.yaml"))
	if err != nil || len(inbox) != 1 {
		t.Fatalf("the inbox has %v (%v), want a message", inbox, err)
	}
	data, err := os.ReadFile(inbox[0])
	if err != nil {
		t.Fatal(err)
	}
	c.id = strings.TrimPrefix(strings.SplitN(string(data), "\n", 2)[0], "id: ")
	if mirrored {
		c.must(t, "mirror", "--bridge", c.log)
	}
	return c
}

// obstruct puts the obstacle in its place and returns its path.
func (c *obstructed) obstruct(t *testing.T, o obstacle, place string) string {
	t.Helper()
	if strings.Contains(place, "LOG") {
		found, err := filepath.Glob(filepath.Join(c.Dir, "state/mirror/*-in.json"))
		if err != nil || len(found) != 1 {
			t.Fatalf("the mirror keeps %v (%v), want one file", found, err)
		}
		place = strings.Replace(place, "LOG", strings.TrimSuffix(filepath.Base(found[0]), "-in.json"), 1)
	}
	path := filepath.Join(c.Dir, filepath.Clean(place))
	for _, err := range []error{os.RemoveAll(path), os.MkdirAll(filepath.Dir(path), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := o.put(c.Dir, path, c.outside, strings.HasSuffix(place, "/")); err != nil {
		t.Skipf("this system lets the test make no %s: %v", o.name, err)
	}
	return path
}

// wantReturn runs a command, which must end. If it fails, it must name the path and give a hint.
func (c *obstructed) wantReturn(t *testing.T, path, line string) (exit int) {
	t.Helper()
	p := program()
	if strings.HasPrefix(line, "dashboard") {
		p = &command.Program{Commands: []command.Entry{{Name: "dashboard", New: dashboard.NewCommand}}}
	}
	c.stdout.Reset()
	c.stderr.Reset()
	c.Out = bufio.NewWriter(&c.stdout)
	args := strings.Fields(strings.NewReplacer("ID", c.id, "LOG", c.log).Replace(line))
	ended := make(chan int, 1)
	go func() { ended <- p.Run(t.Context(), args, c.Streams) }()
	select {
	case exit = <-ended:
	case <-time.After(patience):
		t.Fatalf("oacp %s hangs", line)
	}
	said := c.stdout.String() + c.stderr.String()
	below, err := filepath.Rel(c.Dir, path)
	if err != nil {
		t.Fatal(err)
	}
	if exit != 0 && (!strings.Contains(said, below) || !strings.Contains(said, "hint: ")) {
		t.Errorf("oacp %s: exit status %d, and it names no path or gives no hint:\n%s", line, exit, said)
	}
	return exit
}

// snapshot describes everything in a folder.
func snapshot(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		found[path] = info.Mode().String()
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			found[path] += " " + string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestObstacleWhileWatching puts a pipe in the place of an inbox that processes watch. They report
// it, and a signal still ends them.
func TestObstacleWhileWatching(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"watch --agent b --follow --since epoch", "run --agent b --driver echo"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			c := newSession(t, "a,b")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			process := exec.CommandContext(ctx, "oacp", strings.Fields(line)...)
			process.Dir = c.Dir
			stdout, err := process.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			process.Stderr = process.Stdout
			if err := process.Start(); err != nil {
				t.Fatal(err)
			}
			awaitLine := func(text string) {
				for said := bufio.NewScanner(stdout); said.Scan(); {
					if strings.Contains(said.Text(), text) {
						return
					}
				}
				t.Errorf("it does not say %q", text)
			}
			c.must(t, "send", "--from", "a", "--to", "b", "--type", "question", "--subject", "first", "--body", "x")
			awaitLine("first")
			inbox := filepath.Join(c.Dir, "agents/b/inbox")
			if err := os.Rename(inbox, inbox+".away"); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mkfifo(inbox, 0o666); err != nil {
				t.Skip(err)
			}
			awaitLine("agents/b/inbox: not a folder")
			if err := process.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, stdout) }()
			if err := process.Wait(); ctx.Err() != nil {
				t.Errorf("SIGTERM did not end it: %v", err)
			}
		})
	}
}

// TestObstacleInTools checks that the MCP server answers, whatever is in the place of an inbox.
func TestObstacleInTools(t *testing.T) {
	c := newSession(t, "a,b")
	inbox := filepath.Join(c.Dir, "agents/b/inbox")
	if err := os.RemoveAll(inbox); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(inbox, 0o666); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	server := exec.CommandContext(ctx, "oacp", "mcp", "--agent", "b")
	server.Dir, server.Env = c.Dir, append(os.Environ(), "HOME="+t.TempDir())
	tools := connectTools(t, &mcp.CommandTransport{Command: server})
	answer, err := tools.session.CallTool(ctx, &mcp.CallToolParams{Name: "list_inbox"})
	if err != nil {
		t.Fatal(err)
	}
	if text := answer.Content[0].(*mcp.TextContent).Text; !answer.IsError || !strings.Contains(text, "agents/b/inbox") {
		t.Errorf("the server answers %q, want an error that names the inbox", text)
	}
	if err := tools.session.Close(); err != nil {
		t.Error(err)
	}
}
