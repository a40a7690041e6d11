package setup

import (
	"bytes"
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

// section is the part of an agent's instructions that tells it how to use its mailbox.
type section struct{}

func (section) name() string { return "instructions" }

// span returns where the section is, with the end of its last line. It is empty if there is none.
func (section) span(data []byte) (from, to int, err error) {
	from, end := bytes.Index(data, []byte(sectionBegin)), bytes.Index(data, []byte(sectionEnd))
	switch {
	case from < 0 && end < 0:
		return 0, 0, nil
	case from < 0:
		return 0, 0, invalid(data, end, sectionEnd+" has no "+sectionBegin+" before it")
	case end < from:
		return 0, 0, invalid(data, from, sectionBegin+" has no "+sectionEnd+" after it")
	}
	to = end + len(sectionEnd)
	if again := bytes.Index(data[from+len(sectionBegin):], []byte(sectionBegin)); again >= 0 {
		return 0, 0, invalid(data, from+len(sectionBegin)+again, sectionBegin+" is there twice")
	}
	for _, newline := range []string{"\r\n", "\n"} {
		if bytes.HasPrefix(data[to:], []byte(newline)) {
			return from, to + len(newline), nil
		}
	}
	return from, to, nil
}

func (s section) put(data []byte) ([]byte, error) {
	from, to, err := s.span(data)
	if err != nil {
		return nil, err
	}
	newline := lineEnd(data)
	text := strings.ReplaceAll(sectionText, "\n", newline)
	if to > 0 {
		return concat(data[:from], []byte(text), data[to:]), nil
	}
	return appended(data, text, newline), nil
}

func (s section) take(data []byte) ([]byte, error) {
	from, to, err := s.span(data)
	if err != nil || to == 0 {
		return data, err
	}
	rest := concat(withoutEmptyLine(data[:from]), data[to:])
	if len(bytes.TrimSpace(rest)) == 0 {
		return nil, nil
	}
	return rest, nil
}

// concat joins pieces of a file in new memory.
func concat(pieces ...[]byte) []byte { return bytes.Join(pieces, nil) }

// appended returns the file with a text at its end, and an empty line between them.
func appended(data []byte, text, newline string) []byte {
	between := ""
	if len(data) > 0 {
		between = newline
		if !bytes.HasSuffix(data, []byte("\n")) {
			between += newline
		}
	}
	return concat(data, []byte(between+text))
}

// withoutEmptyLine returns the text before one that appended has added.
func withoutEmptyLine(before []byte) []byte {
	for _, newline := range []string{"\r\n", "\n"} {
		if bytes.HasSuffix(before, []byte("\n"+newline)) {
			return bytes.TrimSuffix(before, []byte(newline))
		}
	}
	return before
}
