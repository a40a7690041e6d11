package schema

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestTypes(t *testing.T) {
	tests := map[Type]struct{ single, telemetry, answer bool }{
		"task_request": {answer: true}, "question": {answer: true}, "notification": {}, "follow_up": {},
		"handoff": {single: true, answer: true}, "handoff_complete": {single: true},
		"review_request": {answer: true}, "review_feedback": {telemetry: true, answer: true},
		"review_addressed": {telemetry: true, answer: true}, "review_lgtm": {telemetry: true},
		"brainstorm_request": {answer: true}, "brainstorm_followup": {answer: true},
	}
	if len(Types()) != len(tests) {
		t.Errorf("there are %d types, want %d", len(Types()), len(tests))
	}
	for kind, want := range tests {
		if !kind.Known() {
			t.Errorf("%q is not known", kind)
		}
		if kind.SingleRecipient() != want.single || kind.CarriesTelemetry() != want.telemetry || kind.ExpectsAnswer() != want.answer {
			t.Errorf("%s: one recipient %t, telemetry %t, answer %t; want %+v", kind, kind.SingleRecipient(), kind.CarriesTelemetry(), kind.ExpectsAnswer(), want)
		}
	}
	for _, text := range []string{"", "Task_Request", "task-request", "task_request ", "answer"} {
		if Type(text).Known() {
			t.Errorf("%q is known", text)
		}
	}
	Types()[0] = "changed"
	if Types()[0] != TaskRequest {
		t.Error("a caller can change the list of types")
	}
}

func TestPriorities(t *testing.T) {
	if want := []Priority{"P0", "P1", "P2", "P3"}; !slices.Equal(Priorities(), want) {
		t.Errorf("the priorities are %v, want %v", Priorities(), want)
	}
	for _, p := range Priorities() {
		if !p.Known() {
			t.Errorf("%q is not known", p)
		}
	}
	for _, text := range []string{"", "p2", "P4", "P", "2", "P2 ", "P-1", "PP", "high"} {
		if Priority(text).Known() {
			t.Errorf("%q is known", text)
		}
	}
}

func TestProcessingOrder(t *testing.T) {
	compare := func(a, b Message) int { return cmp.Or(cmp.Compare(a.Class(), b.Class()), CompareAge(&a, &b)) }
	// In processing order.
	messages := []Message{
		{Priority: P0, Type: ReviewRequest, CreatedAt: "2026-03-13T14:30:09Z", ID: "9"},
		{Priority: P0, Type: Notification, CreatedAt: "2026-03-13T14:30:00Z", ID: "0"},
		{Priority: P1, Type: TaskRequest, CreatedAt: "2026-03-13T14:30:01Z", ID: "1"},
		{Priority: P1, Type: ReviewRequest, CreatedAt: "2026-03-13T14:30:02Z", ID: "2"},
		{Priority: P1, Type: Question, CreatedAt: "2026-03-13T14:30:00Z", ID: "3"},
		{Priority: P1, Type: FollowUp, CreatedAt: "2026-03-13T14:30:00Z", ID: "4"},
		{Priority: "", Type: TaskRequest, CreatedAt: "2026-03-13T14:30:00Z", ID: "5"},
		{Priority: P2, Type: TaskRequest, CreatedAt: "2026-03-13T14:30:00Z", ID: "6"},
		{Priority: "urgent", Type: TaskRequest, CreatedAt: "2026-03-13T14:30:00Z", ID: "7"},
		{Priority: P2, Type: HandoffComplete, CreatedAt: "2026-03-13T14:30:00Z", ID: "8"},
		{Priority: P2, Type: "unknown", CreatedAt: "2026-03-13T14:31:00Z", ID: "8"},
		{Priority: P3, Type: TaskRequest, CreatedAt: "2026-03-13T14:30:00Z", ID: "0"},
	}
	for i := range messages {
		for j := range messages {
			got := compare(messages[i], messages[j])
			if got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("messages %d and %d compare as %d", i, j, got)
			}
		}
	}
	shuffled := slices.Clone(messages)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	slices.SortFunc(shuffled, compare)
	for i := range messages {
		if shuffled[i].ID != messages[i].ID || shuffled[i].Priority != messages[i].Priority {
			t.Errorf("place %d has %+v, want %+v", i, shuffled[i], messages[i])
		}
	}
}
