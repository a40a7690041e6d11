package validate

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/oacp-go/oacp/schema"
)

// A plainParser reads the part of YAML that messages are usually written in,
// line by line and some twenty times as fast as a whole YAML parser: block
// mappings and lists, plain and quoted scalars on one line, literal blocks
// and one-line flow lists. It gives up on everything else, correct or not;
// parseYAML then decides. Whatever it accepts, parseYAML reads the same way,
// down to the positions.
type plainParser struct {
	text string
	// at is the offset of the line that comes next, and line its number.
	at   int
	line int32
}

// Bounds of what the parser takes on: a longer mapping makes the search for
// repeated keys slow, and deeper nesting is no usual message.
const (
	plainPairs = 40
	plainDepth = 16
)

// parsePlain returns the mapping that the text holds, or false where the
// text is not of the simple kind. The text must be plain as checkSource
// understands it.
func parsePlain(text string) (root node, ok bool) {
	if !strings.HasSuffix(text, "\n") {
		return node{}, false
	}
	p := &plainParser{text: text, line: 1}
	if indent, line := p.peek(); indent == 0 && line == "---" {
		p.next()
	}
	if indent, line := p.peek(); indent != 0 || line == "" {
		return node{}, false
	}
	root, ok = p.mapping(0, 0)
	return root, ok && p.at == len(text)
}

// current returns the line at hand without its line break.
func (p *plainParser) current() string {
	end := strings.IndexByte(p.text[p.at:], '\n')
	return p.text[p.at : p.at+end]
}

func (p *plainParser) next() {
	p.at += strings.IndexByte(p.text[p.at:], '\n') + 1
	p.line++
}

// peek skips blank lines and comments and returns the indent and content of
// the line that then comes; the content is empty at the end of the text.
func (p *plainParser) peek() (indent int, content string) {
	for p.at < len(p.text) {
		line := p.current()
		indent = countSpaces(line)
		if indent < len(line) && line[indent] != '#' {
			return indent, line[indent:]
		}
		p.at += len(line) + 1
		p.line++
	}
	return 0, ""
}

func countSpaces(s string) int {
	n := 0
	for n < len(s) && s[n] == ' ' {
		n++
	}
	return n
}

// mapping reads the pairs at the indent, up to a line of less indent.
func (p *plainParser) mapping(indent, depth int) (node, bool) {
	if depth > plainDepth {
		return node{}, false
	}
	m := node{kind: schema.Mapping, line: p.line, column: int32(indent + 1)}
	if depth == 0 {
		m.pairs = make([]pair, 0, 12)
	}
	for {
		at, line := p.peek()
		if line == "" || at < indent {
			return m, true
		}
		end := keyEnd(line)
		if at > indent || end < 0 || len(m.pairs) == plainPairs || m.get(line[:end]) != nil {
			return node{}, false
		}
		m.pairs = append(m.pairs, pair{key: line[:end], line: p.line, column: int32(indent + 1)})
		value, ok := p.value(indent, indent+end+1, depth, true)
		if !ok {
			return node{}, false
		}
		m.pairs[len(m.pairs)-1].value = value
	}
}

// keyEnd returns the offset of the colon behind a simple key, -1 where the
// line begins with anything else.
func keyEnd(line string) int {
	for i := range len(line) {
		c := line[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
		case i > 0 && ('0' <= c && c <= '9' || c == '-'):
		case i > 0 && c == ':' && i <= schema.MaxBodyKey:
			if i+1 == len(line) || line[i+1] == ' ' {
				return i
			}
			return -1
		default:
			return -1
		}
	}
	return -1
}

// list reads the items at the indent. A list that stands at the indent of
// the key that holds it ends at the next key.
func (p *plainParser) list(indent, depth int, atKey bool) (node, bool) {
	if depth > plainDepth {
		return node{}, false
	}
	l := node{kind: schema.List, line: p.line, column: int32(indent + 1)}
	for {
		at, line := p.peek()
		if line == "" || at < indent {
			return l, true
		}
		if at > indent {
			return node{}, false
		}
		if !isItem(line) {
			return l, atKey
		}
		item, ok := p.value(indent, indent+1, depth, false)
		if !ok {
			return node{}, false
		}
		l.items = append(l.items, item)
	}
}

