package track

import "slices"

// Stage is the state of a message with one recipient. A state is reported only once it is true.
type Stage string

// The stages of a message.
const (
	// StageDead is a dead letter.
	StageDead Stage = "dead"
	// StageAgentRemoved is a message whose recipient was removed before it handled the message.
	StageAgentRemoved Stage = "agent_removed"
	// StageUnknown is a message that may be in an unreadable folder, or of which no copy is left. The
	// reason says which.
	StageUnknown Stage = "unknown"
	// StageNotSent is a message that nothing has carried to other machines yet, and that nobody here has noticed.
	StageNotSent Stage = "not_sent"
	// StageStored is a message that is sent, and not in the inbox yet.
	StageStored Stage = "stored"
	// StageHeld and StageExpired are messages in the inbox that get no turn.
	StageHeld    Stage = "held"
	StageExpired Stage = "expired"
	// StageWaiting is a message in the inbox. If it has had a turn, that failed or never ended.
	StageWaiting Stage = "waiting"
	// StageNoticed is a message in the inbox that the model of an interactive session got, and that has had
	// no turn since then; see NoteNoticed. It stays noticed when the session ends.
	StageNoticed Stage = "noticed"
	// StageWorking is a message in the inbox that has a turn, or on which the recipient says it works; see NoteWorking.
	StageWorking Stage = "working"
	// StageRecalled is a message that its sender took back before the recipient had noticed it; see Recall.
	StageRecalled Stage = "recalled"
	// StageDone is a message that was acknowledged, or whose turn succeeded. StageAnswered is one with
	// an answer, even if it is still in the inbox; see schema.Message.Answers. StageDeclined is one whose recipient has said
	// that it will not do it, and has sent no answer since.
	StageDone     Stage = "done"
	StageAnswered Stage = "answered"
	StageDeclined Stage = "declined"
)

// A Tone says how views colour a stage.
type Tone string

// The tones.
const (
	// ToneError is a message that did not get, or will not get, to an end that its sender wanted.
	ToneError Tone = "error"
	// ToneOpen is one that may still get there, and ToneOver one that has, or that its sender took back.
	ToneOpen Tone = "warn"
	ToneOver Tone = "ok"
)

// A fate is what a stage alone says of the waits for a message.
type fate int

const (
	open fate = iota
	// handled fulfils all waits but that for a reply, which may still come. refused ends that one, too.
	handled
	refused
	// failed ends all waits: nothing comes any more. overdue does so unless the recipient has noticed the message.
	failed
	overdue
)

// traits are all that the stage alone decides.
type traits struct {
	stage Stage
	tone  Tone
	// pending says that the message is in the inbox and has no outcome.
	pending bool
	fate    fate
}

// stages has the traits of each stage, the most urgent first: those that need a person, then those that are least far.
var stages = []traits{
	{StageDead, ToneError, false, failed},
	{StageAgentRemoved, ToneError, false, failed},
	{StageUnknown, ToneError, false, open},
	{StageNotSent, ToneOpen, true, open},
	{StageStored, ToneOpen, false, open},
	{StageHeld, ToneOpen, true, open},
	{StageExpired, ToneOpen, true, overdue},
	{StageWaiting, ToneOpen, true, open},
	{StageNoticed, ToneOpen, true, open},
	{StageWorking, ToneOpen, true, open},
	{StageDeclined, ToneError, false, refused},
	{StageRecalled, ToneOver, false, failed},
	{StageDone, ToneOver, false, handled},
	{StageAnswered, ToneOver, false, handled},
}

// urgency returns the place of the stage in stages, -1 if it is none of them.
func (s Stage) urgency() int {
	return slices.IndexFunc(stages, func(t traits) bool { return t.stage == s })
}

// traits returns the traits of a stage. Those of no stage are zero.
func (s Stage) traits() (t traits) {
	if i := s.urgency(); i >= 0 {
		t = stages[i]
	}
	return t
}

// Tone returns the tone of the stage.
func (s Stage) Tone() Tone { return s.traits().tone }

// IsPending reports whether the message is in the inbox and has no outcome.
func (s Stage) IsPending() bool { return s.traits().pending }
