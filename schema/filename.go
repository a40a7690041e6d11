package schema

import (
	"fmt"
	"strings"
	"time"
)

// FileExtension is the extension of a message file.
const FileExtension = ".yaml"

// FileName holds the parts of the name of a message file. If the name and the content differ, the content
// counts: the name is for people and for sorting.
type FileName struct {
	// At is the time in the name, to the minute or second.
	At   time.Time
	From AgentName
	Type Type
	// Rand is empty in a short name.
	Rand string
	// Suffix follows the random part in names that other tools write.
	Suffix string
}

// FileName returns the short name of the message's file, <YYYYMMDDTHHmmZ>_<from>_<type>.yaml, which
// delivery uses if it is free. The time is created_at_utc.
func (m *Message) FileName() string {
	return m.CreatedAt.Time().Format(compactMinute) + "_" + string(m.From) + "_" + string(m.Type) + FileExtension
}

// LongFileName returns the name of the message's file if the short one is taken: the short name
// with the random part of the id before the extension. It returns an error if the id is malformed.
func (m *Message) LongFileName() (string, error) {
	parts, err := ParseID(m.ID)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(m.FileName(), FileExtension) + "_" + parts.Rand + FileExtension, nil
}

// ParseFileName parses the name of a message file. It accepts the two forms that we write and that
// of the reference implementation, <YYYYMMDDHHMMSS>_<from>_<type>_<rand>[_<suffix>].yaml,
// with a suffix that IsNamePart accepts. So a name that it accepts has no separators and no control characters. Agent
// names may contain underscores and even end like a type, so ParseFileName reads the name from both
// ends and prefers the interpretation with the shortest remainder after the type.
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
	why := "does not name a message type after the sender"
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
			if !isRand(parsed.Rand) || parsed.Suffix != "" && !IsNamePart(parsed.Suffix) {
				why = "has more after the type than letters, digits, dots, underscores and hyphens, or too much"
				continue
			}
		}
		return parsed, nil
	}
	return bad(why)
}

// cutType splits <from>_<type>. No type is a suffix of another, so there is at most one way.
func cutType(text string) (t Type, from string, ok bool) {
	for _, t := range types {
		if from, ok := strings.CutSuffix(text, "_"+string(t)); ok {
			return t, from, true
		}
	}
	return "", "", false
}

// IsNamePart reports whether text that a user chooses, such as a suffix, can be a part of a file
// name: it is 1 to 64 letters, digits, dots, underscores and hyphens.
func IsNamePart(text string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	return 0 < len(text) && len(text) <= 64 && strings.Trim(text, allowed) == ""
}

// IsMessageFile reports whether a file of this name is a message: not hidden, and ending in .yaml.
// Other tools leave hidden temporary files in inboxes, some of which end in .yaml.
func IsMessageFile(name string) bool {
	return !strings.HasPrefix(name, ".") && strings.HasSuffix(name, FileExtension)
}
