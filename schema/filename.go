package schema

import (
	"fmt"
	"strings"
	"time"
)

// FileExtension is how the name of a message file ends.
const FileExtension = ".yaml"

// FileName is what the name of a message file says. The content is the
// authority; the name is there for people and for sorting.
type FileName struct {
	// At is the time in the name, to the minute or second.
	At   time.Time
	From AgentName
	Type Type
	// Rand is empty in a short name.
	Rand string
	// Suffix is what other tools put behind the rand.
	Suffix string
}

// FileName returns the name the message's file has when it is free:
// <YYYYMMDDTHHmmZ>_<from>_<type>.yaml. The time is created_at_utc.
func (m *Message) FileName() string {
	return m.CreatedAt.Time().Format(compactMinute) + "_" + string(m.From) + "_" + string(m.Type) + FileExtension
}

// LongFileName returns the name the message's file has when the short one is
// taken: the short one with the rand of the id before the extension. The id
// must be of id form.
func (m *Message) LongFileName() (string, error) {
	parts, err := ParseID(m.ID)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(m.FileName(), FileExtension) + "_" + parts.Rand + FileExtension, nil
}

// ParseFileName takes the name of a message file apart. It accepts the two
// names we write and those of the reference implementation,
// <YYYYMMDDHHMMSS>_<from>_<type>_<rand>[_<suffix>].yaml. Agent names may
// contain underscores and even end like a type, so the name is read from
// both ends, and of several readings the one with the least behind the type
// holds.
func ParseFileName(name string) (FileName, error) {
	bad := func(why string) (FileName, error) {
		return FileName{}, fmt.Errorf("file name %.120q %s", name, why)
	}
	stem, ok := strings.CutSuffix(name, FileExtension)
	if !ok {
		return bad("does not end in " + FileExtension)
	}
	stamp, rest, ok := strings.Cut(stem, "_")
	if !ok {
		return bad("is not of the form <timestamp>_<from>_<type>" + FileExtension)
	}
	at, err := parseCompactTime(stamp)
	if err != nil {
		return FileName{}, fmt.Errorf("file name %.120q: %w", name, err)
	}
	for end := len(rest); end > 0; end = strings.LastIndexByte(rest[:end], '_') {
		t, sender, ok := cutType(rest[:end])
		if !ok {
			continue
		}
		from, err := ParseAgentName(sender)
		if err != nil {
			continue
		}
		parsed := FileName{At: at, From: from, Type: t}
		if end < len(rest) {
			parsed.Rand, parsed.Suffix, _ = strings.Cut(rest[end+1:], "_")
			if len(parsed.Rand) < minRand || len(parsed.Rand) > maxRand || !isAlphanumericText(parsed.Rand) {
				continue
			}
		}
		return parsed, nil
	}
	return bad("names no message type behind the sender")
}

// cutType splits <from>_<type>. No type is the end of another one, so there
// is one way at most.
func cutType(text string) (t Type, from string, ok bool) {
	for _, t := range types {
		if from, ok := strings.CutSuffix(text, "_"+string(t)); ok {
			return t, from, true
		}
	}
	return "", "", false
}

// IsMessageFile reports whether a folder entry of this name is a message:
// not hidden, and ending in .yaml. Other tools leave dot-temporaries in
// inboxes, even such as end in .yaml.
func IsMessageFile(name string) bool {
	return !strings.HasPrefix(name, ".") && strings.HasSuffix(name, FileExtension)
}
