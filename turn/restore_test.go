package turn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// attempts returns a maker of drivers whose turns note the number of the attempt and end with the
// error.
func attempts(into *[]string, err error) func(schema.ConversationID, string) agent.Driver {
	return plays(func(_ context.Context, request agent.Request) (agent.Result, error) {
		*into = append(*into, variable(request, "OACP_ATTEMPT"))
		return agent.Result{Text: "ok"}, err
	})
}

func restoreOne(t testing.TB, w *mailbox.Workspace, id schema.ID, was track.Stage) {
	t.Helper()
	all, err := track.Restore(t.Context(), w, string(id), "")
	if err != nil || len(all) != 1 || all[0].Was != was {
		t.Fatalf("Restore = %+v, %v; want one that was %s", all, err, was)
	}
}

// compactJournal replaces the journal of codex with a snapshot.
func compactJournal(t testing.TB, w *mailbox.Workspace) {
	t.Helper()
	j, err := track.OpenJournal(w, "codex", time.Now)
	if err == nil {
		err = errors.Join(j.Compact(1), j.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRestore checks that a message gets turns again after each outcome, counted anew, also after
// the journal was compacted before or after the message was restored.
func TestRestore(t *testing.T) {
	t.Parallel()
	failure := errors.New("no")
	for _, test := range []struct {
		name  string
		err   error
		was   track.Stage
		tries []string
	}{{"succeeded", nil, "done", []string{"1"}}, {"dead", failure, "dead", []string{"1", "2"}}} {
		for _, compact := range []string{"never", "before", "after"} {
			t.Run(test.name+"/compacted "+compact, func(t *testing.T) {
				w := newWorkspace(t)
				m := send(t, w, question("port"))[0]
				var tries []string
				config := Config{NewDriver: attempts(&tries, test.err), MaxAttempts: 2, Reply: true}
				for round := range 3 {
					if round > 0 {
						if compact == "before" {
							compactJournal(t, w)
						}
						restoreOne(t, w, m.ID, test.was)
						if compact == "after" {
							compactJournal(t, w)
						}
						if p := progress(t, w, m.ID); p.Stage != track.StageWaiting || p.Attempts != 0 || p.Reason != "" {
							t.Errorf("the restored message is %+v, want it waiting, without attempts", p)
						}
					}
					tries = nil
					if _, err := runOnce(t, w, config); (err != nil) != (test.err != nil) {
						t.Fatal(err)
					}
					if !slices.Equal(tries, test.tries) {
						t.Errorf("round %d: the attempts are %q, want %q", round, tries, test.tries)
					}
				}
				if got := len(entries(t, w, "claude", mailbox.Inbox)); got != 3 {
					t.Errorf("claude got %d answers or bounces, want one for each round", got)
				}
			})
		}
	}
}

// TestRestoreWhatWaitedForARetry acknowledges a message between two attempts by hand: restored, it
// has all attempts again.
func TestRestoreWhatWaitedForARetry(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	m := send(t, w, question("port"))[0]
	var tries []string
	c := Config{NewDriver: attempts(&tries, errors.New("no")), MaxAttempts: 3, firstRetry: time.Hour}
	r, rec := newRunner(t, w, c)
	ctx, cancel := context.WithCancel(t.Context())
	rec.on = func(e Event) {
		if e.Kind == EventFailed {
			cancel()
		}
	}
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.Acknowledge(entries(t, w, "codex", mailbox.Inbox)[0]); err != nil {
		t.Fatal(err)
	}
	restoreOne(t, w, m.ID, "done")
	c.firstRetry = 0
	if _, err := runOnce(t, w, c); err == nil {
		t.Error("the run has no dead letter")
	}
	wantTexts(t, "attempts", tries, "1", "1", "2", "3")
}

// TestRestoreBesideARunner restores messages at once after they were handled or given up, while a
// Runner is at work: each gets its turn, as often as it is restored.
func TestRestoreBesideARunner(t *testing.T) {
	t.Parallel()
	const times = 25
	w := newWorkspace(t)
	sent := send(t, w, question("good"), question("bad"))
	turns := make(chan string, 100)
	r, rec := newRunner(t, w, Config{MaxAttempts: 1, MaxTurns: Unlimited, MaxPairTurns: Unlimited, Parallel: 2, NewDriver: plays(func(_ context.Context, request agent.Request) (agent.Result, error) {
		subject := variable(request, "OACP_MESSAGE_SUBJECT")
		turns <- subject + " " + variable(request, "OACP_ATTEMPT")
		if subject == "bad" {
			return agent.Result{}, errors.New("no")
		}
		return agent.Result{}, nil
	})})
	r.poll = time.Hour // it must not matter whether the Runner has read what Restore wrote
	handled := make(chan schema.ID, 100)
	rec.on = func(e Event) {
		if e.Kind == EventAcknowledged || e.Kind == EventBounced {
			handled <- e.ID
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	counts := make(map[schema.ID]int)
	for len(counts) < 2 || counts[sent[0].ID] < times || counts[sent[1].ID] < times {
		select {
		case id := <-handled:
			if counts[id]++; counts[id] < times {
				if _, err := track.Restore(ctx, w, string(id), "codex"); err != nil {
					t.Fatal(err)
				}
			}
		case <-ctx.Done():
			t.Fatalf("the messages had %v turns, want %d each; the events are %s", counts, times, rec.kinds())
		}
	}
	r.Finish()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	close(turns)
	got := make(map[string]int)
	for turn := range turns {
		got[turn]++
	}
	if got["good 1"] != times || got["bad 1"] != times || len(got) != 2 {
		t.Errorf("the turns are %v, want %d first attempts of each", got, times)
	}
	if duplicates := rec.of(EventDuplicate); len(duplicates) > 0 {
		t.Errorf("%q were taken for copies of handled messages", duplicates)
	}
}

// TestRestoreSeveral restores what its recipients no longer have, or only that of one of them.
func TestRestoreSeveral(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "claude", "codex", "gemini", "ann")
	m := question("port")
	m.To = []schema.AgentName{"codex", "gemini", "ann"}
	id := string(send(t, w, m)[0].ID)
	ack := func(names ...schema.AgentName) {
		for _, name := range names {
			if err := w.Acknowledge(entries(t, w, name, mailbox.Inbox)[0]); err != nil {
				t.Fatal(err)
			}
		}
	}
	texts := func(agent schema.AgentName) (all []string) {
		restored, err := track.Restore(t.Context(), w, id, agent)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range restored {
			all = append(all, fmt.Sprintf("%s %s", one.Agent, one.Was))
		}
		return all
	}
	ack("codex", "ann")
	wantTexts(t, "for ann", texts("ann"), "ann done")
	wantTexts(t, "for all", texts(""), "codex done", "gemini waiting", "ann waiting")
	if _, err := track.Restore(t.Context(), w, id, "claude"); err == nil {
		t.Error("a message was restored for its sender")
	}
	var unknown *mailbox.UnknownAgentError
	if _, err := track.Restore(t.Context(), w, id, "bob"); !errors.As(err, &unknown) {
		t.Errorf("restoring for an unknown agent gave %v", err)
	}
}

// TestRestoreAnInvalidMessage: the run gives it up again, as often as it is restored.
func TestRestoreAnInvalidMessage(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	inbox := w.BoxPath("codex", mailbox.Inbox)
	text := "id: msg-20260313T1430Z-claude-dddd\nfrom: claude\nto: codex\ntype: poem\npriority: P2\n" +
		"created_at_utc: 2026-03-13T14:30:00Z\nsubject: Spring\nbody: x\n"
	if err := os.WriteFile(filepath.Join(inbox, "20260313T1430Z_claude_poem.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := runOnce(t, w, Config{}); err == nil {
			t.Fatal("the run has no dead letter")
		}
		letters, err := w.List(t.Context(), "codex", mailbox.DeadLetters)
		if err != nil || len(letters) != 1 {
			t.Fatalf("the dead letters are %v (%v), want one", letters, err)
		}
		all, err := track.Restore(t.Context(), w, "dddd", "")
		if err != nil || len(all) != 1 || all[0].Was != "dead" {
			t.Fatalf("Restore = %+v, %v; want a dead letter", all, err)
		}
	}
}

// TestFactsAfterARestore checks that what a Runner writes late about the old outcome does not count.
func TestFactsAfterARestore(t *testing.T) {
	t.Parallel()
	for _, outcome := range []track.FactKind{track.Succeeded, track.Dead} {
		for _, late := range []track.FactKind{track.Answered, track.Bounced, track.Unsendable, track.Acknowledged, track.Buried} {
			h := track.NewHistory()
			k := track.Key{ID: "msg-20260313T1430Z-claude-aaaa", Fingerprint: "f"}
			for _, kind := range []track.FactKind{track.Started, outcome, track.Revived, late} {
				h.Apply(&track.Fact{Kind: kind, Envelope: track.Envelope{Key: k}, Sent: "msg-20260313T1431Z-codex-bbbb", Reason: "why"})
			}
			if rec := h.Records[k]; rec.Settled || rec.Sent != "" || rec.Reason != "" || rec.Outcome != "" {
				t.Errorf("after %s, restored, %s: the record is %+v, want it empty", outcome, late, rec)
			}
		}
	}
}
