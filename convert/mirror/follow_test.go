package mirror

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// following collects the reports of a mirror that follows.
type following struct {
	t      *testing.T
	told   chan told
	sum    Report
	failed int
}

type told struct {
	report Report
	err    error
}

func newFollowing(t *testing.T) *following {
	return &following{t: t, told: make(chan told, 100)}
}

func (f *following) tell(r Report, err error) { f.told <- told{r, err} }

// until waits until the reports are enough.
func (f *following) until(enough func() bool) {
	f.t.Helper()
	for !enough() {
		select {
		case one := <-f.told:
			f.sum.Recorded += one.report.Recorded
			f.sum.Delivered += one.report.Delivered
			f.sum.Warnings = append(f.sum.Warnings, one.report.Warnings...)
			if one.err != nil {
				f.failed++
			}
		case <-time.After(time.Minute):
			f.t.Fatalf("nothing more came after %+v and %d failures", f.sum, f.failed)
		}
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	f := newFollowing(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.mirror(Both).Follow(ctx, f.tell) }()
	wait := func(recorded, delivered int) {
		t.Helper()
		f.until(func() bool { return f.sum.Recorded >= recorded && f.sum.Delivered >= delivered })
	}
	p.send(message(schema.Question))
	wait(1, 0)
	p.append(exampleRecords()[:3]...)
	wait(1, 3)
	if _, err := project.AddAgent(p.workspace, "gemini", project.AgentOptions{}); err != nil {
		t.Fatal(err)
	}
	m := message(schema.Question)
	m.ID, m.From = "msg-20260313T1430Z-gemini-a8f3", "gemini"
	p.send(m)
	wait(2, 3)
	stop()
	if err := <-ended; err != nil {
		t.Errorf("got error %v at the end", err)
	}
	if got := len(p.records()); f.sum.Recorded != 2 || got != 5 || f.failed > 0 {
		t.Errorf("got %d records, %+v and %d failures, want 5 records: an echo", got, f.sum, f.failed)
	}
}

// TestFollowTriesAgain checks that Follow tries again what failed, and reports a failure once.
func TestFollowTriesAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	f := newFollowing(t)
	lock := p.log.Path() + ".lock"
	if err := os.Mkdir(lock, 0o755); err != nil {
		t.Fatal(err)
	}
	p.send(message(schema.Question))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.mirror(Both).Follow(ctx, f.tell) }()
	f.until(func() bool { return f.failed == 1 })
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	f.until(func() bool { return f.sum.Recorded == 1 })
	stop()
	if err := <-ended; err != nil || f.failed != 1 {
		t.Errorf("got error %v at the end, and %d failures, want 1", err, f.failed)
	}
}

// TestFollowStoppedWithACause checks that being stopped is not a failure, whatever the cause.
func TestFollowStoppedWithACause(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	p.send(message(schema.Question))
	ctx, stop := context.WithCancelCause(context.Background())
	stop(errors.New("told to stop"))
	tell := func(r Report, err error) { t.Errorf("want no report, got %+v, %v", r, err) }
	if err := p.mirror(Both).Follow(ctx, tell); err != nil {
		t.Errorf("want no error, got %v", err)
	}
}
