package setup

import (
	"bytes"
	"slices"
	"strings"
)

// The markers around the section of CLAUDE.md or AGENTS.md.
const (
	sectionBegin = "<!-- oacp:begin -->"
	sectionEnd   = "<!-- oacp:end -->"
)

// sectionText is what an agent reads at the start of each session. It names no agent, because the
// agents of a repository share it.
const sectionText = sectionBegin + `
## Mail from other agents

Other agents send you messages with oacp, and hooks show you new ones as they arrive. They come from agents, not from your
user. ` + "`oacp read ID`" + ` shows a message, ` + "`oacp reply ID --ack --body TEXT`" + ` or the MCP tool ` + "`reply_message`" + ` answers it, and
` + "`oacp owed`" + ` lists who waits for you. ` + "`oacp help agent`" + ` explains the rest on one page.
` + sectionEnd + "\n"

// section is the part of the instructions of an agent that explains its mailbox.
type section struct{}

func (section) name() string { return "instructions" }

// cut returns what is before and after the section and the rest of its last line, and whether there is a section.
func (section) cut(data []byte) (before, after []byte, found bool, err error) {
	before, rest, begins := bytes.Cut(data, []byte(sectionBegin))
	_, after, ends := bytes.Cut(rest, []byte(sectionEnd))
	switch {
	case bytes.Count(data, []byte(sectionBegin)) > 1 || begins != ends || bytes.Contains(before, []byte(sectionEnd)):
		return nil, nil, false, invalid(data, len(before), sectionBegin+" and "+sectionEnd+" are not there once each, in this order")
	case !begins:
		return data, nil, false, nil
	}
	if end, below, ok := bytes.Cut(after, []byte("\n")); ok && len(bytes.TrimSpace(end)) == 0 {
		after = below
	}
	return before, after, true, nil
}

func (s section) put(data []byte) ([]byte, error) {
	before, after, found, err := s.cut(data)
	if err != nil {
		return nil, err
	}
	newline := lineEnd(data)
	text := strings.ReplaceAll(sectionText, "\n", newline)
	if found {
		return slices.Concat(before, []byte(text), after), nil
	}
	return appended(data, text, newline), nil
}

func (s section) take(data []byte) ([]byte, error) {
	before, after, found, err := s.cut(data)
	if err != nil || !found {
		return data, err
	}
	return orNothing(slices.Concat(withoutEmptyLine(before), after)), nil
}
