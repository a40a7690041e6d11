package mirror

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// end writes the state of the run into its manifest.
func (p *place) end(state string) {
	p.t.Helper()
	path := filepath.Join(filepath.Dir(p.log.Path()), "manifest.json")
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(data), `"state": "working"`, `"state": "`+state+`"`, 1)), 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// pass runs a new mirror in both directions.
func (p *place) pass(finished bool) Report {
	p.t.Helper()
	m := p.mirror(Both)
	m.Finished = finished
	return p.again(m)
}

func (p *place) again(m *Mirror) Report {
	p.t.Helper()
	report, err := m.Run(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return report
}

// inboxes returns the messages in all inboxes.
func (p *place) inboxes() (all []mailbox.Entry) {
	p.t.Helper()
	for _, agent := range []schema.AgentName{"claude", "codex"} {
		all = append(all, p.box(agent, mailbox.Inbox)...)
	}
	return all
}

// TestFinishedRun checks that the records of a finished run start no work: they stay in the log, or become notices, once.
func TestFinishedRun(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"completed", "failed"} {
		p := newRuns(t).open(1, time.Now())
		p.append(exampleRecords()...)
		p.end(state)
		records := len(exampleRecords())
		for range 2 {
			report := p.pass(false)
			if report.LeftInLog != records || report.Delivered != 0 || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "--finished") {
				t.Fatalf("%s: %+v, want %d records left in the log, and one warning", state, report, records)
			}
		}
		if there := p.inboxes(); len(there) != 0 {
			t.Fatalf("%s: %d messages were delivered", state, len(there))
		}
		if report := p.pass(true); report.Delivered != records || report.LeftInLog != 0 || len(report.Warnings) != 0 {
			t.Errorf("%s: %+v, want %d notices", state, report, records)
		}
		for _, e := range p.inboxes() {
			if !e.Message.IsNotice() {
				t.Errorf("%s: %s on channel %s is no notice", state, e.Message.Type, e.Message.Channel)
			}
		}
		// Neither a mirror without its state nor one without the flag repeats or returns anything.
		p.forget()
		for _, finished := range []bool{false, true} {
			if report := p.pass(finished); report.Delivered+report.LeftInLog+report.Recorded != 0 {
				t.Errorf("%s: again: %+v", state, report)
			}
		}
	}
}

// TestRunEnds checks that what was delivered during the run is not delivered again after it, and that a mirror that
// saw the run open delivers the last records as notices.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	p := newRuns(t).open(1, time.Now())
	records := exampleRecords()
	p.append(records[:2]...)
	m := p.mirror(Both)
	if report := p.again(m); report.Delivered != 2 {
		t.Fatalf("%+v, want 2 messages", report)
	}
	p.append(records[2:]...)
	p.end("completed")
	if report := p.again(m); report.Delivered != len(records)-2 || report.LeftInLog != 0 {
		t.Errorf("%+v, want the last records as notices", report)
	}
	notices := 0
	for _, e := range p.inboxes() {
		if e.Message.IsNotice() {
			notices++
		}
	}
	if notices != len(records)-2 {
		t.Errorf("%d notices, want %d", notices, len(records)-2)
	}
	p.forget()
	if report := p.pass(true); report.Delivered != 0 || report.AlreadyDelivered != len(records) {
		t.Errorf("again: %+v", report)
	}
}

// TestNothingIntoAFinishedRun checks that a message is not recorded in a run that is finished, where nobody would read it,
// and that the next run gets what was sent in the second in which it began, but nothing that the run before has.
func TestNothingIntoAFinishedRun(t *testing.T) {
	t.Parallel()
	r := newRuns(t)
	began := time.Date(2026, 3, 13, 14, 40, 0, 0, time.UTC)
	first := r.open(1, began.Add(-time.Minute))
	first.send(at(40, "in the first run"))
	if report := first.pass(false); report.Recorded != 1 {
		t.Fatalf("%+v, want 1 recorded", report)
	}
	first.end("completed")
	first.send(at(40, "after it"))
	report := first.pass(false)
	if report.Recorded != 0 || report.NotRecorded != 1 || len(report.Warnings) != 1 || !strings.HasPrefix(report.Warnings[0], "run 1 is finished") {
		t.Errorf("%+v, want a warning about one message that is not recorded", report)
	}
	if got := len(first.records()); got != 1 {
		t.Errorf("the finished run has %d records, want 1", got)
	}
	second := r.open(2, began.Add(time.Second/2))
	if report := second.pass(false); report.Recorded != 1 || report.LeftOut != 1 {
		t.Errorf("%+v, want only what the first run does not have", report)
	}
	if got := second.records(); len(got) != 1 || !strings.Contains(got[0].Content, "after it") {
		t.Errorf("the second run has %v", got)
	}
}
