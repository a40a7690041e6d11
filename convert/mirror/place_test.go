package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/internal/testing/memoryfolder"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(runChild(role))
	}
	if err := memoryfolder.Use(); err != nil {
		panic(err)
	}
	check.Overlap()
	os.Exit(m.Run())
}

// place is a workspace and a log.
type place struct {
	t         testing.TB
	workspace *mailbox.Workspace
	log       *bridge.Log
}

func newPlace(t testing.TB, agents ...schema.AgentName) *place {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "work")
	mailboxtest.NewIn(t, dir, agents...)
	return openPlace(t, dir, filepath.Join(filepath.Dir(dir), "bridge.jsonl"))
}

// openPlace opens an existing place, without waiting for the disk.
func openPlace(t testing.TB, dir, path string) *place {
	t.Helper()
	w := mailboxtest.Open(t, dir)
	log, err := bridge.Open(path, &bridge.Options{RunID: 1, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return &place{t, w, log}
}

func (p *place) mirror(direction Direction) *Mirror {
	return &Mirror{Workspace: p.workspace, Log: p.log, Direction: direction, now: later}
}

// run mirrors without an error.
func (p *place) run(direction Direction) Report {
	p.t.Helper()
	report, err := p.mirror(direction).Run(context.Background())
	if err != nil {
		p.t.Fatalf("mirror %s: %v", direction, err)
	}
	return report
}

// send sends a message through the workspace.
func (p *place) send(m schema.Message) *schema.Message {
	p.t.Helper()
	receipt, err := p.workspace.Send(context.Background(), m, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return receipt.Message
}

// write appends lines to the log as a foreign writer does.
func (p *place) write(lines ...string) {
	p.t.Helper()
	p.writeRaw(strings.Join(lines, "\n") + "\n")
}

func (p *place) writeRaw(text string) {
	p.t.Helper()
	file, err := os.OpenFile(p.log.Path(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteString(text)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// records returns the log's records.
func (p *place) records() []bridge.Record {
	p.t.Helper()
	var all []bridge.Record
	for e, err := range p.log.Records(context.Background(), "") {
		var line *bridge.LineError
		if errors.As(err, &line) {
			continue
		}
		if err != nil {
			p.t.Fatal(err)
		}
		all = append(all, e.Record)
	}
	return all
}

// box returns the messages in a box, in processing order.
func (p *place) box(agent schema.AgentName, box mailbox.Box) []mailbox.Entry {
	p.t.Helper()
	entries, err := p.workspace.List(context.Background(), agent, box)
	if err != nil {
		p.t.Fatal(err)
	}
	return entries
}

// inbox returns the subjects in an inbox.
func (p *place) subjects(agent schema.AgentName, box mailbox.Box) string {
	p.t.Helper()
	var subjects []string
	for _, e := range p.box(agent, box) {
		if e.Err != nil {
			p.t.Errorf("%s: %v", e.Path, e.Err)
			continue
		}
		subjects = append(subjects, e.Message.Subject)
	}
	return strings.Join(subjects, "|")
}

// message returns a valid message of a type.
func message(t schema.Type) schema.Message {
	m := schema.Message{
		ID: "msg-20260313T1430Z-claude-a8f3", From: "claude", To: []schema.AgentName{"codex"}, Type: t,
		Priority: schema.P1, CreatedAt: "2026-03-13T14:30:05Z",
		Subject: "Add email validation", Body: schema.TextValue("Check the format.\nShow an error.\n"),
	}
	if t == schema.HandoffComplete {
		m.Body = schema.TextValue("issue: \"7\"\npr: 42\nbranch: main\ntests_run: all\nnext_owner: codex\n")
	}
	return m
}

// record returns a record that carries no message, with the documented id.
func record(t bridge.Type, signal bridge.Signal, from, to, content string) bridge.Record {
	return bridge.Record{
		ID: bridge.GenerateID(t, from, to, content), RunID: 1, Type: t, From: from, To: to,
		Content: content, Signal: signal, Timestamp: "2024-03-28T10:00:00Z",
	}
}

// manyAgents returns n names.
func manyAgents(n int) (agents []schema.AgentName) {
	for i := range n {
		agents = append(agents, schema.AgentName(fmt.Sprintf("agent%02d", i)))
	}
	return agents
}

// later is a clock by which every file is settled, as tests write complete files.
func later() time.Time { return time.Now().Add(time.Minute) }
