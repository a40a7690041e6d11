package convert

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(runChild(role))
	}
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
	if _, err := project.Init(dir, project.InitOptions{Agents: agents, Now: time.Unix(0, 0)}); err != nil {
		t.Fatal(err)
	}
	return openPlace(t, dir, filepath.Join(filepath.Dir(dir), "bridge.jsonl"))
}

// openPlace opens what is there, without waiting for the disk.
func openPlace(t testing.TB, dir, path string) *place {
	t.Helper()
	w, err := mailbox.Open(dir, &mailbox.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	log, err := bridge.Open(path, &bridge.Options{RunID: 1, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(w.Close(), log.Close()); err != nil {
			t.Error(err)
		}
	})
	return &place{t, w, log}
}

func (p *place) mirror(direction Direction) *Mirror {
	return &Mirror{Workspace: p.workspace, Log: p.log, Direction: direction, young: inNoTime()}
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
	switch t {
	case schema.Handoff:
		list := func(items ...string) (v schema.Value) {
			v.Kind = schema.List
			for _, item := range items {
				v.Items = append(v.Items, schema.TextValue(item))
			}
			return v
		}
		m.Body = mappingOf("source_agent", schema.TextValue("claude"), "target_agent", schema.TextValue("codex"),
			"intent", schema.TextValue("finish: the form"), "artifacts_to_review", list("login.tsx"),
			"definition_of_done", list("tests pass"), "context_bundle", mappingOf(
				"files_touched", list("login.tsx"), "decisions_made", list("a regex\n\n  of two lines\n"),
				"blockers_hit", list("none"), "suggested_next_steps", list("review")))
	case schema.HandoffComplete:
		m.Body = schema.TextValue("issue: \"7\"\npr: 42\nbranch: main\ntests_run: all\nnext_owner: codex\n")
	case schema.ReviewFeedback:
		m.Telemetry.Model, m.Telemetry.Turns = "m-1", "3"
	}
	return m
}

func mappingOf(pairs ...any) (v schema.Value) {
	v.Kind = schema.Mapping
	for i := 0; i < len(pairs); i += 2 {
		v.Pairs = append(v.Pairs, schema.Pair{Key: pairs[i].(string), Value: pairs[i+1].(schema.Value)})
	}
	return v
}

// record returns a record born in the bridge, with the documented id.
func record(t bridge.Type, signal bridge.Signal, from, to, content string) bridge.Record {
	return bridge.Record{
		ID: bridge.GenerateID(t, from, to, content), RunID: 1, Type: t, From: from, To: to,
		Content: content, Signal: signal, Timestamp: "2024-03-28T10:00:00Z",
	}
}

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run with -update and look at the difference\ngot:\n%s", path, got)
	}
}

// inNoTime takes every file as it is: what tests write is whole.
func inNoTime() *nursery {
	young := newNursery()
	young.quiet = 0
	return young
}
