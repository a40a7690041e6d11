package turn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// outcomes has what each end leaves: the facts in the journal, what the sender gets, the stage that it sees, and how many
// attempts count. They are the same for all drivers. A message has two attempts.
var outcomes = map[End]struct {
	facts, got string
	stage      track.Stage
	attempts   int
}{
	EndAnswered:    {"started succeeded answered acknowledged", "answer", track.StageAnswered, 1},
	EndDone:        {"started succeeded acknowledged", "", track.StageDone, 1},
	EndAsked:       {"started asked", "question", track.StageHeld, 1},
	EndSilent:      {"started succeeded answered acknowledged", "silent: The turn ended without an answer.", track.StageDeclined, 1},
	EndDeclined:    {"started succeeded answered acknowledged", "declined: the model refused: safeguards flagged this", track.StageDeclined, 1},
	EndTooLong:     {"started failed started failed dead buried bounced", "dead", track.StageDead, 2},
	EndLimited:     {"started interrupted", "", track.StageWaiting, 0},
	EndUnavailable: {"started interrupted", "", track.StageWaiting, 0},
	EndFailed:      {"started failed started failed dead buried bounced", "dead", track.StageDead, 2},
	EndStopped:     {"started interrupted", "", track.StageWaiting, 0},
}

// TestEnds ends turns in each way with each driver.
func TestEnds(t *testing.T) {
	t.Parallel()
	for driver := range fakeDrivers {
		for _, row := range endings {
			t.Run(driver+"/"+string(row.end), func(t *testing.T) {
				t.Parallel()
				if why := unable[driver][row.end]; why != "" {
					t.Log(why)
					return
				}
				endOnce(t, driver, row)
			})
		}
	}
}

func endOnce(t *testing.T, driver string, row ending) {
	w := newWorkspace(t)
	draft := question("port")
	if row.end == EndDone {
		draft.Type = schema.Notification
	}
	m := send(t, w, draft)[0]
	r, rec := newRunner(t, w, Config{Once: true, Reply: true, MaxAttempts: 2, NewDriver: newFake(t, w, driver, row.end)})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rec.on = func(e Event) {
		if row.end == EndStopped && e.Kind == EventOutput {
			cancel()
		}
	}
	err := r.Run(ctx)
	_, isDead := errors.AsType[*DeadLettersError](err)
	if isPause := row.then == thenUntil || row.then == thenPause; errors.Is(err, agent.ErrUnavailable) != isPause || isDead != (row.tell == tellBounce) || !isPause && !isDead && err != nil {
		t.Errorf("Run = %v", err)
	}
	if row.end == EndLimited {
		limit, _ := errors.AsType[*agent.APIError](err)
		if at := limit.Until; at.Sub(limitEnds()).Abs() > time.Minute || !strings.Contains(rec.of(EventUnavailable)[0], "the limit ends at") {
			t.Errorf("the limit ends at %v, and the run says %q", at, rec.of(EventUnavailable))
		}
	}
	want := outcomes[row.end]
	journal, err := os.ReadFile(filepath.Join(w.Dir(), track.TurnsFolder, "codex.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	wantTexts(t, "the journal", factKinds(t, journal), strings.Fields(want.facts)...)
	var got []string
	for _, e := range entries(t, w, "claude", mailbox.Inbox) {
		switch m := e.Message; {
		case m.Marks.Declined:
			got = append(got, m.Marks.Ended+": "+m.BodyText())
		case m.IsNotice():
			got = append(got, m.Marks.Ended)
		case m.Marks.Final:
			got = append(got, "answer")
		default:
			got = append(got, string(m.Type))
		}
	}
	if text := strings.Join(got, ", "); text != want.got {
		t.Errorf("the sender got %q, want %q", text, want.got)
	}
	p := progress(t, w, m.ID)
	if p.Stage != want.stage || p.Attempts != want.attempts || p.Stage.IsPending() == (len(entries(t, w, "codex", mailbox.Inbox)) == 0) {
		t.Errorf("progress %+v, want the stage %s after %d attempts", p, want.stage, want.attempts)
	}
	last := rec.last(EventInterrupted)
	for _, kind := range []EventKind{EventSucceeded, EventFailed} {
		if e := rec.last(kind); e.Kind != "" {
			last = e
		}
	}
	if last.End != row.end {
		t.Errorf("the turn ended %q: %+v", last.End, last)
	}
}

// TestRestarts lets programs die in a turn: each is started again, and a line says so. A command has another turn.
func TestRestarts(t *testing.T) {
	t.Parallel()
	for driver := range fakeDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			if driver == "ash" {
				t.Log("the bridge restarts its program, and says so on its own error output")
				return
			}
			w := newWorkspace(t)
			m := send(t, w, question("port"))[0]
			rec, err := runOnce(t, w, Config{Reply: true, NewDriver: newFake(t, w, driver, diesOnce)})
			p := progress(t, w, m.ID)
			if err != nil || p.Stage != track.StageAnswered {
				t.Errorf("Run = %v, and the progress is %+v", err, p)
			}
			if e := rec.last(EventWarning); driver != "exec" && (p.Attempts != 1 || !strings.Contains(e.Reason, "exit status 7") || !strings.HasSuffix(e.Reason, "; it is started again in the same session")) {
				t.Errorf("after %d attempts the warning is %q", p.Attempts, e.Reason)
			}
			if driver == "exec" && (p.Attempts != 2 || rec.last(EventStarted).Attempt != 2) {
				t.Errorf("after %d attempts, the last turn began with %+v", p.Attempts, rec.last(EventStarted))
			}
		})
	}
}

