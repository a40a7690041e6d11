package pair

import (
	"fmt"
	"slices"

	"github.com/oacp-go/oacp/bridge"
)

// State is the state of a run, by its name in the manifest (AgentPair's state machine page, "Run
// State Mapping").
type State string

// The states. Complete and Failed are final.
const (
	Init      State = "submitted"           // no agent has had a turn
	Working   State = "working"             // the worker's turn
	Reviewing State = "reviewing"           // a reviewer's turn
	Complete  State = bridge.StateCompleted // reviewed and passed
	Failed    State = bridge.StateFailed    // given up
)

// transitions are the valid ones (AgentPair's state machine page, "Valid Transitions"). An
// iteration that follows another without a review is not a transition.
var transitions = map[State][]State{
	Init:      {Working, Failed},
	Working:   {Reviewing, Complete, Failed},
	Reviewing: {Working, Complete, Failed},
	Complete:  {},
	Failed:    {},
}

// Known reports whether s is one of the states above.
func (s State) Known() bool {
	_, known := transitions[s]
	return known
}

// Final reports whether no state follows s.
func (s State) Final() bool { return s.Known() && len(transitions[s]) == 0 }

// to returns the next state, or an error if it must not follow s.
func (s State) to(next State) (State, error) {
	if !slices.Contains(transitions[s], next) {
		return s, fmt.Errorf("a run that is %s cannot become %s", s, next)
	}
	return next, nil
}
