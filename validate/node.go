package validate

import (
	"strings"
	"unicode/utf8"

	"github.com/oacp-go/oacp/schema"
)

// A node is a value in a YAML file with its position. Both parsers build nodes; the rest of the
// package does not see YAML.
type node struct {
	kind schema.Kind
	// literal is set for text written as a literal block, whose lines are lines of the file.
	literal      bool
	line, column int32
	text         string
	items        []node
	pairs        []pair
}

// A pair is an entry of a mapping. Its line and column are those of the key.
type pair struct {
	key          string
	line, column int32
	value        node
}

// get returns the entry with the key, or nil.
func (n *node) get(key string) *pair {
	for i := range n.pairs {
		if n.pairs[i].key == key {
			return &n.pairs[i]
		}
	}
	return nil
}

// value converts the node to a value of a structured body.
func (n *node) value() schema.Value {
	v := schema.Value{Kind: n.kind, Text: n.text}
	if len(n.items) > 0 {
		v.Items = make([]schema.Value, len(n.items))
		for i := range n.items {
			v.Items[i] = n.items[i].value()
		}
	}
	if len(n.pairs) > 0 {
		v.Pairs = make([]schema.Pair, len(n.pairs))
		for i := range n.pairs {
			v.Pairs[i] = schema.Pair{Key: n.pairs[i].key, Value: n.pairs[i].value.value()}
		}
	}
	return v
}

// find returns the position of the value at the path or, with atKey, of its key. If part of the
// path is missing, find returns the position of the last key that exists.
func (n *node) find(p path, atKey bool) (line, column int32) {
	line, column = n.line, n.column
	for i, step := range p {
		var next *node
		switch step := step.(type) {
		case string:
			if entry := n.get(step); entry != nil {
				next = &entry.value
				line, column = entry.line, entry.column
			}
		case int:
			if step < len(n.items) {
				next = &n.items[step]
			}
		}
		if next == nil {
			return line, column
		}
		n = next
		if i == len(p)-1 && !atKey || i < len(p)-1 && n.kind != schema.Mapping {
			line, column = n.line, n.column
		}
	}
	return line, column
}

// A document is a parsed file.
type document struct {
	text string
	root node
	// body is the YAML mapping in a text body, if the type of the message requires one.
	body *node
}

// place returns the position of a path, which may lead into the text of the body.
func (d *document) place(p path, atKey bool) (line, column int) {
	if d.body != nil && len(p) > 1 && p[0] == "body" {
		l, c := d.body.find(p[1:], atKey)
		return d.inBody(int(l), int(c))
	}
	l, c := d.root.find(p, atKey)
	return int(l), int(c)
}

// inBody converts a position in the text of the body to one in the file. Only the lines of a
// literal block are lines of the file; for other text inBody returns the position of its beginning.
func (d *document) inBody(line, column int) (int, int) {
	entry := d.root.get("body")
	if entry == nil {
		return 1, 1
	}
	body := &entry.value
	if !body.literal || line < 1 {
		return int(body.line), int(body.column)
	}
	at := int(body.line) + line
	source := strings.TrimSuffix(lineOf(d.text, at), "\r")
	indent, ok := strings.CutSuffix(source, lineOf(body.text, line))
	if !ok {
		return at, 1
	}
	return at, column + utf8.RuneCountInString(indent)
}

// lineOf returns the line of the text with the given number, counted from 1.
func lineOf(text string, number int) string {
	for ; number > 1; number-- {
		_, rest, ok := strings.Cut(text, "\n")
		if !ok {
			return ""
		}
		text = rest
	}
	line, _, _ := strings.Cut(text, "\n")
	return line
}
