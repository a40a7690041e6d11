package mirror

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// runAll mirrors both ways with everything the outboxes hold.
func (p *place) runAll() Report {
	p.t.Helper()
	m := p.mirror(Both)
	m.All = true
	report, err := m.Run(context.Background())
	if err != nil {
		p.t.Fatal(err)
	}
	return report
}

// TestJoinedLogs checks that two logs can be made to hold the same records, and that no agent gets
// a message twice.
func TestJoinedLogs(t *testing.T) {
	for _, to := range []string{"codex", ""} {
		for _, id := range []string{"", "0123456789abcdef0123", "no-hash"} {
			for _, forget := range []bool{false, true} {
				what := fmt.Sprintf("to %q, id %q, forget %t", to, id, forget)
				r := newRuns(t)
				first := r.open(1, time.Unix(0, 0))
				second := r.open(2, time.Unix(0, 0))
				places := []*place{first, second}
				for i, p := range places {
					one := record("chat", "", "claude", to, fmt.Sprint("words of log ", i+1))
					one.RunID = i + 1
					if id != "" {
						one.ID = fmt.Sprint(id, i)
					}
					p.append(one)
					if report := p.run(Both); report.Delivered != 1 {
						t.Fatalf("%s: got %+v, want 1 delivered", what, report)
					}
				}
				recorded := 0
				for range 3 {
					for _, p := range places {
						if forget {
							p.forget()
						}
						report := p.runAll()
						if report.Delivered != 0 || report.LeftOut != 0 {
							t.Errorf("%s: got %+v, want nothing delivered", what, report)
						}
						recorded += report.Recorded
					}
					for _, p := range places {
						if report := p.run(Both); report.Delivered != 0 || report.Recorded != 0 {
							t.Errorf("%s: got %+v without --all, want nothing new", what, report)
						}
					}
				}
				if got := len(first.box("codex", mailbox.Inbox)); got != 2 {
					t.Errorf("%s: got %d messages, want 2", what, got)
				}
				if recorded != 2 || len(first.records()) != 2 || len(second.records()) != 2 {
					t.Errorf("%s: %d recorded, and the logs hold %d and %d records, want 2 each", what, recorded, len(first.records()), len(second.records()))
				}
			}
		}
	}
}

// TestAppendedCopy checks that a derived message that was appended to another log is not delivered
// from there.
func TestAppendedCopy(t *testing.T) {
	r := newRuns(t)
	first, second := r.open(1, time.Unix(0, 0)), r.open(2, time.Unix(0, 0))
	first.append(record("chat", "", "claude", "codex", "only once"))
	first.run(Both)
	messages := []*schema.Message{first.box("claude", mailbox.Outbox)[0].Message}
	for _, want := range []int{1, 0} {
		var report Report
		a := appender{log: second.log, report: &report}
		if err := a.append(t.Context(), messages); err != nil || report.Recorded != want || report.AlreadyRecorded != 1-want {
			t.Errorf("got %+v, %v, want %d recorded", report, err, want)
		}
	}
	for _, p := range []*place{second, first, second} {
		if report := p.run(Both); report.Delivered != 0 {
			t.Errorf("got %+v, want nothing delivered", report)
		}
		p.forget()
	}
	if got := len(first.box("codex", mailbox.Inbox)); got != 1 {
		t.Errorf("got %d messages, want 1", got)
	}
}

// TestCopiedBroadcast checks that a broadcast to more agents than a message has recipients is
// copied once.
func TestCopiedBroadcast(t *testing.T) {
	agents := []schema.AgentName{"claude"}
	for i := range schema.MaxRecipients + 3 {
		agents = append(agents, schema.AgentName(fmt.Sprintf("agent-%02d", i)))
	}
	for _, id := range []string{"", "0123456789abcdef0123", "no-hash"} {
		p := newPlace(t, agents...)
		one := record("chat", "", "claude", "", "for everybody")
		if id != "" {
			one.ID = id
		}
		p.append(one)
		if report := p.run(Both); report.Delivered != 2 {
			t.Fatalf("id %q: got %+v, want 2 messages", id, report)
		}
		joined := openPlace(t, p.workspace.Dir(), filepath.Join(t.TempDir(), "bridge.jsonl"))
		log, err := bridge.Open(joined.log.Path(), &bridge.Options{RunID: 2, NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		})
		joined.log = log
		for range 2 {
			if report := joined.runAll(); report.Delivered != 0 {
				t.Errorf("id %q: got %+v, want nothing delivered", id, report)
			}
			if got := len(joined.records()); got != 1 {
				t.Errorf("id %q: the log holds %d records, want 1", id, got)
			}
			joined.forget()
		}
	}
}

// TestCopiedBroadcastElsewhere checks that a broadcast that one workspace copied into another log
// reaches all agents of a workspace that only mirrors that log, also those that the first workspace
// does not know.
func TestCopiedBroadcastElsewhere(t *testing.T) {
	for _, others := range []int{1, schema.MaxRecipients, schema.MaxRecipients + 3} {
		r := newRuns(t)
		first, second := r.open(1, time.Unix(0, 0)), r.open(2, time.Unix(0, 0))
		first.append(record("chat", "", "claude", "", "for everybody"))
		first.run(Both)
		second.runAll()
		third := newPlace(t, append(manyAgents(others), "claude")...)
		third = openPlace(t, third.workspace.Dir(), second.log.Path())
		for range 2 {
			third.run(Both)
			third.forget()
			for _, agent := range manyAgents(others) {
				if got := third.subjects(agent, mailbox.Inbox); got != "for everybody" {
					t.Errorf("%d agents: %s has %q, want the broadcast once", others, agent, got)
				}
			}
			if got := third.subjects("claude", mailbox.Inbox); got != "" {
				t.Errorf("the sender has %q", got)
			}
		}
		for _, p := range []*place{second, first} {
			if report := p.run(Both); report.Recorded+report.Delivered > 0 {
				t.Errorf("%d agents: got %+v in the first workspace, want nothing new", others, report)
			}
		}
	}
}
