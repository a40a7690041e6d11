package schema

import "strings"

// IsRequest reports whether each recipient of a message of this type owes an answer. Message.Answers
// reports whether a message is that answer.
func (t Type) IsRequest() bool {
	switch t {
	case Question, TaskRequest, ReviewRequest, ReviewFeedback, ReviewAddressed, Handoff, BrainstormRequest:
		return true
	}
	return false
}

// ExpectsAnswer reports whether a message of this type may get an automatic answer: a request, or the
// next thought of a brainstorm. Messages of the other types never get one, so two agents cannot thank
// each other forever.
func (t Type) ExpectsAnswer() bool { return t.IsRequest() || t == BrainstormFollowup }

// Asks reports whether a message of this type asks for something, so that it cannot answer a task
// request.
func (t Type) Asks() bool {
	switch t {
	case Question, TaskRequest, ReviewRequest, Handoff, BrainstormRequest:
		return true
	}
	return false
}

// answeredBy reports whether a message of the other type answers a request of this type even if it is
// not final.
func (t Type) answeredBy(other Type) bool {
	switch t {
	case Question:
		return other != Question
	case TaskRequest:
		return !other.Asks() && other != Notification
	case ReviewRequest, ReviewAddressed:
		return other == ReviewFeedback || other == ReviewLGTM
	case ReviewFeedback:
		return other == ReviewAddressed || other == ReviewLGTM || other == ReviewRequest
	case Handoff:
		return other == HandoffComplete
	case BrainstormRequest:
		return other == BrainstormFollowup
	}
	return false
}

// Answers reports whether the message is the answer that a recipient of the request owes: it goes
// from that recipient to the request's sender, names the request as its parent, and either its type
// answers the request's type or it is final. Questions and notices never answer.
func (m *Message) Answers(request *Message) bool {
	return request.Type.IsRequest() && request.ID != "" && m.ParentID == request.ID &&
		request.IsFor(m.From) && m.IsFor(request.From) && !m.IsNotice() && m.Type != Question &&
		(request.Type.answeredBy(m.Type) || m.Marks.Final)
}

// AsksBack reports whether the message asks the sender of a request about it, without answering it.
func (m *Message) AsksBack(about *Message) bool {
	return m.Type.IsRequest() && about.Type.IsRequest() && about.ID != "" && m.ParentID == about.ID && m.IsFor(about.From) && !m.Answers(about)
}

// Decline makes the message one that declines. It is final: who does not know the mark takes it for an answer.
func (m *Message) Decline() { m.Marks.Final, m.Marks.Declined = true, true }

// The channels of notices, the notifications that a program writes without being asked.
const (
	// ChannelBounce is for the notice that a message became a dead letter. Its sender is the agent
	// that could not handle the message.
	ChannelBounce = "bounce"
	// ChannelBound is for the notice that an agent has reached a bound on its turns.
	ChannelBound = "bound"

	// A mirror puts these around the name of the channel of a record that its run has worked or will work.
	noticePrefix, NoticeSuffix = "bridge-", "-notice"
)

// IsNotice reports whether the message is a notice. Notices get no turns, no answers and no notices.
func (m *Message) IsNotice() bool {
	return m.Type == Notification && (m.Channel == ChannelBounce || m.Channel == ChannelBound ||
		strings.HasPrefix(m.Channel, noticePrefix) && strings.HasSuffix(m.Channel, NoticeSuffix))
}
