package schema

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
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
		return "", errors.New("the agent name is empty")
	case len(text) > MaxAgentName:
		return "", fmt.Errorf("agent name %.20q… has over %d characters", text, MaxAgentName)
	case !isAlphanumeric(text[0]):
		return "", fmt.Errorf("agent name %q does not start with a letter or digit", text)
	}
	for i := range len(text) {
		if c := text[i]; !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return "", fmt.Errorf("agent name %q contains a character other than letters, digits, '.', '_' and '-'", text)
		}
	}
	return AgentName(text), nil
}

// Valid reports whether n is an agent name.
func (n AgentName) Valid() bool {
	_, err := ParseAgentName(string(n))
	return err == nil
}

// Everyone is a recipient that stands for all other agents.
const Everyone AgentName = "all"

// Reserved returns why no new agent should have the name, or "". Names that Windows gives to devices, also with an
// extension, and a dot at the end, are no folders there.
func (n AgentName) Reserved() string {
	name, _, _ := strings.Cut(strings.ToLower(string(n)), ".")
	port := strings.HasPrefix(name, "com") || strings.HasPrefix(name, "lpt")
	switch {
	case strings.EqualFold(string(n), string(Everyone)):
		return "it stands for all agents"
	case strings.HasSuffix(string(n), "."):
		return "Windows drops a dot at the end of a name"
	case slices.Contains([]string{"con", "prn", "aux", "nul"}, name), port && len(name) == 4 && isDigit(name[3]):
		return "Windows has a device of this name"
	}
	return ""
}

func isAlphanumeric(c byte) bool { return isLetter(c) || isDigit(c) }
func isLetter(c byte) bool       { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool        { return '0' <= c && c <= '9' }

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// isRand reports whether the text may be the random part of an id.
func isRand(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && c != '_' && c != '-' {
			return false
		}
	}
	return 0 < len(s) && len(s) <= maxRand
}

// ID identifies a message: msg-<timestamp>-<sender>-<rand>.
type ID string

// maxID is the longest id in characters.
const maxID = 200

// Lengths of the random part of an id. We write ShortRand if the short file name is free and LongRand
// if not, and read up to maxRand. Other tools expect usualMin to usualMax letters and digits.
const (
	ShortRand = 4
	LongRand  = 16
	maxRand   = 64
	usualMin  = 3
	usualMax  = 32
)

// IDParts are the parts of an id.
type IDParts struct {
	// At is the time in the id, to the minute or second.
	At     time.Time
	Sender AgentName
	Rand   string
}

// UsualRand reports whether other tools accept the random part: it has 3 to 32 letters and digits.
func (p IDParts) UsualRand() bool {
	return usualMin <= len(p.Rand) && len(p.Rand) <= usualMax && !strings.ContainsAny(p.Rand, "_-")
}

// ParseID parses an id. It accepts the three timestamp forms in use, YYYYMMDDTHHmmZ, YYYYMMDDTHHmmssZ and
// YYYYMMDDHHMMSS, and a rand of 1 to 64 letters, digits, underscores and hyphens. Agent names may also
// contain hyphens, so ParseID takes the shortest possible rand.
func ParseID(id ID) (IDParts, error) {
	if len(id) > maxID {
		return IDParts{}, fmt.Errorf("id %.20q… has over %d characters", id, maxID)
	}
	rest, ok := strings.CutPrefix(string(id), "msg-")
	stamp, rest, ok2 := strings.Cut(rest, "-")
	if !ok || !ok2 || !strings.Contains(rest, "-") {
		return IDParts{}, fmt.Errorf("id %q is not of the form msg-<timestamp>-<sender>-<rand>", id)
	}
	at, err := parseCompactTime(stamp)
	if err != nil {
		return IDParts{}, fmt.Errorf("id %q: %w", id, err)
	}
	var refused error
	for end := strings.LastIndexByte(rest, '-'); end >= 0; end = strings.LastIndexByte(rest[:end], '-') {
		sender, err := ParseAgentName(rest[:end])
		if err == nil && isRand(rest[end+1:]) {
			return IDParts{At: at, Sender: sender, Rand: rest[end+1:]}, nil
		}
		if err == nil {
			err = fmt.Errorf("it does not end in 1 to %d letters, digits, underscores and hyphens", maxRand)
		}
		if refused == nil {
			refused = err
		}
	}
	return IDParts{}, fmt.Errorf("id %q: %w", id, refused)
}

// idAlphabet has 36 characters in the order of their bytes, three for each of the twelve types.
const idAlphabet = "0123456789abcdefghijklmnopqrstuvwxyz"

// Characters of a rand that are the time within the minute: 1.3 ms a step in a short one, 27 ns in a
// long one.
const (
	shortTime = 3
	longTime  = 6
)

// NewID makes an id for a message of the given sender, type and time. Its rand has ShortRand or
// LongRand characters and begins with the time within the minute, so that ids sort by time.
//
// The last character of a short rand is one of three that belong to the type, so messages of
// different types never share a short id. Messages of one type do not either, because only one
// message of a sender, type and minute gets the short file name. The rest of a long rand is read
// from random.
func NewID(at time.Time, sender AgentName, t Type, length int, random io.Reader) (ID, error) {
	within := longTime
	if length == ShortRand {
		within = shortTime
	}
	raw := make([]byte, length-within)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", fmt.Errorf("generating a message id: %w", err)
	}
	for i, b := range raw {
		// 256 is not a multiple of 36, which favours some characters slightly. Drawing again would
		// avoid that, but then the id would not depend on a fixed number of bytes.
		raw[i] = idAlphabet[int(b)%len(idAlphabet)]
		if n := slices.Index(types, t); length == ShortRand && n >= 0 {
			raw[i] = idAlphabet[3*n+int(b)%3]
		}
	}
	at = at.UTC()
	return ID("msg-" + at.Format(compactMinute) + "-" + string(sender) + "-" + TimeWithinMinute(at, within) + string(raw)), nil
}

// TimeWithinMinute returns the position of a time within its minute as a number in base 36 with the
// given count of digits, at most 6. Texts of one length sort by time.
func TimeWithinMinute(at time.Time, digits int) string {
	text := make([]byte, digits)
	n := positionInMinute(at, digits)
	for i := range slices.Backward(text) {
		text[i] = idAlphabet[n%36]
		n /= 36
	}
	return string(text)
}

// positionInMinute counts the steps from the beginning of the minute; a minute has 36^digits.
func positionInMinute(at time.Time, digits int) uint64 {
	steps := uint64(1)
	for range digits {
		steps *= 36
	}
	within := at.Sub(at.Truncate(time.Minute))
	high, low := bits.Mul64(uint64(within), steps)
	position, _ := bits.Div64(high, low, uint64(time.Minute))
	return position
}

// ConversationID groups messages into a thread: conv-<YYYYMMDD>-<agent>-<seq>.
type ConversationID string

// NewConversationID makes the id of a conversation that the agent begins at the time. It uses the last six
// digits of the number.
func NewConversationID(at time.Time, agent AgentName, number uint64) ConversationID {
	return ConversationID(fmt.Sprintf("conv-%s-%s-%06d", at.UTC().Format(compactDay), agent, number%1_000_000))
}

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
