package pair

import (
	"fmt"
	"slices"
)

// State is where a run stands, by the name its manifest has for it
// (AgentPair's state machine page, "Run State Mapping").
type State string

// The states. Complete and Failed are final.
const (
	Init      State = "submitted" // made, no agent has had a turn
	Working   State = "working"   // the worker's turn
	Reviewing State = "reviewing" // a reviewer's turn
	Complete  State = "completed" // reviewed and passed
	Failed    State = "failed"    // given up
)

// transitions are the legal ones (AgentPair's state machine page, "Valid
// Transitions"). An iteration that follows another without a review is no
// transition.
var transitions = map[State][]State{
	Init:      {Working, Failed},
	Working:   {Reviewing, Complete, Failed},
	Reviewing: {Working, Complete, Failed},
	Complete:  {},
	Failed:    {},
}

// Known reports whether the state is one of those above.
func (s State) Known() bool {
	_, known := transitions[s]
	return known
}

// Final reports whether nothing follows the state.
func (s State) Final() bool { return s.Known() && len(transitions[s]) == 0 }

// To returns the next state, or a *TransitionError if it must not follow.
func (s State) To(next State) (State, error) {
	if !slices.Contains(transitions[s], next) {
		return s, &TransitionError{From: s, To: next}
	}
	return next, nil
}

// TransitionError says that a state must not follow another.
type TransitionError struct{ From, To State }

// Error names both states.
func (e *TransitionError) Error() string {
	return fmt.Sprintf("a run that is %s cannot become %s", e.From, e.To)
}
