package schema

import "slices"

// Type is one of the twelve message types.
type Type string

// The message types of the OACP message schema.
const (
	TaskRequest        Type = "task_request"
	Question           Type = "question"
	Notification       Type = "notification"
	FollowUp           Type = "follow_up"
	Handoff            Type = "handoff"
	HandoffComplete    Type = "handoff_complete"
	ReviewRequest      Type = "review_request"
	ReviewFeedback     Type = "review_feedback"
	ReviewAddressed    Type = "review_addressed"
	ReviewLGTM         Type = "review_lgtm"
	BrainstormRequest  Type = "brainstorm_request"
	BrainstormFollowup Type = "brainstorm_followup"
)

// types is in a fixed order, which short ids depend on.
var types = []Type{
	TaskRequest, Question, Notification, FollowUp, Handoff, HandoffComplete,
	ReviewRequest, ReviewFeedback, ReviewAddressed, ReviewLGTM,
	BrainstormRequest, BrainstormFollowup,
}

// Types returns the twelve message types.
func Types() []Type { return slices.Clone(types) }

// Known reports whether t is one of the twelve types.
func (t Type) Known() bool { return slices.Contains(types, t) }

// SingleRecipient reports whether a message of this type has exactly one recipient, as a handoff
// has one new owner.
func (t Type) SingleRecipient() bool { return t == Handoff || t == HandoffComplete }

// CarriesTelemetry reports whether a message of this type may carry Telemetry.
func (t Type) CarriesTelemetry() bool {
	return t == ReviewFeedback || t == ReviewAddressed || t == ReviewLGTM
}

// Priority is the urgency of a message; P0 is the highest.
type Priority string

// The priorities of the OACP message schema.
const (
	P0 Priority = "P0"
	P1 Priority = "P1"
	P2 Priority = "P2"
	P3 Priority = "P3"
)

// DefaultPriority is the priority of a message that does not name one.
const DefaultPriority = P2

// Priorities returns the priorities, the highest first.
func Priorities() []Priority { return []Priority{P0, P1, P2, P3} }

// Known reports whether p is one of the four priorities.
func (p Priority) Known() bool { return p == P0 || p == P1 || p == P2 || p == P3 }
