package schema

import "strings"

// How many characters of the random part name a message, and how many Short returns. Six of the
// eight are the time in the ids that we write.
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
	// NoMatch is for the text of something else.
	NoMatch IDMatch = iota
	// TooShort is for the beginning of the id, or of its random part, that names no message.
	TooShort
	// Matches is for the whole id, the first four or more characters of its random part, and the
	// beginning of the id, with or without "msg-", that reaches as far.
	Matches
)

// Match says whether the text names the message that has the id.
func (id ID) Match(text string) IDMatch {
	full := string(id)
	switch {
	case text == "" || len(text) > len(full): // a long one must not be copied for each message
		return NoMatch
	case text == full:
		return Matches
	case !strings.HasPrefix(full, text) && !strings.HasPrefix(full, "msg-"+text) && !strings.Contains(full, "-"+text):
		return NoMatch
	}
	parts, err := ParseID(id)
	if err != nil {
		return NoMatch // only the whole id names it
	}
	const least = minShortID
	if strings.HasPrefix(parts.Rand, text) && len(text) >= least {
		return Matches
	}
	for _, beginning := range []string{text, "msg-" + text} {
		if strings.HasPrefix(full, beginning) && len(beginning) >= len(full)-len(parts.Rand)+least {
			return Matches
		}
	}
	if strings.HasPrefix(parts.Rand, text) || strings.HasPrefix(full, text) || strings.HasPrefix(full, "msg-"+text) {
		return TooShort
	}
	return NoMatch
}