func isItem(line string) bool { return line[0] == '-' && (len(line) == 1 || line[1] == ' ') }

// value reads what follows the colon of a key or the dash of an item at the
// offset in the line at hand, through the end of its last line. The indent is
// that of the key or dash.
func (p *plainParser) value(indent, offset, depth int, ofKey bool) (node, bool) {
	line := p.current()
	start := offset + countSpaces(line[offset:])
	rest := line[start:]
	v := node{kind: schema.Text, line: p.line, column: int32(start + 1)}
	if rest == "" || rest[0] == '#' && start > offset {
		v.column = int32(offset + 1)
		p.next()
		return p.nested(v, indent, depth, ofKey)
	}
	p.next()
	var end int
	switch rest[0] {
	case '|':
		return p.literal(v, rest, indent)
	case '"', '\'':
		v.text, end = quoted(rest)
	case '[', '{':
		return flow(v, line, start)
	default:
		v.text = plainScalar(rest)
		known := v.text != ""
		if isNull(v.text) {
			v.kind, v.text = schema.Null, ""
		}
		return v, known
	}
	return v, end > 0 && endsLine(rest[end:])
}

// nested reads a mapping or list on the lines below its key or dash, or
// nothing at all, which is null.
func (p *plainParser) nested(v node, indent, depth int, ofKey bool) (node, bool) {
	at, line := p.peek()
	switch {
	case line == "" || at < indent, at == indent && !(ofKey && isItem(line)):
		v.kind = schema.Null
		return v, true
	case isItem(line):
		return p.list(at, depth+1, at == indent)
	}
	return p.mapping(at, depth+1)
}

// endsLine reports whether only white space or a comment is left of a line.
func endsLine(rest string) bool {
	n := countSpaces(rest)
	return n == len(rest) || n > 0 && rest[n] == '#'
}

// isNull reports whether a plain scalar is null in the core schema of YAML.
func isNull(plain string) bool {
	switch plain {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

// plainScalar returns the plain scalar that the rest of a line is, empty
// where it may be something else.
func plainScalar(rest string) string {
	switch c := rest[0]; {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
	case c >= utf8.RuneSelf, strings.IndexByte("_./()+;=$^~", c) >= 0:
	default:
		return ""
	}
	for i := range len(rest) {
		switch rest[i] {
		case '\t':
			return ""
		case ':':
			if i+1 == len(rest) || rest[i+1] == ' ' {
				return ""
			}
		case '#':
			if rest[i-1] == ' ' {
				return strings.TrimRight(rest[:i], " ")
			}
		}
	}
	return strings.TrimRight(rest, " ")
}

// quoted returns the text of the quoted scalar at the beginning, and the
// offset behind it; 0 where it does not end or holds something unusual.
func quoted(rest string) (text string, end int) {
	if rest[0] == '\'' {
		return singleQuoted(rest)
	}
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '"':
			return rest[1:i], i + 1
		case '\t':
			return "", 0
		case '\\':
			return escaped(rest, i)
		}
	}
	return "", 0
}

func singleQuoted(rest string) (text string, end int) {
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] == '\t':
			return "", 0
		case rest[i] != '\'':
		case i+1 < len(rest) && rest[i+1] == '\'':
			i++
		default:
			return strings.ReplaceAll(rest[1:i], "''", "'"), i + 1
		}
	}
	return "", 0
}

// escaped continues with a double-quoted scalar at its first backslash.
func escaped(rest string, i int) (text string, end int) {
	out := append(make([]byte, 0, len(rest)), rest[1:i]...)
	for i < len(rest) {
		switch c := rest[i]; c {
		case '"':
			return string(out), i + 1
		case '\t':
			return "", 0
		case '\\':
			r, size := escapedCharacter(rest[i+1:])
			if size == 0 {
				return "", 0
			}
			out = utf8.AppendRune(out, r)
			i += 1 + size
		default:
			out = append(out, c)
			i++
		}
	}
	return "", 0
}