// TestLimitIsSaidOnce lets two turns reach a limit at the same time: nothing starts before it ends, and one event says so.
func TestLimitIsSaidOnce(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("1"), question("2"), question("3"))
	limit := &agent.APIError{Kind: agent.RateLimited, Text: "enough", Until: time.Now().Add(time.Second)}
	both := make(chan bool)
	turns := make(chan time.Time, 10)
	r, rec := newRunner(t, w, Config{Parallel: 2, NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
		turns <- time.Now()
		if len(turns) > 2 {
			return agent.Result{}, nil
		}
		select {
		case both <- true:
		case <-both:
		}
		return agent.Result{}, limit
	})})
	done := 0
	rec.on = func(e Event) {
		if e.Kind == EventAcknowledged {
			if done++; done == 3 {
				r.Finish()
			}
		}
	}
	if err := r.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if said := rec.of(EventUnavailable); len(said) != 1 {
		t.Errorf("the run said %q, want it once", said)
	}
	if e := rec.last(EventUnavailable); !e.RetryAt.Equal(limit.Until.UTC().Truncate(time.Second)) {
		t.Errorf("it goes on at %v, want %v", e.RetryAt, limit.Until)
	}
	<-turns
	<-turns
	if third := <-turns; third.Before(limit.Until) {
		t.Errorf("a turn began %v before the limit ended", limit.Until.Sub(third))
	}
}

// TestEndingsInDocs compares the table with that in the documentation. With OACP_UPDATE it writes it there.
func TestEndingsInDocs(t *testing.T) {
	var table strings.Builder
	table.WriteString("| the turn ends | when | an attempt? | session goes on? | the message | its sender gets |\n|---|---|---|---|---|---|\n")
	yes := map[bool]string{true: "yes", false: "no"}
	for _, e := range endings {
		counts := yes[e.counts]
		if e.then == thenDone {
			counts = "–" // there is no other
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s | %s |\n", e.end, e.when, counts, yes[e.goesOn], e.then, e.tell)
	}
	const path = "../docs/turns.md"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), "<!-- ends of a turn -->\n")
	there, after, closed := strings.Cut(rest, "<!-- end of the table -->\n")
	if !found || !closed {
		t.Fatalf("%s has no place for the table", path)
	}
	if os.Getenv("OACP_UPDATE") != "" {
		text := before + "<!-- ends of a turn -->\n" + table.String() + "<!-- end of the table -->\n" + after
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if there != table.String() {
		t.Errorf("%s has another table; OACP_UPDATE=1 writes this one:\n%s", path, table.String())
	}
	if len(outcomes) != len(endings) || !slices.ContainsFunc(endings, func(e ending) bool { return e.end == EndFailed }) {
		t.Error("the table of outcomes is not about the same ends")
	}
}
