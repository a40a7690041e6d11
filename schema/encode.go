package schema

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrSigned reports a message with a signature but without the file that was signed: rendering the
// message again would break the signature.
var ErrSigned = errors.New("a signed message cannot be rendered again")

// ErrTooLarge reports a message whose file would exceed MaxFileSize.
var ErrTooLarge = errors.New("the message exceeds the size of a message file")

// Encode renders the message in the canonical form: fields in a fixed order, prose of several lines in
// literal blocks indented by two spaces, and double quotes with JSON-style escapes wherever a plain
// scalar could be misread or a block cannot hold the text. Any YAML parser and simple line-based
// readers understand it. Decoding a valid message that Encode wrote returns the same message.
//
// For a signed message, Encode returns its file unchanged.
//
// Encode returns ErrSigned, ErrTooLarge, or an error for text that is not UTF-8. It does not validate
// the message.
func Encode(m *Message) ([]byte, error) {
	switch {
	case m.Auth == "":
	case m.File == "":
		return nil, ErrSigned
	default:
		return []byte(m.File), nil
	}
	e := encoder{out: make([]byte, 0, 512+len(m.Body.Text))}
	for _, f := range fields {
		switch f.name {
		case "to":
			e.recipients(m.To)
		case "body":
			e.pair(0, f.name, m.Body)
		default:
			text := *f.text(m)
			if f.name == contextField {
				text = m.context()
			}
			switch {
			case text == "":
			case f.verbatim:
				e.pair(0, f.name, TextValue(text))
			default:
				e.line(f.name, text)
			}
		}
	}
	if e.full() {
		return nil, fmt.Errorf("%w: over %d bytes", ErrTooLarge, MaxFileSize)
	}
	if e.notUTF8 {
		return nil, errors.New("the message contains text that is not UTF-8")
	}
	return e.out, nil
}

// BodyText returns the body as people and programs read it: a text as it is, and a mapping as YAML.
func (m *Message) BodyText() string {
	if m.Body.Kind == Mapping {
		return string(EncodeMapping(m.Body))
	}
	return m.Body.Text
}

// EncodeMapping renders a mapping, such as a structured body, as a YAML document. Its style is that of Encode.
func EncodeMapping(v Value) []byte {
	e := encoder{}
	for _, p := range v.Pairs {
		e.pair(0, p.Key, p.Value)
	}
	return e.out
}

type encoder struct {
	out []byte
	// notUTF8 records that some text is not valid UTF-8.
	notUTF8 bool
}

// full reports whether the file is already too large. The indentation of deeply nested lists can make
// it much larger than the texts in it.
func (e *encoder) full() bool { return len(e.out) > MaxFileSize }

func (e *encoder) indent(depth int) {
	for range depth {
		e.out = append(e.out, ' ', ' ')
	}
}

// recipients writes one name as a scalar and several as a flow list on the same line, which
// line-based readers can split.
func (e *encoder) recipients(names []AgentName) {
	if len(names) == 1 {
		e.line("to", string(names[0]))
		return
	}
	e.out = append(e.out, "to: ["...)
	for i, name := range names {
		if i > 0 {
			e.out = append(e.out, ", "...)
		}
		e.scalar(string(name))
	}
	e.out = append(e.out, "]\n"...)
}

// line writes a field on one line, even if its text has line breaks.
func (e *encoder) line(name, text string) {
	e.out = append(append(e.out, name...), ": "...)
	e.scalar(text)
	e.out = append(e.out, '\n')
}

// pair writes a key and its value as an entry of a block mapping at the given depth.
func (e *encoder) pair(depth int, key string, v Value) {
	e.indent(depth)
	e.scalar(key)
	e.out = append(e.out, ':')
	e.value(depth, v)
}

