package search

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/schema"
)

// Limits of a query that a person writes.
const (
	maxQuery = 500 // bytes
	maxTerms = 16
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

// QueryError reports a query that cannot be read.
type QueryError struct {
	// Position is the byte of the query at which the problem begins, from 0.
	Position int
	// Problem says what is wrong, and Fix what to write instead.
	Problem, Fix string
}

// Error says what is wrong, and at which byte, counted from 1.
func (e *QueryError) Error() string {
	return fmt.Sprintf("%s (at position %d)", e.Problem, e.Position+1)
}

// ParseQuery reads a query as people write it: words, "phrases in quotes", and the filters from:codex, to:claude,
// type:question, after:2026-11-01, before:2026-11-30 (days in UTC, or times such as 2026-11-01T08:00:00Z; after
// includes the day, before does not), is:dead, is:pending, is:handled, is:sent and in:CONVERSATION. Another word with
// a colon is a word. The error is a *QueryError.
func ParseQuery(text string) (q Query, err error) {
	if len(text) > maxQuery {
		return q, &QueryError{maxQuery, fmt.Sprintf("the query is longer than %d bytes", maxQuery), "use fewer words"}
	}
	used := make(map[string]bool)
	for at := 0; at < len(text); {
		rest := text[at:]
		if trimmed := strings.TrimLeftFunc(rest, unicode.IsSpace); len(trimmed) < len(rest) {
			at += len(rest) - len(trimmed)
			continue
		}
		key, value, isFilter := strings.Cut(rest, ":")
		if isFilter = isFilter && filters[key] != nil; !isFilter {
			key, value = "", rest
		}
		start := at + len(rest) - len(value)
		value, end := cutWord(text, start)
		switch {
		case end < 0:
			return q, &QueryError{start, "the quotation mark is not closed", `add a " at the end of the phrase`}
		case !isFilter && len(q.Terms) == maxTerms:
			return q, &QueryError{at, fmt.Sprintf("the query has more than %d words", maxTerms), "use fewer words"}
		case !isFilter && strings.TrimSpace(value) != "":
			q.Terms = append(q.Terms, value)
		case isFilter && used[key]:
			return q, &QueryError{at, key + ": occurs twice", "keep one of them"}
		case isFilter:
			if problem, fix := filters[key](&q, value); problem != "" {
				return q, &QueryError{start, key + ": " + problem, fix}
			}
			used[key] = true
		}
		at = end
	}
	return q.folded(), nil
}

// cutWord returns the word or quoted phrase at the start, and where it ends: -1 if a quotation mark is missing.
func cutWord(text string, start int) (string, int) {
	if phrase, quoted := strings.CutPrefix(text[start:], `"`); quoted {
		i := strings.IndexByte(phrase, '"')
		if i < 0 {
			return "", -1
		}
		return phrase[:i], start + i + 2
	}
	if i := strings.IndexFunc(text[start:], unicode.IsSpace); i >= 0 {
		return text[start : start+i], start + i
	}
	return text[start:], len(text)
}

// filters sets a field of a query from the value of a filter, or returns what is wrong with it and how to write it.
var filters = map[string]func(q *Query, value string) (problem, fix string){
	"from": func(q *Query, value string) (string, string) { return setName(&q.From, value, "from:codex") },
	"to":   func(q *Query, value string) (string, string) { return setName(&q.To, value, "to:claude") },
	"type": func(q *Query, value string) (string, string) {
		var types []string
		for _, t := range schema.Types() {
			types = append(types, string(t))
		}
		for _, t := range bridge.Types() {
			types = append(types, string(t))
		}
		q.Type = strings.ToLower(value)
		return oneOf(types, q.Type, "type")
	},
	"is": func(q *Query, value string) (string, string) {
		q.Is = State(strings.ToLower(value))
		return oneOf(States(), q.Is, "state")
	},
	"in": func(q *Query, value string) (string, string) {
		q.In = schema.ConversationID(value)
		if _, err := schema.ParseConversationID(q.In); err != nil {
			return "the id of a conversation is missing or not complete", "write it as in:conv-20261101-codex-001"
		}
		return "", ""
	},
	"after":  func(q *Query, value string) (string, string) { return setTime(&q.After, value) },
	"before": func(q *Query, value string) (string, string) { return setTime(&q.Before, value) },
}

func setName(field *string, value, example string) (problem, fix string) {
	if *field = value; value == "" || strings.ContainsFunc(value, unicode.IsSpace) {
		return "the name of an agent is missing", "write it as " + example
	}
	return "", ""
}

func oneOf[Name ~string](known []Name, value Name, what string) (problem, fix string) {
	if slices.Contains(known, value) {
		return "", ""
	}
	return fmt.Sprintf("there is no %s %q", what, value), spelling.DidYouMean(known, string(value), "use one of "+spelling.Join(known))
}

func setTime(field *time.Time, value string) (problem, fix string) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, value); err == nil {
			*field = t.UTC()
			return "", ""
		}
	}
	return fmt.Sprintf("%q is not a day", value), "write a day as 2026-11-01, or a time as 2026-11-01T08:00:00Z"
}
