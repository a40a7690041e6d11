package validate

import (
	"strings"

	"github.com/oacp-go/oacp/schema"
)

// A plainParser parses the subset of YAML that messages usually use, line by line and about eight
// times as fast as yaml.v3: block mappings and lists, plain and quoted scalars on one line, literal
// blocks and one-line flow lists. It gives up on everything else, correct or not, and parseYAML
// takes over. Whatever it accepts, parseYAML reads the same way, including positions.
type plainParser struct {
	text string
	// at is the offset of the next line, and line its number.
	at   int
	line int32
}

// Bounds of what the parser attempts: in a longer mapping the search for repeated keys is slow, and
// usual messages do not nest deeper.
const (
	plainPairs = 40
	plainDepth = 16
)

// parsePlain returns the mapping in the text, or false if the text needs a full YAML parser. The
// text must be plain according to checkSource. The pairs of the mapping are appended to scratch,
// which is empty.
func parsePlain(text string, scratch []pair) (root node, ok bool) {
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
	root, ok = p.mapping(0, 0, scratch)
	return root, ok && p.at == len(text)
}

// current returns the current line without its line break.
func (p *plainParser) current() string {
	end := strings.IndexByte(p.text[p.at:], '\n')
	return p.text[p.at : p.at+end]
}

func (p *plainParser) next() {
	p.at += strings.IndexByte(p.text[p.at:], '\n') + 1
	p.line++
}

// peek skips blank lines and comments and returns the indent and content of the next line. The
// content is empty at the end of the text.
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

// mapping reads the pairs at the indent, up to a line with less indent, and appends them to empty.
func (p *plainParser) mapping(indent, depth int, empty []pair) (node, bool) {
	if depth > plainDepth {
		return node{}, false
	}
	m := node{kind: schema.Mapping, line: p.line, column: int32(indent + 1), pairs: empty}
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

// keyEnd returns the offset of the colon after a simple key, or -1 if the line begins with anything
// else.
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

// list reads the items at the indent. A list at the indent of its own key ends at the next key.
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

// value reads what follows the colon of a key or the dash of an item, from the offset in the
// current line to the end of its last line. The indent is that of the key or dash.
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

// nested reads a mapping or list on the lines below its key or dash. If there is neither, the value
// is null.
func (p *plainParser) nested(v node, indent, depth int, ofKey bool) (node, bool) {
	at, line := p.peek()
	switch {
	case line == "" || at < indent, at == indent && !(ofKey && isItem(line)):
		v.kind = schema.Null
		return v, true
	case isItem(line):
		return p.list(at, depth+1, at == indent)
	}
	return p.mapping(at, depth+1, nil)
}

// literal reads a literal block with the header | or |-.
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
	for p.at < len(p.text) {
		line := p.current()
		spaces := countSpaces(line)
		switch {
		case line == "":
			p.next()
			continue
		case spaces == len(line), spaces >= inner && line[spaces] == '\t':
			return node{}, false
		}
		if spaces < inner {
			break
		}
		p.next()
		end = p.at
	}
	v.text = dedent(p.text[start:end], inner)
	if header == "|-" {
		v.text = v.text[:len(v.text)-1]
	}
	v.literal = true
	return v, true
}

// dedent removes the indent from every line that is not blank.
func dedent(block string, indent int) string {
	var out strings.Builder
	out.Grow(len(block))
	for block != "" {
		end := strings.IndexByte(block, '\n') + 1
		out.WriteString(block[min(indent, end-1):end])
		block = block[end:]
	}
	return out.String()
}
