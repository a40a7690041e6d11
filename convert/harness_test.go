package convert

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
)

var update = flag.Bool("update", false, "write the golden files anew")

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

// fromBridge returns the message that the record carries, or else the one that is derived from it.
func fromBridge(r bridge.Record, agents []schema.AgentName) (*schema.Message, error) {
	if m, _ := Carried(r); m != nil {
		return m, nil
	}
	to, err := Recipients(r, agents)
	if err != nil {
		return nil, err
	}
	return Derive(r, to, 0)
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
