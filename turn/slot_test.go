package turn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// TestOneAnswer lets turns answer or ask back by a verb, and then end with a text, with nothing or with a failure.
func TestOneAnswer(t *testing.T) {
	t.Parallel()
	failed := errors.New("the program ended")
	for _, test := range []struct {
		name string
		// verb is the type of what the turn sends itself.
		verb schema.Type
		// first is how many turns send it; the others only end. If it is negative, somebody has sent it before.
		first int
		text  string
		// fails is how many turns fail, of so many.
		fails, turns int
		// got are the types of what the sender gets, and stage what it sees then.
		got   []schema.Type
		stage track.Stage
	}{
		{"a verb", schema.Notification, 1, "", 0, 1, []schema.Type{schema.Notification}, track.StageAnswered},
		{"both", schema.Notification, 1, "I have answered.", 0, 1, []schema.Type{schema.Notification}, track.StageAnswered},
		{"a verb, then a failure", schema.Notification, 1, "", 1, 1, []schema.Type{schema.Notification}, track.StageAnswered},
		{"a question back", schema.Question, 1, "I have asked.", 0, 1, []schema.Type{schema.Question}, track.StageHeld},
		{"a question back, then a failure", schema.Question, 1, "", 1, 1, []schema.Type{schema.Question}, track.StageHeld},
		{"a question back of somebody else before it", schema.Question, -1, "8080", 0, 1, []schema.Type{schema.Question, schema.Notification}, track.StageAnswered},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			m := send(t, w, question("port"))[0]
			say := func(ctx context.Context) {
				reply := conversation.Reply(m, "codex", schema.Notification)
				reply.Type, reply.Body = test.verb, schema.TextValue("by verb")
				if test.first < 0 {
					reply.CreatedAt = schema.NewTimestamp(time.Now().Add(-time.Minute))
				}
				if _, err := w.Send(ctx, reply, nil); err != nil {
					t.Error(err)
				}
			}
			if test.first < 0 {
				say(t.Context())
			}
			turns := 0
			_, err := runOnce(t, w, Config{Reply: true, NewDriver: plays(func(ctx context.Context, _ agent.Request) (agent.Result, error) {
				if turns++; turns <= test.first {
					say(ctx)
				}
				if turns <= test.fails {
					return agent.Result{}, failed
				}
				return agent.Result{Text: test.text}, nil
			})})
			if err != nil {
				t.Error(err)
			}
			var got []string
			for _, e := range entries(t, w, "claude", mailbox.Inbox) {
				got = append(got, string(e.Message.Type))
			}
			var want []string
			for _, kind := range test.got {
				want = append(want, string(kind))
			}
			wantTexts(t, "the sender got", got, want...)
			if p := progress(t, w, m.ID); turns != test.turns || p.Stage != test.stage {
				t.Errorf("after %d turns: %+v; want %d, and the stage %s", turns, p, test.turns, test.stage)
			}
		})
	}
}

// TestRecalledDuringATurn takes a message back while it has a turn, as a sync did that an earlier version made. What the turn says
// goes nowhere.
func TestRecalledDuringATurn(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{nil, errors.New("the program ended")} {
		w := newWorkspace(t)
		m := send(t, w, question("port"))[0]
		rec, err := runOnce(t, w, Config{Reply: true, NewDriver: plays(func(ctx context.Context, _ agent.Request) (agent.Result, error) {
			return agent.Result{Text: "8080"}, errors.Join(failure, mailbox.Recall(ctx, w, m, "codex"))
		})})
		if err != nil || len(entries(t, w, "claude", mailbox.Inbox)) > 0 {
			t.Errorf("Run = %v, and the sender got %v", err, subjects(t, w, "claude", mailbox.Inbox))
		}
		for _, e := range rec.events {
			if isEnd := e.Kind == EventUnsendable || e.Kind == EventAcknowledged; isEnd && !strings.Contains(e.Reason, "was recalled: claude took it back") {
				t.Errorf("%s because %q", e.Kind, e.Reason)
			}
		}
		if kinds := rec.kinds(); strings.Contains(kinds, string(EventUnsendable)) != (failure == nil) {
			t.Errorf("the events are %s", kinds)
		}
		if p := progress(t, w, m.ID); p.Stage != track.StageRecalled {
			t.Errorf("the stage is %s, want recalled", p.Stage)
		}
	}
}

