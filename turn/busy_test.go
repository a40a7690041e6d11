package turn

import (
	"context"
	"errors"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// TestAnswerBesideTurn checks who may answer a message while a turn works on it, and afterwards.
func TestAnswerBesideTurn(t *testing.T) {
	w := newWorkspace(t)
	t.Setenv(orphans.Variable, "")
	t.Setenv("OACP_MESSAGE_ID", "")
	sent := send(t, w, question("q"), question("other"))
	asked := sent[0]
	reply := &schema.Message{From: "codex", To: []schema.AgentName{"claude"}, Type: schema.Notification, ParentID: asked.ID}
	answer := func(again bool) (sends bool, err error) {
		err = track.SendOnce(t.Context(), w, asked, reply, process.Process{}, again, func() error { sends = true; return nil })
		return sends, err
	}
	turns := 0
	_, err := runOnce(t, w, Config{NewDriver: plays(func(_ context.Context, request agent.Request) (agent.Result, error) {
		if variable(request, "OACP_MESSAGE_ID") != string(asked.ID) {
			return agent.Result{}, nil
		}
		turns++
		sends, err := answer(false)
		if busy, ok := errors.AsType[*track.BusyError](err); !ok || sends || busy.Since.IsZero() || busy.Agent != "codex" {
			t.Errorf("an answer from elsewhere: sent %t, %v; want a BusyError", sends, err)
		}
		k := keysOf(t, sent[:1])[0]
		h, err := track.ReadHistory(w, "codex")
		if err != nil {
			return agent.Result{}, err
		}
		marks := h.Records[k].Marks
		for _, test := range []struct {
			name, marks string
			id          schema.ID
			again, want bool
		}{
			{"with the mark of the turn", "outer:" + string(marks[len(marks)-1]), "", false, true},
			{"with the variables of the turn only", "", asked.ID, false, true},
			{"in the turn of another message", "", sent[1].ID, false, false},
			{"in a turn that was lost", string(orphans.NewMark()), asked.ID, false, false},
			{"again", "", "", true, true},
		} {
			t.Setenv(orphans.Variable, test.marks)
			t.Setenv("OACP_MESSAGE_ID", string(test.id))
			if sends, err := answer(test.again); sends != test.want || (err == nil) != test.want {
				t.Errorf("%s: sent %t, %v", test.name, sends, err)
			}
		}
		t.Setenv(orphans.Variable, "")
		t.Setenv("OACP_MESSAGE_ID", "")
		return agent.Result{}, nil
	})})
	if err != nil || turns != 1 {
		t.Fatalf("%d turns: %v", turns, err)
	}
	if sends, err := answer(false); !sends || err != nil {
		t.Errorf("after the turn: sent %t, %v", sends, err)
	}
}
