package turn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// TestAnswerOutlivesFailures lets everything fail that happens between the end of a turn and its answer.
// Nothing is acknowledged, and when the failure is over, the answer is sent without another turn.
func TestAnswerOutlivesFailures(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("port ", schema.MaxBody)
	tests := []struct {
		name string
		// fail lets answers fail until heal is called.
		fail func(t *testing.T, w *mailbox.Workspace, c *Config) (heal func())
	}{
		{"the full text cannot be kept", func(t *testing.T, w *mailbox.Workspace, c *Config) func() {
			path := filepath.Join(w.Dir(), "state", "turns", "codex.answers")
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"there is no verdict", func(_ *testing.T, _ *mailbox.Workspace, c *Config) func() {
			verdict := errors.New("no verdict")
			c.Contract = func(context.Context, *schema.Message) (bool, error) { return false, verdict }
			return func() { verdict = nil }
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorkspace(t)
			asked := send(t, w, question("q"))[0]
			turns := 0
			c := Config{Reply: true, NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
				turns++
				return agent.Result{Text: long}, nil
			})}
			heal := test.fail(t, w, &c)
			if _, err := runOnce(t, w, c); err == nil {
				t.Error("run --once succeeded although the answer was not sent")
			}
			wantTexts(t, "the inbox", subjects(t, w, "codex", mailbox.Inbox), "q")
			if p := progress(t, w, asked.ID); p.Stage != track.StageWaiting || !strings.Contains(p.Reason, "not sent yet") {
				t.Errorf("progress before the answer: %+v, want it waiting", p)
			}
			heal()
			if _, err := runOnce(t, w, c); err != nil {
				t.Error(err)
			}
			wantTexts(t, "the inbox after it", subjects(t, w, "codex", mailbox.Inbox))
			wantTexts(t, "the answers", subjects(t, w, "claude", mailbox.Inbox), "Re: q")
			if p := progress(t, w, asked.ID); p.Stage != track.StageAnswered || turns != 1 {
				t.Errorf("after %d turns: %+v, want it answered after one", turns, p)
			}
		})
	}
}

// TestForbiddenAnswerBounces checks that the sender of a message learns that its answer does not fit, and
// what it was. That is no answer.
func TestForbiddenAnswerBounces(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	asked := send(t, w, question("q"))[0]
	checks := 0
	rec, err := runOnce(t, w, Config{
		Reply: true, NewDriver: says("Port 8080."),
		Contract: func(context.Context, *schema.Message) (bool, error) {
			checks++
			return true, errors.New("port: want a number")
		},
	})
	if want := "turn_started turn_succeeded unsendable bounced acknowledged"; err != nil || rec.kinds() != want || checks != 1 {
		t.Errorf("Run = %v with %s and %d checks, want %s and one", err, rec.kinds(), checks, want)
	}
	notice := entries(t, w, "claude", mailbox.Inbox)[0].Message
	body := notice.Body.Text
	if !notice.IsNotice() || notice.ParentID != asked.ID || !strings.Contains(body, "want a number") || !strings.Contains(body, "Port 8080.") {
		t.Errorf("the sender got %+v, want a bounce with the reason and the answer", notice)
	}
	if p := progress(t, w, asked.ID); p.Stage != track.StageDone || p.Answer != "" {
		t.Errorf("progress %+v, want it done without an answer", p)
	}
}

// TestLongForbiddenAnswer checks that a bounce that is too long is cut, too.
func TestLongForbiddenAnswer(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("q"))
	if _, err := runOnce(t, w, Config{
		Reply: true, NewDriver: says(strings.Repeat("ü", schema.MaxBody+1)),
		Contract: func(context.Context, *schema.Message) (bool, error) { return true, errors.New("too many dots") },
	}); err != nil {
		t.Error(err)
	}
	if got := entries(t, w, "claude", mailbox.Inbox); len(got) != 1 || !got[0].Message.IsNotice() || !strings.Contains(got[0].Message.Body.Text, "The whole answer is in") {
		t.Errorf("the sender got %+v, want a bounce that names the file", got)
	}
}