// escapedCharacter returns the character that an escape stands for and the
// length of the escape behind the backslash; 0 for one that is not JSON's.
func escapedCharacter(rest string) (r rune, size int) {
	if rest == "" {
		return 0, 0
	}
	switch rest[0] {
	case '"', '\\', '/':
		return rune(rest[0]), 1
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'u':
		if len(rest) < 5 {
			return 0, 0
		}
		value, err := strconv.ParseUint(rest[1:5], 16, 32)
		if err != nil || !utf8.ValidRune(rune(value)) {
			return 0, 0
		}
		return rune(value), 5
	}
	return 0, 0
}

// flow reads a list of simple scalars on one line, or an empty mapping.
func flow(v node, line string, start int) (node, bool) {
	rest := line[start:]
	if strings.HasPrefix(rest, "{}") {
		v.kind = schema.Mapping
		return v, endsLine(rest[2:])
	}
	v.kind = schema.List
	at := 1 + countSpaces(rest[1:])
	if rest[0] != '[' || at == len(rest) {
		return node{}, false
	}
	if rest[at] == ']' {
		return v, endsLine(rest[at+1:])
	}
	for {
		item := node{kind: schema.Text, line: v.line, column: int32(utf8.RuneCountInString(line[:start+at]) + 1)}
		var end int
		if item.text, end = flowScalar(rest[at:]); end == 0 {
			return node{}, false
		}
		if rest[at] != '"' && rest[at] != '\'' && isNull(item.text) {
			item.kind, item.text = schema.Null, ""
		}
		v.items = append(v.items, item)
		at += end
		at += countSpaces(rest[at:])
		if at == len(rest) {
			return node{}, false
		}
		if rest[at] == ']' {
			return v, endsLine(rest[at+1:])
		}
		next := at + 1 + countSpaces(rest[at+1:])
		if rest[at] != ',' || next == at+1 || next == len(rest) {
			return node{}, false
		}
		at = next
	}
}

// flowScalar returns the scalar at the beginning of an item of a flow list
// and the offset behind it, 0 for anything but a quoted text or a plain one
// of the characters of names.
func flowScalar(rest string) (text string, end int) {
	if rest[0] == '"' || rest[0] == '\'' {
		return quoted(rest)
	}
	for end < len(rest) {
		c := rest[end]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case end > 0 && (c == '.' || c == '_' || c == '-' || c == '/'):
		case c == ' ', c == ',', c == ']':
			return rest[:end], end
		default:
			return "", 0
		}
		end++
	}
	return "", 0
}

// literal reads a literal block with the header | or |- at hand.
func (p *plainParser) literal(v node, header string, indent int) (node, bool) {
	header = strings.TrimRight(header, " ")
	if header != "|" && header != "|-" || p.at == len(p.text) {
		return node{}, false
	}
	first := p.current()
	inner := countSpaces(first)
	if inner <= indent || inner == len(first) {
		return node{}, false
	}
	start, end := p.at, p.at
	lines := 0
	for p.at < len(p.text) {
		line := p.current()
		spaces := countSpaces(line)
		if spaces == len(line) {
			if spaces > 0 {
				return node{}, false
			}
			p.next()
			continue
		}
		if spaces < inner {
			break
		}
		if line[spaces] == '\t' {
			return node{}, false
		}
		lines++
		p.next()
		end = p.at
	}
	v.text = dedent(p.text[start:end], inner, lines)
	if header == "|-" {
		v.text = v.text[:len(v.text)-1]
	}
	v.literal = true
	return v, true
}

// dedent removes the indent from every line that has one.
func dedent(block string, indent, lines int) string {
	var out strings.Builder
	out.Grow(len(block) - indent*lines)
	for block != "" {
		end := strings.IndexByte(block, '\n') + 1
		if end > 1 {
			out.WriteString(block[indent:end])
		} else {
			out.WriteByte('\n')
		}
		block = block[end:]
	}
	return out.String()
}