// value writes what follows the colon of a key or the dash of a list item at the given depth,
// through the end of the line.
func (e *encoder) value(depth int, v Value) {
	switch v.Kind {
	case Absent, Null:
		e.out = append(e.out, " null\n"...)
	case Text:
		e.out = append(e.out, ' ')
		e.text(depth+1, v.Text)
	case List:
		if len(v.Items) == 0 {
			e.out = append(e.out, " []\n"...)
			return
		}
		e.out = append(e.out, '\n')
		for _, item := range v.Items {
			if e.full() {
				return
			}
			e.indent(depth + 1)
			e.out = append(e.out, '-')
			e.value(depth+1, item)
		}
	case Mapping:
		if len(v.Pairs) == 0 {
			e.out = append(e.out, " {}\n"...)
			return
		}
		e.out = append(e.out, '\n')
		for _, p := range v.Pairs {
			if e.full() {
				return
			}
			e.pair(depth+1, p.Key, p.Value)
		}
	}
}

// text writes text of one or more lines; the lines of a block are indented to the given depth.
func (e *encoder) text(depth int, text string) {
	if !fitsBlock(text) {
		e.scalar(text)
		e.out = append(e.out, '\n')
		return
	}
	if body, ok := strings.CutSuffix(text, "\n"); ok {
		e.out = append(e.out, "|\n"...)
		text = body
	} else {
		e.out = append(e.out, "|-\n"...)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if e.full() {
			return
		}
		if line != "" {
			e.indent(depth)
			e.out = append(e.out, line...)
		}
		e.out = append(e.out, '\n')
	}
}

// fitsBlock reports whether every reader gets the same text back from a literal block: several
// lines (a final line break makes two) of printable characters and tabs, the first not indented, and
// neither the first nor the last empty or of white space alone.
func fitsBlock(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	body, _ := strings.CutSuffix(text, "\n")
	if body == "" || body == text && !strings.Contains(body, "\n") {
		return false
	}
	if strings.ContainsRune(" \t\n", rune(body[0])) || strings.Trim(body[strings.LastIndexByte(body, '\n')+1:], " \t") == "" {
		return false
	}
	return !strings.ContainsFunc(body, func(r rune) bool { return r != '\n' && r != '\t' && needsEscape(r) })
}

// needsEscape reports whether some YAML reader refuses the character, changes it or takes it for a
// line break.
func needsEscape(r rune) bool {
	switch {
	case r < 0x20, 0x7f <= r && r <= 0x9f:
		return true
	case r == '\u2028', r == '\u2029', r == '\ufeff', r == '\ufffe', r == '\uffff':
		return true
	}
	return false
}

// scalar writes the text plain if no reader can misread it, and in double quotes otherwise.
func (e *encoder) scalar(text string) {
	if isPlain(text) {
		e.out = append(e.out, text...)
		return
	}
	e.notUTF8 = e.notUTF8 || !utf8.ValidString(text)
	e.out = append(e.out, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			e.out = append(e.out, '\\', byte(r))
		case r == '\n':
			e.out = append(e.out, `\n`...)
		case r == '\r':
			e.out = append(e.out, `\r`...)
		case r == '\t':
			e.out = append(e.out, `\t`...)
		case needsEscape(r):
			e.out = fmt.Appendf(e.out, `\u%04x`, r)
		default:
			e.out = utf8.AppendRune(e.out, r)
		}
	}
	e.out = append(e.out, '"')
}

// yamlWords are words that YAML 1.1 or 1.2 reads as something other than text.
var yamlWords = map[string]bool{
	"null": true, "true": true, "false": true, "yes": true, "no": true,
	"on": true, "off": true, "y": true, "n": true, "nan": true, "inf": true,
}

// isPlain is deliberately narrow: plain text starts with an ASCII letter, contains only characters
// without a meaning in YAML, and is not one of the yamlWords.
func isPlain(text string) bool {
	if text == "" || !isLetter(text[0]) || text[len(text)-1] == ' ' {
		return false
	}
	for i := range len(text) {
		c := text[i]
		if !isAlphanumeric(c) && !strings.ContainsRune(" ._/()+=;-", rune(c)) {
			return false
		}
	}
	return len(text) > 5 || !yamlWords[strings.ToLower(text)]
}
