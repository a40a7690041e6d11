package live

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// A reminding is a session of an agent that the agent bob has asked something.
type reminding struct {
	*hooks
	request *schema.Message
	stop    Event
}

// reply sends an answer, or a question back, and returns it.
func (r *reminding) reply(from, to schema.AgentName, parent *schema.Message, kind schema.Type) *schema.Message {
	r.Helper()
	m := mailboxtest.Draft(to)
	m.From, m.Type, m.ParentID, m.ConversationID = from, kind, parent.ID, parent.ConversationID
	return mailboxtest.Send(r, r.Workspace, m).Message
}

func (r *reminding) works() {
	r.Helper()
	err := track.NoteWorking(r.Workspace, r.Agent, track.KeyOf(r.request), "half done", track.Holder{})
	if err != nil {
		r.Fatal(err)
	}
}

// stops returns the names of the requests of which a Stop says that they are owed.
func (r *reminding) stops() (names []string) {
	r.Helper()
	a, err := r.handle(r.stop)
	if err != nil {
		r.Fatal(err)
	}
	text := shown(r, Stop, a)
	if text == "" {
		return nil
	}
	before, text, found := strings.Cut("\n"+text, "\nYou owe ")
	if !found || !strings.Contains(text, "oacp reply ID --ack --body TEXT; if it goes on: oacp working ID TEXT") {
		r.Errorf("a Stop says %q", before+text)
	}
	return named(text)
}

// TestReminds checks when a Stop says that an answer is owed, and that no Stop says so again.
func TestReminds(t *testing.T) {
	t.Parallel()
	kind := func(t schema.Type) func(*schema.Message) { return func(m *schema.Message) { m.Type = t } }
	for _, test := range []struct {
		name string
		make func(*schema.Message)
		// between happens after the message was shown, and before the Stop.
		between func(r *reminding)
		want    bool
	}{
		{"nothing happens", nil, func(*reminding) {}, true},
		{"a task", kind(schema.TaskRequest), func(*reminding) {}, true},
		{"a notification", kind(schema.Notification), func(*reminding) {}, false},
		{"a follow-up", kind(schema.FollowUp), func(*reminding) {}, false},
		{"it is answered", nil, func(r *reminding) { r.reply(r.Agent, "bob", r.request, schema.Notification) }, false},
		{"a notification about a task", kind(schema.TaskRequest), func(r *reminding) { r.reply(r.Agent, "bob", r.request, schema.Notification) }, true},
		{"it is acknowledged", nil, func(r *reminding) {
			entry, err := r.Workspace.Pending(r.Context(), string(r.request.ID), r.Agent)
			if err == nil {
				err = r.Workspace.Acknowledge(entry)
			}
			if err != nil {
				r.Fatal(err)
			}
		}, true},
		{"it has expired", func(m *schema.Message) { m.ExpiresAt = schema.NewTimestamp(time.Now().Add(-time.Second)) }, func(*reminding) {}, false},
		{"the agent works on it", nil, func(r *reminding) { r.works() }, false},
		{"the agent worked on it", nil, func(r *reminding) {
			r.works()
			if got := r.stops(); got != nil {
				r.Errorf("a Stop names %q while the agent works on it", got)
			}
			if err := track.NoteFinished(r.Workspace, r.Agent); err != nil {
				r.Fatal(err)
			}
		}, true},
		{"it is asked back", nil, func(r *reminding) { r.reply(r.Agent, "bob", r.request, schema.Question) }, false},
		{"what was asked back is answered", nil, func(r *reminding) {
			question := r.reply(r.Agent, "bob", r.request, schema.Question)
			if got := r.stops(); got != nil {
				r.Errorf("a Stop names %q while a question back is open", got)
			}
			r.reply("bob", r.Agent, question, schema.Notification)
		}, true},
		{"a hook held the session", nil, func(r *reminding) { r.stop.StopActive = true }, false},
		{"mail began the turn", nil, func(r *reminding) {
			r.handle(Event{Name: UserPromptSubmit, Session: "s", Prompt: "<task-notification>"})
			r.stop.StopActive = true
		}, true},
		{"nobody could read it", nil, func(r *reminding) {
			closed := errors.New("nobody reads")
			if err := r.Handle(r.Context(), r.stop, func(Answer) error { return closed }); !errors.Is(err, closed) {
				r.Errorf("Handle = %v, want the error of print", err)
			}
		}, false},
	} {
		for _, program := range Programs() {
			t.Run(string(program)+" "+test.name, func(t *testing.T) {
				t.Parallel()
				w := mailboxtest.New(t, "bob", "claude", "codex")
				r := &reminding{hooks: hooksIn(t, w.Dir(), program), stop: Event{Name: Stop, Session: "s"}}
				r.now = time.Now()
				r.on("s", SessionStart)
				m := mailboxtest.Draft(r.Agent)
				if m.From, m.Type = "bob", schema.Question; test.make != nil {
					test.make(&m)
				}
				r.request = mailboxtest.Send(t, r.Workspace, m).Message
				r.wantNamed(r.on("s", UserPromptSubmit), r.request.ID.Short())
				test.between(r)
				var want []string
				if test.want {
					want = []string{r.request.ID.Short()}
				}
				if got := r.stops(); !slices.Equal(got, want) {
					t.Errorf("the Stop names %q, want %q", got, want)
				}
				if r.stop.StopActive = false; test.name == "a hook held the session" {
					want = []string{r.request.ID.Short()}
				} else {
					want = nil
				}
				for range 3 { // a later turn, and those after it
					r.on("s", UserPromptSubmit)
					if got := r.stops(); !slices.Equal(got, want) {
						t.Errorf("a later Stop names %q, want %q", got, want)
					}
					want = nil
				}
			})
		}
	}
}
