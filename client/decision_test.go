package client_test

import (
	"strings"
	"testing"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// TestOptions takes each answer that a message of each type has, and checks that what is sent is what the option says.
func TestOptions(t *testing.T) {
	for _, of := range schema.Types() {
		for _, o := range client.OptionsOf(&schema.Message{Type: of}) {
			if o.Type == "" {
				continue
			}
			t.Run(string(of)+"/"+o.Key, func(t *testing.T) {
				w := mailboxtest.New(t, "claude", "codex")
				r := requestOf(t, w, of)
				a := r.Draft()
				a.Choose, a.Acknowledge = o.Key, o.Acknowledges
				if o.NeedsText {
					if _, err := r.Answer(t.Context(), a); codeOf(err) != "invalid_message" {
						t.Errorf("without a text: %v", err)
					}
					a.Body = schema.TextValue("Because.")
				}
				receipt, err := r.Answer(t.Context(), a)
				if err != nil {
					t.Fatal(err)
				}
				got := receipt.Message()
				if got.Type != o.Type || got.Marks.Declined != o.Declines || strings.TrimSpace(got.BodyText()) == "" {
					t.Errorf("sent %+v, want %+v", got, o)
				}
				if answers := of.IsRequest() && o.Final; receipt.Answers != answers || (receipt.Acknowledged != "") != o.Acknowledges {
					t.Errorf("answers: %v, acknowledged: %q; want %+v", receipt.Answers, receipt.Acknowledged, o)
				}
			})
		}
	}
}

// The bodies of types that have fields.
const (
	handoff = `source_agent: claude
target_agent: codex
intent: Port it.
artifacts_to_review: [main.go]
definition_of_done: [it builds]
context_bundle: {files_touched: [main.go], decisions_made: [none], blockers_hit: [none], suggested_next_steps: [build]}
`
	handoffComplete = "issue: none\npr: 0\nbranch: main\ntests_run: all\nnext_owner: codex\n"
)

// TestTypeOfAnAnswer checks the type of an answer to each type of message for which nobody names one.
func TestTypeOfAnAnswer(t *testing.T) {
	tests := map[schema.Type]schema.Type{
		schema.TaskRequest: schema.Notification, schema.Question: schema.Notification, schema.Notification: schema.Notification,
		schema.FollowUp: schema.Notification, schema.Handoff: schema.HandoffComplete, schema.HandoffComplete: schema.Notification,
		schema.ReviewRequest: schema.ReviewFeedback, schema.ReviewAddressed: schema.ReviewFeedback,
		schema.ReviewFeedback: schema.ReviewAddressed, schema.ReviewLGTM: schema.Notification,
		schema.BrainstormRequest: schema.BrainstormFollowup, schema.BrainstormFollowup: schema.BrainstormFollowup,
	}
	w := mailboxtest.New(t, "claude", "codex")
	for of, want := range tests {
		r := requestOf(t, w, of)
		a := r.Draft()
		if a.Body = schema.TextValue("Done."); of == schema.Handoff { // the body of its answer has fields
			a.Body = schema.TextValue(handoffComplete)
		}
		if _, err := r.Answer(t.Context(), a); err != nil || a.Type != want {
			t.Errorf("the answer to %s is a %s, want %s (%v)", of, a.Type, want, err)
		}
	}
}

// requestOf sends codex a message of a type, and returns it.
func requestOf(t *testing.T, w *mailbox.Workspace, of schema.Type) *client.Request {
	t.Helper()
	m := mailboxtest.Draft("codex")
	switch m.Type = of; of {
	case schema.Handoff:
		m.Body = schema.TextValue(handoff)
	case schema.HandoffComplete:
		m.Body = schema.TextValue(handoffComplete)
	}
	r, err := newClient(t, w, "codex").Request(t.Context(), string(mailboxtest.Send(t, w, m).Message.ID))
	if err != nil {
		t.Fatal(err)
	}
	return r
}
