package schema

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// AgentName names an agent and its mailbox. It becomes an element of file paths, so check a name
// that comes from outside with ParseAgentName before you build a path.
type AgentName string

// MaxAgentName is the longest agent name in characters.
const MaxAgentName = 64

// ParseAgentName parses an agent name: a letter or digit, then up to 63 letters, digits, dots,
// underscores and hyphens, all ASCII.
func ParseAgentName(text string) (AgentName, error) {
	switch {
	case text == "":
		return "", errors.New("an agent name is missing")
	case len(text) > MaxAgentName:
		return "", fmt.Errorf("agent name %.20q… has over %d characters", text, MaxAgentName)
	case !isAlphanumeric(text[0]):
		return "", fmt.Errorf("agent name %q does not start with a letter or digit", text)
	}
	for i := range len(text) {
		if c := text[i]; !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return "", fmt.Errorf("agent name %q holds a character other than letters, digits, '.', '_' and '-'", text)
		}
	}
	return AgentName(text), nil
}

// Valid reports whether n is an agent name.
func (n AgentName) Valid() bool {
	_, err := ParseAgentName(string(n))
	return err == nil
}

func isAlphanumeric(c byte) bool { return isLetter(c) || isDigit(c) }
func isLetter(c byte) bool       { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool        { return '0' <= c && c <= '9' }

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// isRand reports whether the text may be the random part of an id.
func isRand(s string) bool {
	for i := range len(s) {
		if !isAlphanumeric(s[i]) {
			return false
		}
	}
	return minRand <= len(s) && len(s) <= maxRand
}

// ID identifies a message: msg-<timestamp>-<sender>-<rand>.
type ID string

// MaxID is the longest id in characters.
const MaxID = 200

// Lengths of the random part of an id: ShortRand if the short file name is free, LongRand if it is
// taken, minRand to maxRand when reading.
const (
	ShortRand = 4
	LongRand  = 10
	minRand   = 3
	maxRand   = 32
)

// IDParts are the parts of an id.
type IDParts struct {
	// At is the time in the id, to the minute or second.
	At     time.Time
	Sender AgentName
	Rand   string
}

// ParseID parses an id. It accepts the three timestamp forms in use, YYYYMMDDTHHmmZ,
// YYYYMMDDTHHmmssZ and YYYYMMDDHHMMSS, and a rand of 3 to 32 letters and digits.
func ParseID(id ID) (IDParts, error) {
	if len(id) > MaxID {
		return IDParts{}, fmt.Errorf("id %.20q… has over %d characters", id, MaxID)
	}
	rest, ok := strings.CutPrefix(string(id), "msg-")
	stamp, rest, ok2 := strings.Cut(rest, "-")
	last := strings.LastIndexByte(rest, '-')
	if !ok || !ok2 || last < 0 {
		return IDParts{}, fmt.Errorf("id %q is not of the form msg-<timestamp>-<sender>-<rand>", id)
	}
	at, err := parseCompactTime(stamp)
	if err != nil {
		return IDParts{}, fmt.Errorf("id %q: %w", id, err)
	}
	sender, err := ParseAgentName(rest[:last])
	if err != nil {
		return IDParts{}, fmt.Errorf("id %q: %w", id, err)
	}
	rand := rest[last+1:]
	if !isRand(rand) {
		return IDParts{}, fmt.Errorf("id %q does not end in %d to %d letters and digits", id, minRand, maxRand)
	}
	return IDParts{At: at, Sender: sender, Rand: rand}, nil
}

// idAlphabet has 36 characters, three for each of the twelve types.
const idAlphabet = "abcdefghijklmnopqrstuvwxyz0123456789"

// NewID makes an id for a message of the given sender, type and time. It reads a random part of the
// given length from random.
//
// A random part of ShortRand characters begins with one of three characters that belong to the
// type, so messages of different types never share a short id. Messages of one type do not either,
// because only one message of a sender, type and minute gets the short file name.
func NewID(at time.Time, sender AgentName, t Type, length int, random io.Reader) (ID, error) {
	raw := make([]byte, length)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", fmt.Errorf("making a message id: %w", err)
	}
	for i, b := range raw {
		// 256 is not a multiple of 36. The slight bias costs a fraction of a bit and keeps the id a
		// function of the bytes read.
		raw[i] = idAlphabet[int(b)%len(idAlphabet)]
	}
	if length == ShortRand {
		if i := slices.Index(types, t); i >= 0 {
			raw[0] = idAlphabet[3*i+int(raw[0])%3]
		}
	}
	return ID("msg-" + at.UTC().Format(compactMinute) + "-" + string(sender) + "-" + string(raw)), nil
}

// ConversationID groups messages into a thread: conv-<YYYYMMDD>-<agent>-<seq>.
type ConversationID string

// ConversationParts are the parts of a conversation id.
type ConversationParts struct {
	// Date is the day in the id, at midnight UTC.
	Date  time.Time
	Agent AgentName
	// Sequence is 1 to 6 digits.
	Sequence string
}

// ParseConversationID parses a conversation id.
func ParseConversationID(id ConversationID) (ConversationParts, error) {
	rest, ok := strings.CutPrefix(string(id), "conv-")
	day, rest, ok2 := strings.Cut(rest, "-")
	last := strings.LastIndexByte(rest, '-')
	if !ok || !ok2 || last < 0 {
		return ConversationParts{}, fmt.Errorf("conversation id %.80q is not of the form conv-<YYYYMMDD>-<agent>-<seq>", id)
	}
	date, err := time.Parse(compactDay, day)
	if err != nil || len(day) != len(compactDay) {
		return ConversationParts{}, fmt.Errorf("conversation id %.80q: %.20q is not a date", id, day)
	}
	agent, err := ParseAgentName(rest[:last])
	if err != nil {
		return ConversationParts{}, fmt.Errorf("conversation id %.80q: %w", id, err)
	}
	sequence := rest[last+1:]
	if len(sequence) > 6 || !isDigits(sequence) {
		return ConversationParts{}, fmt.Errorf("conversation id %.80q does not end in 1 to 6 digits", id)
	}
	return ConversationParts{Date: date, Agent: agent, Sequence: sequence}, nil
}
