package schema

import "strings"

// The fewest characters of the random part that name a message, and the most that Short returns. In
// the ids that we write, six of those eight are the time.
const (
	minShortID = 4
	maxShortID = 8
)

// Short returns the beginning of the random part of the id, which names the message in commands, or
// the whole id if that part is too short for it.
func (id ID) Short() string {
	if parts, err := ParseID(id); err == nil && len(parts.Rand) >= minShortID {
		return parts.Rand[:min(len(parts.Rand), maxShortID)]
	}
	return string(id)
}

// An IDMatch says whether a text names the message that has an id.
type IDMatch int

const (
	// NoMatch means that the text names something else.
	NoMatch IDMatch = iota
	// TooShort means that the text begins the id or its random part, but ends before the fourth
	// character of the random part.
	TooShort
	// Matches means that the text is the id, or begins the id or its random part and reaches at least
	// the fourth character of the random part. The "msg-" of the id may be missing.
	Matches
)

// Match returns whether the text names the message with the id.
func (id ID) Match(text string) IDMatch {
	full := string(id)
	switch {
	case text == "" || len(text) > len(full): // the concatenations below must not copy a long text for each message
		return NoMatch
	case text == full:
		return Matches
	case !strings.HasPrefix(full, text) && !strings.HasPrefix(full, "msg-"+text) && !strings.Contains(full, "-"+text):
		return NoMatch
	}
	parts, err := ParseID(id)
	if err != nil {
		return NoMatch // only the whole of a malformed id names it
	}
	match := NoMatch
	beforeRand := strings.TrimSuffix(full, parts.Rand)
	for _, beginning := range []string{text, "msg-" + text, beforeRand + text} {
		switch {
		case !strings.HasPrefix(full, beginning):
		case len(beginning) >= len(beforeRand)+minShortID:
			return Matches
		default:
			match = TooShort
		}
	}
	return match
}
