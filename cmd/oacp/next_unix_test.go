//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// A traffic changes an inbox while agents run "oacp next --agent b": messages arrive, another tool writes some of them
// in place, others acknowledge some, their sender takes some back, "oacp run" gives some a turn, and sessions are shown some.
type traffic struct {
	t      *testing.T
	w      *mailbox.Workspace
	random *rand.Rand
	// sent has the bodies.
	sent     map[schema.ID]string
	handled  map[schema.ID]bool
	recalled map[schema.ID]bool
	// hooked are the messages that sessions have noticed.
	hooked map[schema.ID]bool
	// shown has for each message the living agents that were shown it.
	shown map[schema.ID][]*reader
	// unfinished are files in the inbox that the other tool has begun, with what is missing.
	unfinished map[string][]byte
	readers    []*reader
	// runner is a process of oacp run, or nil. It writes the ids of the messages that get a turn to a file.
	runner *exec.Cmd
	turns  string
}

// TestNextMissesNothing has agents that run oacp next, and kills some of these processes and some of the agents, while
// messages arrive, are acknowledged, get turns and are taken back. Every message is shown, as a whole, to a living agent
// unless it left the inbox before; it is shown only once, and not at all if it was handled, or a session noticed it, before
// the process started. A message is either taken back or shown.
func TestNextMissesNothing(t *testing.T) {
	t.Parallel()
	c := newSession(t, "a,b")
	w, err := mailbox.Open(c.Dir, &mailbox.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	x := &traffic{
		t: t, w: w, random: rand.New(rand.NewPCG(seed, 0)), sent: make(map[schema.ID]string), handled: make(map[schema.ID]bool),
		recalled: make(map[schema.ID]bool), hooked: make(map[schema.ID]bool), shown: make(map[schema.ID][]*reader), unfinished: make(map[string][]byte),
		turns: filepath.Join(t.TempDir(), "turns"),
	}
	for range 30 {
		x.round(1+x.random.IntN(3), 6)
	}
	x.finishFiles()
	x.endRun()
	for rest := len(x.pending()); rest >= 0; rest-- {
		x.round(1, 0)
	}
	for _, e := range x.pending() {
		if len(x.shown[e.Message.ID]) == 0 && !x.hooked[e.Message.ID] {
			t.Errorf("message %s was not shown to a living agent", e.Message.ID)
		}
	}
	turns, err := os.ReadFile(x.turns)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for id := range x.recalled {
		if slices.Contains(strings.Fields(string(turns)), string(id)) {
			t.Errorf("message %s had a turn and was taken back", id)
		}
	}
	t.Logf("%d messages, %d shown and pending, %d taken back, %d noticed by sessions, %d turns", len(x.sent), len(x.shown), len(x.recalled), len(x.hooked), bytes.Count(turns, []byte("\n")))
}

// A reader is an agent: a shell that runs oacp next when it gets a line.
type reader struct {
	shell *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
	// pid is the process of oacp next that it runs.
	pid int
}

const readerScript = `while read -r timeout; do
	oacp next --agent b --json --timeout "$timeout" 2>/dev/null &
	echo "pid $!"; wait $!; echo "status $?"
done`

// reader starts an agent.
func (x *traffic) reader() *reader {
	script := filepath.Join(x.t.TempDir(), "agent.sh")
	if err := os.WriteFile(script, []byte(readerScript), 0o600); err != nil {
		x.t.Fatal(err)
	}
	shell := exec.CommandContext(x.t.Context(), "bash", script)
	shell.Dir, shell.SysProcAttr = x.w.Dir(), &syscall.SysProcAttr{Setsid: true} // as the program of a session
	in, err := shell.StdinPipe()
	if err != nil {
		x.t.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		x.t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		x.t.Fatal(err)
	}
	return &reader{shell: shell, in: in, out: bufio.NewScanner(out)}
}

// line returns the next line of the shell, without this beginning.
func (r *reader) line(t *testing.T, beginning string) (line string, ok bool) {
	if !r.out.Scan() {
		t.Fatalf("the agent has ended: %v", r.out.Err())
	}
	return strings.CutPrefix(r.out.Text(), beginning)
}

// begin starts oacp next.
func (r *reader) begin(t *testing.T, timeout string) {
	if _, err := io.WriteString(r.in, timeout+"\n"); err != nil {
		t.Fatal(err)
	}
	text, _ := r.line(t, "pid ")
	var err error
	if r.pid, err = strconv.Atoi(text); err != nil {
		t.Fatal(err)
	}
}

// end returns what oacp next printed, and its exit status.
func (r *reader) end(t *testing.T) (output string, status string) {
	for {
		line, ok := r.line(t, "status ")
		if ok {
			return output, line
		}
		output += line + "\n"
	}
}

// kill kills the agent, and the process that it runs. What it was shown is new again.
func (x *traffic) kill(r *reader) {
	_ = r.shell.Process.Kill()
	_ = syscall.Kill(r.pid, syscall.SIGKILL)
	_ = r.shell.Wait()
	x.readers = slices.DeleteFunc(x.readers, func(other *reader) bool { return other == r })
	for id := range x.shown {
		x.shown[id] = slices.DeleteFunc(x.shown[id], func(other *reader) bool { return other == r })
	}
}

// round has agents start processes, makes up to most changes, and reads what the processes print.
func (x *traffic) round(agents, most int) {
	for len(x.readers) < agents {
		x.readers = append(x.readers, x.reader())
	}
	before := maps.Clone(x.handled)
	maps.Copy(before, x.hooked)
	running := slices.Clone(x.readers)
	for _, r := range running {
		r.begin(x.t, []string{"1ms", "50ms"}[x.random.IntN(2)])
	}
	killed := make(map[*reader]bool)
	for range x.random.IntN(most + 1) {
		x.happen()
		if r := running[x.random.IntN(len(running))]; x.random.IntN(4) == 0 && !killed[r] {
			killed[r] = true
			if x.random.IntN(2) == 0 {
				x.kill(r)
			} else {
				_ = syscall.Kill(r.pid, syscall.SIGKILL) // it may have ended
			}
		}
	}
	for _, r := range running {
		if !slices.Contains(x.readers, r) {
			continue
		}
		output, status := r.end(x.t)
		switch {
		case status == "0":
			x.show(r, output, before)
		case status != strconv.Itoa(failure.ExitTimeout) && !killed[r]:
			x.t.Fatalf("exit status %s with %d messages in the inbox", status, len(x.pending()))
		}
	}
}

// show checks what a process printed.
func (x *traffic) show(r *reader, output string, handledBefore map[schema.ID]bool) {
	var m struct {
		ID   schema.ID
		Body string
	}
	if err := json.Unmarshal([]byte(output), &m); err != nil {
		x.t.Fatalf("%v in %s", err, output)
	}
	if body, ok := x.sent[m.ID]; !ok || body != m.Body {
		x.t.Errorf("message %s is shown with the body %q, want %q", m.ID, m.Body, body)
	}
	if handledBefore[m.ID] || x.recalled[m.ID] {
		x.t.Errorf("message %s is shown, but it was handled or noticed by a session before oacp next was started, or taken back", m.ID)
	}
	if len(x.shown[m.ID]) > 0 {
		x.t.Errorf("message %s is shown again, and an agent that was shown it lives", m.ID)
	}
	x.shown[m.ID] = append(x.shown[m.ID], r)
}

// happen makes one change.
func (x *traffic) happen() {
	entries := x.pending()
	any := func() *mailbox.Entry { return &entries[x.random.IntN(len(entries))] }
	switch x.random.IntN(9) {
	case 0, 1, 2:
		x.send()
	case 3:
		x.beginFile()
	case 4:
		x.finishFiles()
	case 5:
		if len(entries) > 0 {
			x.acknowledge(any())
		}
	case 6:
		if len(entries) > 0 {
			x.recall(any().Message)
		}
	case 7:
		x.endRun()
		x.runner = exec.CommandContext(x.t.Context(), "oacp", "run", "--dir", x.w.Dir(), "--agent", "b", "--once",
			"--", "sh", "-c", `echo "$OACP_MESSAGE_ID" >>"$0"`, x.turns)
		if err := x.runner.Start(); err != nil {
			x.t.Fatal(err)
		}
	case 8:
		x.session()
	}
}

// session has a session that is shown what waits, and ends.
func (x *traffic) session() {
	for _, event := range []string{"SessionStart", "Stop", "SessionEnd"} {
		hook := exec.CommandContext(x.t.Context(), "oacp", "hook", "claude", "--agent", "b")
		hook.Dir = x.w.Dir()
		hook.Stdin = strings.NewReader(fmt.Sprintf(`{"hook_event_name": %q, "session_id": "s%d", "source": "startup", "stop_hook_active": true}`, event, len(x.sent)))
		if out, err := hook.CombinedOutput(); err != nil {
			x.t.Fatalf("hook %s: %v\n%s", event, err, out)
		}
	}
	for _, e := range x.pending() {
		progress, err := track.Track(x.t.Context(), x.w, string(e.Message.ID))
		if err != nil && !mailbox.IsGone(err) {
			x.t.Fatal(err)
		}
		for _, p := range progress {
			if slices.ContainsFunc(p.Noticed, func(n track.Noticed) bool { return n.Session != "" }) {
				x.hooked[e.Message.ID] = true
			}
		}
	}
}

// endRun kills the runner, or waits for its end.
func (x *traffic) endRun() {
	if x.runner == nil {
		return
	}
	if x.random.IntN(2) == 0 {
		_ = x.runner.Process.Kill() // it may have ended
	}
	_ = x.runner.Wait() // it may have been killed
	x.runner = nil
}

// recall takes a message back.
func (x *traffic) recall(m *schema.Message) {
	progress, err := track.Recall(x.t.Context(), x.w, m)
	if err != nil {
		x.t.Fatal(err)
	}
	if progress[0].Stage == track.StageRecalled {
		x.recalled[m.ID] = true
		if len(x.shown[m.ID]) > 0 || x.hooked[m.ID] {
			x.t.Errorf("message %s was shown and is taken back", m.ID)
		}
	}
}

// pending returns the valid messages in the inbox.
func (x *traffic) pending() (valid []mailbox.Entry) {
	entries, err := x.w.Inbox(x.t.Context(), "b")
	if err != nil {
		x.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Err == nil {
			valid = append(valid, e)
		}
	}
	return valid
}

func (x *traffic) acknowledge(e *mailbox.Entry) {
	if err := x.w.Acknowledge(*e); err != nil && !mailbox.IsGone(err) { // a turn may have ended
		x.t.Fatal(err)
	}
	x.handled[e.Message.ID] = true
}

func (x *traffic) send() {
	m := x.draft()
	receipt, err := x.w.Send(x.t.Context(), m, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	x.sent[receipt.Message.ID] = m.Body.Text
}

func (x *traffic) draft() schema.Message {
	priorities := schema.Priorities()
	return schema.Message{
		From: "a", To: []schema.AgentName{"b"}, Type: schema.Question, Subject: "s", Priority: priorities[x.random.IntN(len(priorities))],
		Body: schema.TextValue(fmt.Sprintf("Message %d\nto the end.\n", len(x.sent))),
	}
}

// beginFile writes the beginning of a message, which is not a valid message yet.
func (x *traffic) beginFile() {
	m := x.draft()
	name := fmt.Sprintf("file%d.yaml", len(x.sent))
	m.ID, m.CreatedAt = schema.ID(fmt.Sprintf("msg-20260313T1430Z-a-file%d", len(x.sent))), "2026-03-13T14:30:00Z"
	data, err := schema.Encode(&m)
	if err != nil {
		x.t.Fatal(err)
	}
	x.sent[m.ID] = m.Body.Text
	end := bytes.Index(data, []byte("subject:"))
	x.write(name, data[:end])
	x.unfinished[name] = data[end:]
}

func (x *traffic) finishFiles() {
	for name, rest := range x.unfinished {
		x.write(name, rest)
		delete(x.unfinished, name)
	}
}

// write appends to a file in the inbox.
func (x *traffic) write(name string, data []byte) {
	file, err := os.OpenFile(filepath.Join(x.w.BoxPath("b", mailbox.Inbox), name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		x.t.Fatal(err)
	}
	if _, err := file.Write(data); err != nil {
		x.t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		x.t.Fatal(err)
	}
}
