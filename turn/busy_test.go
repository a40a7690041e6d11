package turn

import (
	"context"
	"errors"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/orphans"
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
	answer := func() (sends bool, err error) {
		err = track.CheckBusy(w, asked, "codex", track.Person)
		return err == nil, err
	}
	turns := 0
	_, err := runOnce(t, w, Config{NewDriver: plays(func(_ context.Context, request agent.Request) (agent.Result, error) {
		if variable(request, "OACP_MESSAGE_ID") != string(asked.ID) {
			return agent.Result{}, nil
		}
		turns++
		sends, err := answer()
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
			want        bool
		}{
			{"with the mark of the turn", "outer:" + string(marks[len(marks)-1]), "", true},
			{"with the variables of the turn only", "", asked.ID, true},
			{"in the turn of another message", "", sent[1].ID, false},
			{"in a turn that was lost", string(orphans.OwnerOf("").NewMark()), asked.ID, false},
		} {
			t.Setenv(orphans.Variable, test.marks)
			t.Setenv("OACP_MESSAGE_ID", string(test.id))
			if sends, err := answer(); sends != test.want || (err == nil) != test.want {
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
	if sends, err := answer(); !sends || err != nil {
		t.Errorf("after the turn: sent %t, %v", sends, err)
	}
}
