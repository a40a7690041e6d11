package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A traffic changes an inbox while "oacp next --agent b" runs: messages arrive, another tool writes some of them
// in place, and another process acknowledges some.
type traffic struct {
	t      *testing.T
	w      *mailbox.Workspace
	random *rand.Rand
	// sent has the bodies.
	sent         map[schema.ID]string
	acknowledged map[schema.ID]bool
	// shown are the messages that a process printed and then ended.
	shown map[schema.ID]bool
	// unfinished are files in the inbox that the other tool has begun, with what is missing.
	unfinished map[string][]byte
}

// TestNextMissesNothing starts processes of oacp next, and kills some, while messages arrive and are
// acknowledged. Every message that nobody else acknowledges is shown, as a whole, and none that was
// acknowledged before the process was started.
func TestNextMissesNothing(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise a process takes a second to exit
	c := newSession(t, "a,b")
	w, err := mailbox.Open(c.Dir, &mailbox.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	x := &traffic{
		t: t, w: w, random: rand.New(rand.NewPCG(seed, 0)), sent: make(map[schema.ID]string),
		acknowledged: make(map[schema.ID]bool), shown: make(map[schema.ID]bool), unfinished: make(map[string][]byte),
	}
	for range 40 {
		x.round(1+x.random.IntN(3), 5)
	}
	x.finishFiles()
	for len(x.pending()) > 0 {
		x.round(1, 0)
	}
	for id := range x.sent {
		if !x.shown[id] && !x.acknowledged[id] {
			t.Errorf("message %s was neither shown nor acknowledged", id)
		}
	}
	t.Logf("%d messages, %d shown", len(x.sent), len(x.shown))
}

// round starts processes, makes up to most changes, and ends the processes.
func (x *traffic) round(processes, most int) {
	before := make(map[schema.ID]bool)
	for id := range x.acknowledged {
		before[id] = true
	}
	var running []*exec.Cmd
	var outputs []*bytes.Buffer
	for range processes {
		next := exec.CommandContext(x.t.Context(), "oacp", "next", "--dir", x.w.Dir(), "--agent", "b", "--json", "--timeout", "5m")
		out := new(bytes.Buffer)
		next.Stdout = out
		if err := next.Start(); err != nil {
			x.t.Fatal(err)
		}
		running, outputs = append(running, next), append(outputs, out)
	}
	killed := make([]bool, processes)
	for range x.random.IntN(most + 1) {
		x.happen()
		if i := x.random.IntN(3 * processes); i < processes && most > 0 {
			killed[i] = true
			_ = running[i].Process.Kill() // it may have ended
		}
	}
	if len(x.pending()) == 0 {
		x.send() // a process that waits has to end
	}
	for i, next := range running {
		_ = next.Wait() // the status says it
		status := next.ProcessState.ExitCode()
		if status == failure.ExitDone {
			x.show(outputs[i].Bytes(), before)
		} else if !killed[i] {
			x.t.Fatalf("exit status %d with %d messages in the inbox", status, len(x.pending()))
		}
	}
	// An agent that is stopped before it acknowledges a message gets it again.
	if entries := x.pending(); len(entries) > 0 && x.shown[entries[0].Message.ID] && x.random.IntN(4) > 0 {
		x.acknowledge(entries[0])
	}
}

// show checks what a process printed.
func (x *traffic) show(output []byte, acknowledgedBefore map[schema.ID]bool) {
	var m struct {
		ID   schema.ID
		Body string
	}
	if err := json.Unmarshal(output, &m); err != nil {
		x.t.Fatalf("%v in %s", err, output)
	}
	if body, ok := x.sent[m.ID]; !ok || body != m.Body {
		x.t.Errorf("message %s is shown with the body %q, want %q", m.ID, m.Body, body)
	}
	if acknowledgedBefore[m.ID] {
		x.t.Errorf("message %s is shown, but it was acknowledged before oacp next was started", m.ID)
	}
	x.shown[m.ID] = true
}

// happen makes one change.
func (x *traffic) happen() {
	switch entries := x.pending(); x.random.IntN(5) {
	case 0, 1:
		x.send()
	case 2:
		x.beginFile()
	case 3:
		x.finishFiles()
	case 4:
		if len(entries) > 0 {
			x.acknowledge(entries[x.random.IntN(len(entries))])
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

func (x *traffic) acknowledge(e mailbox.Entry) {
	if err := x.w.Acknowledge(e); err != nil {
		x.t.Fatal(err)
	}
	x.acknowledged[e.Message.ID] = true
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
