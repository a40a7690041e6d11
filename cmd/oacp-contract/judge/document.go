package judge

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxSchemaDepth is how deep a schema may nest.
const maxSchemaDepth = 200

// A node is a value in a JSON text.
type node struct {
	// value is what encoding/json decodes, with numbers as json.Number.
	value any
	// offset is the number of bytes before it.
	offset  int
	members map[string]*node
	items   []*node
}

// A textError says what is wrong with a JSON text, at an offset.
type textError struct {
	offset  int
	message string
}

func (e *textError) Error() string { return e.message }

// parse decodes a JSON text. It returns a *textError for text that is not JSON, nests too deep, repeats
// a key, or holds a number that the schema library could not compute with.
func parse(text string) (*node, error) {
	var whole json.RawMessage
	if syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal([]byte(text), &whole)); ok {
		at := max(0, int(syntax.Offset)-1)
		if int(syntax.Offset) == len(text) && strings.Contains(syntax.Error(), "end of JSON") {
			at = len(text)
		}
		return nil, &textError{at, "this is not JSON: " + syntax.Error()}
	}
	p := parser{text: text, decoder: json.NewDecoder(strings.NewReader(text))}
	p.decoder.UseNumber()
	return p.parse(maxSchemaDepth)
}

type parser struct {
	text    string
	decoder *json.Decoder
}

// next returns the offset of the next token.
func (p *parser) next() int {
	return len(p.text) - len(strings.TrimLeft(p.text[p.decoder.InputOffset():], " \t\r\n,:"))
}

func (p *parser) parse(depth int) (*node, error) {
	n := &node{offset: p.next()}
	if depth == 0 {
		return nil, &textError{n.offset, fmt.Sprintf("values nest deeper than %d", maxSchemaDepth)}
	}
	token, err := p.decoder.Token()
	if err != nil {
		return nil, &textError{n.offset, err.Error()}
	}
	switch n.value = token; token := token.(type) {
	case json.Number:
		if !isNumber(token.String()) {
			return nil, &textError{n.offset, "the number is too large or too long"}
		}
		return n, nil
	case json.Delim:
		if token == '{' {
			err = p.members(n, depth)
		} else {
			err = p.items(n, depth)
		}
	default:
		return n, nil
	}
	if err == nil {
		_, err = p.decoder.Token() // the bracket that closes it
	}
	return n, err
}

func (p *parser) members(n *node, depth int) error {
	values := make(map[string]any)
	n.value, n.members = values, make(map[string]*node)
	for p.decoder.More() {
		offset := p.next()
		token, err := p.decoder.Token()
		if err != nil {
			return &textError{offset, err.Error()}
		}
		key, _ := token.(string) // the decoder accepts no other key
		if n.members[key] != nil {
			return &textError{offset, fmt.Sprintf("the key %.60q is repeated", key)}
		}
		member, err := p.parse(depth - 1)
		if err != nil {
			return err
		}
		n.members[key], values[key] = member, member.value
	}
	return nil
}

func (p *parser) items(n *node, depth int) error {
	values := []any{}
	for p.decoder.More() {
		item, err := p.parse(depth - 1)
		if err != nil {
			return err
		}
		n.items, values = append(n.items, item), append(values, item.value)
	}
	n.value = values
	return nil
}

// find returns the offset of the value that the keys and indexes lead to or, where there is no such
// value, of the last one on the way. A nil node is at 0.
func (n *node) find(at []string) int {
	if n == nil {
		return 0
	}
	for _, step := range at {
		next := n.members[step]
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.items) {
			next = n.items[i]
		}
		if next == nil {
			break
		}
		n = next
	}
	return n.offset
}

// position returns the line and column of an offset, counted from 1, in characters.
func position(text string, offset int) (line, column int) {
	before := text[:min(offset, len(text))]
	last := strings.LastIndexByte(before, '\n')
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[last+1:]) + 1
}

var referring = []string{"$ref", "$dynamicRef", "$recursiveRef", "$schema"}

// reference returns the offset of the first reference that may be what led to an address, or -1.
func (n *node) reference(address string) int {
	first := -1
	found := func(offset int) {
		if offset >= 0 && (first < 0 || offset < first) {
			first = offset
		}
	}
	for key, member := range n.members {
		if text, ok := member.value.(string); ok && slices.Contains(referring, key) && means(text, address) {
			found(member.offset)
		}
		found(member.reference(address))
	}
	for _, item := range n.items {
		found(item.reference(address))
	}
	return first
}

// means reports whether a reference may be what led to an address, which ends with the reference
// without the steps at its beginning.
func means(reference, address string) bool {
	if !strings.Contains(address, "#") {
		reference, _, _ = strings.Cut(reference, "#")
	}
	reference = strings.TrimLeft(reference, "./")
	return reference != "" && strings.HasSuffix(address, reference)
}
