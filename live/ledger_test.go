package live

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// next gives all pending messages to a process, as oacp next --all does, and returns their short ids.
func (h *hooks) next(to process.Process) (short []string) {
	h.Helper()
	pending, err := h.Workspace.List(h.Context(), h.Agent, mailbox.Inbox)
	if err != nil {
		h.Fatal(err)
	}
	given, err := track.Offer(h.Context(), h.Workspace, h.Agent, track.HolderOf(to), pending, 0, false)
	if err != nil {
		h.Fatal(err)
	}
	for _, g := range given {
		short = append(short, g.Message.ID.Short())
	}
	return short
}

// recall takes a message back, and reports whether its sender was told that nobody has seen it.
func (h *hooks) recall(m *schema.Message) bool {
	h.Helper()
	progress, err := track.Recall(h.Context(), h.Workspace, m)
	if err != nil || len(progress) != 1 {
		h.Fatalf("the message is %+v (%v)", progress, err)
	}
	return progress[0].Stage == track.StageRecalled
}

// TestRecallAfterHook checks that the sender of a message cannot take it back once a hook has shown it, whether the model has
// answered since or not, and that it can if the program could not read what the hook printed.
func TestRecallAfterHook(t *testing.T) {
	t.Parallel()
	for _, event := range []string{SessionStart, UserPromptSubmit, PostToolUse, Stop, FileChanged} {
		h := newHooks(t, Claude)
		if event != SessionStart {
			h.on("s", SessionStart)
			h.on("s", UserPromptSubmit)
		}
		shown, unread := h.ask("m001"), h.ask("m002")
		h.arrive(unread)
		closed := errors.New("nobody reads")
		e := Event{Name: event, Session: "s", Path: "new.yaml", Change: "add"}
		if err := h.Handle(t.Context(), e, func(Answer) error { return closed }); !errors.Is(err, closed) {
			t.Errorf("%s: %v, want the error of print", event, err)
		}
		if !h.recall(unread) {
			t.Errorf("%s: a message that was not printed cannot be taken back", event)
		}
		h.arrive(shown)
		h.wantNamed(h.on("s", event), "m001")
		if h.wantNoticed("s"); h.recall(shown) {
			t.Errorf("%s: a message was taken back that a hook has shown", event)
		}
	}
}

// TestReturnedAfterHook checks that a message that was returned after a hook had shown it stays new to the agent, whatever the
// session does then, and that the session is not told that it owes an answer.
func TestReturnedAfterHook(t *testing.T) {
	t.Parallel()
	for _, event := range []string{PostToolUse, Stop, UserPromptSubmit} {
		h := newHooks(t, Claude)
		m := h.ask("m001")
		h.arrive(m)
		h.wantNamed(h.on("s", SessionStart), "m001")
		if err := track.Return(h.Workspace, h.Agent, track.Holder{}, false, track.KeyOf(m)); err != nil {
			t.Fatal(err)
		}
		if text := h.on("s", event) + h.on("s", Stop); text != "" {
			t.Errorf("%s: the hook says %q, want nothing", event, text)
		}
		if got := h.next(process.Read(startProgram(t).Process.Pid).Process); len(got) != 1 {
			t.Errorf("%s: next gives %q, want the message that was returned", event, got)
		}
	}
}

// TestOneHolder checks that a message that one of the hooks and the commands of an agent has shown, the others do not show
// while it lives, and that what a dead one was offered comes again.
func TestOneHolder(t *testing.T) {
	t.Parallel()
	for _, event := range []string{UserPromptSubmit, PostToolUse, Stop, FileChanged, SessionStart} {
		h := newHooks(t, Claude)
		h.on("s", SessionStart)
		h.arrive(h.ask("m001"))
		h.wantNamed(h.on("s", event), "m001")
		h.on("s", PostToolUse) // so that the prompt is not one that a person takes back
		own, terminal := process.Read(os.Getpid()).Process, startProgram(t)
		other := process.Read(terminal.Process.Pid).Process
		for _, p := range []process.Process{own, other} {
			if got := h.next(p); got != nil {
				t.Errorf("%s: next gives %q, which a hook has shown", event, got)
			}
		}
		h.arrive(h.ask("m002"), h.ask("m003"))
		if got := h.next(other); len(got) != 2 {
			t.Fatalf("next gives %q, want two messages", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*burst)
		defer cancel()
		e := Event{Name: event, Session: "s", Path: "new.yaml", Change: "add"}
		if err := h.Handle(ctx, e, func(a Answer) error {
			h.wantNamed(shown(t, event, a))
			return nil
		}); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		kill(terminal)
		h.wantNamed(h.on("s", PostToolUse), "m002", "m003")
	}
}

// TestUnrecordedOffer checks that a hook shows none of the mail if it cannot record that it does.
func TestUnrecordedOffer(t *testing.T) {
	t.Parallel()
	h := newHooks(t, Claude)
	h.on("s", SessionStart)
	h.on("s", UserPromptSubmit)
	turns := filepath.Join(h.Workspace.Dir(), filepath.FromSlash(track.TurnsFolder))
	check.Remove(t, turns)
	check.WriteFile(t, turns, "")
	h.arrive(h.ask("m001"))
	for _, event := range []string{PostToolUse, UserPromptSubmit, Stop} {
		a, err := h.handle(Event{Name: event, Session: "s"})
		if text := shown(t, event, a); err == nil || text != "" {
			t.Errorf("%s says %q (%v), want an error", event, text, err)
		}
	}
	check.Remove(t, turns)
	h.wantNamed(h.on("s", PostToolUse), "m001")
}

// TestContinuedSession kills a program with -9 that holds back a wake, and continues its session in another process: the
// message is shown again, and nobody noticed it before the model got it.
func TestContinuedSession(t *testing.T) {
	t.Parallel()
	for _, last := range []string{SessionStart, UserPromptSubmit, PostToolUse, Stop, FileChanged} {
		h := newHooks(t, Claude)
		h.programs["s"] = startProgram(t)
		h.arrive(h.tell("m001"))
		h.on("s", SessionStart)
		h.on("s", UserPromptSubmit)
		h.on("s", Stop)
		h.wantNoticed("s", "m001")
		if last == SessionStart {
			h.on("s", SessionEnd)
		}
		h.arrive(h.ask("m002"))
		h.on("s", last)
		kill(h.programs["s"])
		h.programs["s"] = startProgram(t)
		a, err := h.handle(Event{Name: SessionStart, Session: "s", Source: "resume"})
		if err != nil {
			t.Fatal(err)
		}
		h.wantNamed(shown(t, SessionStart, a), "m002")
		h.wantNoticed("s", "m001")
		h.on("s", UserPromptSubmit)
		h.wantNoticed("s", "m001")
		h.on("s", Stop)
		h.wantNoticed("s", "m001", "m002")
	}
}
