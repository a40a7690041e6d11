package search

import (
	"errors"
	"fmt"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// Query says what to find: what fits all of its fields. An empty field fits everything.
type Query struct {
	// Terms are words and phrases that all occur in the subject or the body, in any case, also as parts of words. Any
	// white space in a text fits a space in a phrase.
	Terms []string
	// From and To are a sender and a recipient, in any case. A broadcast record is to nobody.
	From, To string
	// Type is the type of a message or record.
	Type string
	// After and Before limit the time of creation: not before After, and before Before.
	After, Before time.Time
	// Is is a state, and In a conversation. Only messages have them.
	Is State
	In schema.ConversationID
}

// State says where files of a message are. A message may have several.
type State string

// The states: a dead letter, in an inbox, in an archive, in an outbox.
const (
	Dead    State = "dead"
	Pending State = "pending"
	Handled State = "handled"
	Sent    State = "sent"
)

// States returns all states.
func States() []State { return []State{Dead, Pending, Handled, Sent} }

// ParseQuery reads a query as people write it: words, "phrases in quotes", and the filters from:codex, to:claude,
// type:question, after:2026-11-01, before:2026-11-30 (days in UTC, or times such as 2026-11-01T08:00:00Z; after
// includes the day, before does not), is:dead, is:pending, is:handled, is:sent and in:CONVERSATION. Another word with
// a colon is a word. The error is a *QueryError.
func ParseQuery(text string) (Query, error) { return Query{}, errors.ErrUnsupported }

// QueryError reports a query that cannot be read.
type QueryError struct {
	// Position is the byte of the query at which the problem begins, from 0.
	Position int
	// Problem says what is wrong, and Fix what to write instead.
	Problem, Fix string
}

// Error says what is wrong at which character, from 1.
func (e *QueryError) Error() string {
	return fmt.Sprintf("%s (at character %d)", e.Problem, e.Position+1)
}
