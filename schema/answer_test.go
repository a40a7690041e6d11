package schema

import (
	"slices"
	"strings"
	"testing"
)

// answers lists, for each request, the types that answer it without being final.
var answers = map[Type]string{
	TaskRequest: "follow_up handoff_complete review_feedback review_addressed review_lgtm brainstorm_followup",
	Question: "task_request notification follow_up handoff handoff_complete review_request review_feedback review_addressed " +
		"review_lgtm brainstorm_request brainstorm_followup",
	ReviewRequest:     "review_feedback review_lgtm",
	ReviewAddressed:   "review_feedback review_lgtm",
	ReviewFeedback:    "review_request review_addressed review_lgtm",
	Handoff:           "handoff_complete",
	BrainstormRequest: "brainstorm_followup",
}

func TestWhichTypesAnswer(t *testing.T) {
	for _, kind := range Types() {
		want, isRequest := answers[kind]
		if kind.IsRequest() != isRequest {
			t.Errorf("IsRequest of %s is %t, want %t", kind, kind.IsRequest(), isRequest)
		}
		if want := isRequest || kind == BrainstormFollowup; kind.ExpectsAnswer() != want {
			t.Errorf("ExpectsAnswer of %s is %t, want %t", kind, kind.ExpectsAnswer(), want)
		}
		for _, other := range Types() {
			request := Message{ID: "msg-1", From: "claude", To: []AgentName{"codex"}, Type: kind}
			m := Message{ID: "msg-2", From: "codex", To: []AgentName{"claude"}, Type: other, ParentID: "msg-1"}
			if got, want := m.Answers(&request), slices.Contains(strings.Fields(want), string(other)); got != want {
				t.Errorf("%s answers %s: %t, want %t", other, kind, got, want)
			}
			m.Marks.Final = true
			if got, want := m.Answers(&request), isRequest && other != Question; got != want {
				t.Errorf("a final %s answers %s: %t, want %t", other, kind, got, want)
			}
		}
	}
	if Type("unknown").IsRequest() || Type("").ExpectsAnswer() {
		t.Error("an unknown type is a request")
	}
}

// TestWhoseMessageAnswers checks that an answer goes from a recipient to the sender of its parent.
func TestWhoseMessageAnswers(t *testing.T) {
	request := Message{ID: "msg-1", From: "claude", To: []AgentName{"codex", "gemini"}, Type: Question}
	tests := []struct {
		name   string
		answer Message
		want   bool
	}{
		{"of a recipient", Message{From: "codex", To: []AgentName{"claude"}, ParentID: "msg-1", Type: Notification}, true},
		{"of the other recipient", Message{From: "gemini", To: []AgentName{"codex", "claude"}, ParentID: "msg-1", Type: Notification}, true},
		{"of somebody else", Message{From: "amp", To: []AgentName{"claude"}, ParentID: "msg-1", Type: Notification}, false},
		{"of the sender", Message{From: "claude", To: []AgentName{"codex"}, ParentID: "msg-1", Type: Notification}, false},
		{"to somebody else", Message{From: "codex", To: []AgentName{"gemini"}, ParentID: "msg-1", Type: Notification}, false},
		{"to another message", Message{From: "codex", To: []AgentName{"claude"}, ParentID: "msg-2", Type: Notification}, false},
		{"to none", Message{From: "codex", To: []AgentName{"claude"}, Type: Notification}, false},
		{"a bounce", Message{From: "codex", To: []AgentName{"claude"}, ParentID: "msg-1", Type: Notification, Channel: ChannelBounce}, false},
		{"a final notice", Message{From: "codex", To: []AgentName{"claude"}, ParentID: "msg-1", Type: Notification, Channel: ChannelBound, Marks: Marks{Final: true}}, false},
		{"no notice", Message{From: "codex", To: []AgentName{"claude"}, ParentID: "msg-1", Type: FollowUp, Channel: ChannelBound}, true},
	}
	for _, test := range tests {
		if got := test.answer.Answers(&request); got != test.want {
			t.Errorf("a message %s answers: %t, want %t", test.name, got, test.want)
		}
	}
	anonymous := Message{From: "claude", To: []AgentName{"codex"}, Type: Question}
	if m := (Message{From: "codex", To: []AgentName{"claude"}, Type: Notification}); m.Answers(&anonymous) {
		t.Error("a message without a parent answers one without an id")
	}
}
