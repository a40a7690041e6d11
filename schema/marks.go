package schema

import (
	"slices"
	"strconv"
	"strings"
)

// The lines of context_keys that count the turns of a chain and allow a key begin with these marks.
const (
	hopsMark   = "hops:"
	secretMark = "allow_secret:"
)

// Hops returns how many turns in a row led to this message, each on a message that the one before sent: 0 for a message
// that no turn sent, or that does not say.
func (m *Message) Hops() int {
	text, _ := m.contextLine(hopsMark)
	hops, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return max(0, hops)
}

// SetHops says how many turns led to this message, and replaces what it said.
func (m *Message) SetHops(hops int) {
	if m.Hops() == hops {
		return
	}
	lines := slices.DeleteFunc(slices.Collect(strings.Lines(m.ContextKeys)), func(line string) bool {
		return strings.HasPrefix(strings.TrimSpace(line), hopsMark)
	})
	m.ContextKeys = strings.Join(lines, "")
	m.addContextLine(hopsMark + " " + strconv.Itoa(hops))
}

// AllowSecret says that the message may have what looks like a key.
func (m *Message) AllowSecret() { m.mark(secretMark) }

// AllowsSecret reports whether the message may have what looks like a key.
func (m *Message) AllowsSecret() bool { return m.hasMark(secretMark) }

// hasMark reports whether a line of context_keys says that the mark is true.
func (m *Message) hasMark(mark string) bool {
	for line := range strings.Lines(m.ContextKeys) {
		if strings.TrimSpace(line) == mark+" true" {
			return true
		}
	}
	return false
}

// mark adds the line of a mark to context_keys, if it is not there.
func (m *Message) mark(mark string) {
	if !m.hasMark(mark) {
		m.addContextLine(mark + " true")
	}
}