// TestAnsweredBeforeALostTurn checks that a message gets no further turn if its turn answered it and then died with the runner.
func TestAnsweredBeforeALostTurn(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	m := send(t, w, question("port"))[0]
	j, err := track.OpenJournal(w, "codex", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	it := newItem(entries(t, w, "codex", mailbox.Inbox)[0].Name, m)
	if err := errors.Join(j.Append(track.Started.Of(&it.Envelope), true), j.Close()); err != nil {
		t.Fatal(err)
	}
	reply := conversation.Reply(m, "codex", schema.Question)
	reply.Body = schema.TextValue("Which host?")
	send(t, w, reply)
	if rec, err := runOnce(t, w, Config{Reply: true}); err != nil || rec.kinds() != "held" {
		t.Errorf("after a question back, Run = %v with %s, want the message held", err, rec.kinds())
	}
	reply.Type, reply.Body = schema.Notification, schema.TextValue("8080")
	send(t, w, reply)
	rec, err := runOnce(t, w, Config{Reply: true})
	if want := "acknowledged"; err != nil || rec.kinds() != want {
		t.Errorf("Run = %v with %s, want %s", err, rec.kinds(), want)
	}
	wantTexts(t, "the answers", subjects(t, w, "claude", mailbox.Inbox), "Re: port", "Re: port")
}

// TestTaken lets another program of the agent have a message: it waits until that program ends or returns it, and other
// conversations go on. What a person or a program of the runner itself has, waits for nothing.
func TestTaken(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	pid, err := exec.CommandContext(t.Context(), "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!").Output() // no child of ours
	if err != nil {
		t.Skip("there is no shell: ", err)
	}
	number, err := strconv.Atoi(strings.TrimSpace(string(pid)))
	if err != nil {
		t.Fatal(err)
	}
	other := process.Read(number).Process
	t.Cleanup(func() {
		if p, err := os.FindProcess(number); err == nil {
			_ = p.Kill()
		}
	})
	sent := send(t, w, question("taken"), question("free"), question("person"), question("own"))
	offer := func(to track.Holder, subject string) {
		t.Helper()
		for _, e := range entries(t, w, "codex", mailbox.Inbox) {
			if e.Message.Subject != subject {
				continue
			}
			if given, err := track.Offer(t.Context(), w, "codex", to, []mailbox.Entry{e}, 1, false); err != nil || len(given) != 1 {
				t.Fatalf("Offer = %v, %v", given, err)
			}
		}
	}
	offer(track.HolderOf(other), "taken")
	offer(track.Person, "person")
	offer(track.HolderOf(process.Read(os.Getpid()).Process), "own")
	r, rec := newRunner(t, w, Config{lookAgain: 5 * time.Millisecond})
	returned := false
	rec.on = func(e Event) {
		if e.Kind != EventAcknowledged {
			return
		}
		switch left := len(subjects(t, w, "codex", mailbox.Inbox)); {
		case left == 0:
			r.Finish()
		case left == 1 && !returned:
			returned = true
			if p := progress(t, w, sent[0].ID); p.Stage != track.StageHeld || !strings.Contains(p.Reason, fmt.Sprintf("process %d has it since", other.PID)) {
				t.Errorf("the progress of what another program has is %+v", p)
			}
			if err := track.Return(w, "codex", track.Holder{}, false, track.KeyOf(sent[0])); err != nil {
				t.Error(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.Run(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("Run = %v", err)
	}
	if got := rec.of(EventStarted); len(got) != 4 || got[3] != "taken" {
		t.Errorf("turns on %q, want the taken message last", got)
	}
	wantTexts(t, "held", rec.of(EventHeld), "taken")
}

// TestFullSession gives a conversation messages for which its session has no room: each is tried once more in a new session that
// is told so, and if it is too long for that, the later messages still begin another one.
func TestFullSession(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	first := question("1 fits")
	first.ConversationID = "conv-20260313-claude-1"
	drafts := []schema.Message{first}
	for _, subject := range []string{"2 fits a new one", "3 fits none", "4 fits"} {
		next := question(subject)
		next.ConversationID = first.ConversationID
		drafts = append(drafts, next)
	}
	send(t, w, drafts...)
	var turns []string
	full := &agent.APIError{Kind: agent.TooLong, Text: "Prompt is too long"}
	rec, err := runOnce(t, w, Config{Reply: true, NewDriver: func(_ schema.ConversationID, session string) agent.Driver {
		return &puppet{turn: func(_ context.Context, request agent.Request) (agent.Result, error) {
			_, subject, _ := strings.Cut(request.Prompt, "subject: ")
			subject, _, _ = strings.Cut(subject, "\n")
			isNew := strings.Contains(request.Prompt, "so this is a new session")
			turns = append(turns, fmt.Sprintf("%s, session %q, told %t", strings.Trim(subject, `"`), session, isNew))
			if strings.Contains(subject, "none") || strings.Contains(subject, "new one") && !isNew {
				return agent.Result{SessionID: session}, full
			}
			return agent.Result{Text: "ok", SessionID: "session-" + subject[:1]}, nil
		}}
	}})
	var dead *DeadLettersError
	if !errors.As(err, &dead) || len(dead.Messages) != 1 {
		t.Errorf("Run = %v with %s, want one dead letter", err, rec.kinds())
	}
	t.Log(strings.Join(turns, "\n"))
	if len(turns) != 6 || !strings.HasSuffix(turns[2], `session "", told true`) || !strings.HasPrefix(turns[2], "2") ||
		!strings.HasPrefix(turns[5], "4") || !strings.HasSuffix(turns[5], "told true") {
		t.Errorf("the turns were\n%s", strings.Join(turns, "\n"))
	}
}
