package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// A document is a JSON file that is changed in places. What is not changed keeps its bytes.
type document struct {
	data  []byte
	value hujson.Value
	// style says how the file is written.
	style style
}

// A style is how a file is written: the end of its lines, and one step of indentation.
type style struct{ newline, indent string }

// A place is an object or array that may get another member or element.
type place struct {
	value *hujson.Value
	// margin stands before a line of the value's last bracket.
	margin string
	// compact says that the value has no lines of its own.
	compact bool
}

// parseJSON reads a file. An empty file is an empty object.
func parseJSON(data []byte) (*document, error) {
	d := &document{data: data, style: style{lineEnd(data), "  "}}
	if len(bytes.TrimSpace(data)) == 0 {
		d.data = []byte("{}" + d.style.newline)
	}
	value, err := hujson.Parse(slices.Clone(d.data))
	if err != nil {
		return nil, syntaxError(err)
	}
	d.value = value
	if !value.IsStandard() {
		return nil, d.notStandard()
	}
	root, ok := value.Value.(*hujson.Object)
	if !ok {
		return nil, d.wrongType(&value, "the file", "an object")
	}
	if len(root.Members) > 0 {
		if margin, ok := lastLine(root.Members[0].Name.BeforeExtra); ok && margin != "" {
			d.style.indent = margin
		}
	}
	return d, nil
}

// lineEnd returns how the lines of a file end.
func lineEnd(data []byte) string {
	if at := bytes.IndexByte(data, '\n'); at > 0 && data[at-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// lastLine returns the last line of white space, and whether it has several lines.
func lastLine(space []byte) (margin string, ok bool) {
	at := bytes.LastIndexByte(space, '\n')
	return string(space[at+1:]), at >= 0
}

// notStandard returns an error that says where the first comment or trailing comma is.
func (d *document) notStandard() error {
	standard := d.value.Clone()
	standard.Standardize() // which keeps the length
	packed := standard.Pack()
	at := 0
	for at < len(packed) && at < len(d.data) && packed[at] == d.data[at] {
		at++
	}
	what := "a comma without a value after it"
	if at < len(d.data) && d.data[at] == '/' {
		what = "a comment"
	}
	return positioned(d.data, at, fmt.Errorf("%s is not JSON", what))
}

// syntaxError turns the error of the parser, which begins with line and column, into ours.
func syntaxError(err error) error {
	var line, column int
	text := err.Error()
	if _, scanErr := fmt.Sscanf(text, "hujson: line %d, column %d:", &line, &column); scanErr == nil {
		_, text, _ = strings.Cut(text, ": ")
		_, text, _ = strings.Cut(text, ": ")
		return &PositionError{Line: line, Column: column, Err: errors.New(text)}
	}
	return err
}

// positioned adds the line and column of an offset to an error.
func positioned(data []byte, offset int, err error) error {
	before := data[:max(0, min(offset, len(data)))]
	return &PositionError{
		Line: bytes.Count(before, []byte("\n")) + 1, Column: len(before) - bytes.LastIndexByte(before, '\n'), Err: err,
	}
}

func (d *document) wrongType(v *hujson.Value, what, want string) error {
	kinds := map[hujson.Kind]string{'{': "an object", '[': "an array", '"': "a string", '0': "a number", 't': "true", 'f': "false", 'n': "null"}
	return positioned(d.data, v.StartOffset, fmt.Errorf("%s is %s, want %s", what, kinds[v.Value.Kind()], want))
}

func (d *document) root() place { return d.at(&d.value, "", false) }

// at returns the place of a value, given those of the value around it.
func (d *document) at(v *hujson.Value, margin string, compact bool) place {
	p := place{v, margin, compact}
	if space, ok := lastSpace(v.Value); ok {
		inner, lines := lastLine(space)
		p.compact = !lines
		if lines {
			p.margin = strings.TrimSuffix(inner, d.style.indent)
		}
	}
	return p
}

// lastSpace returns the white space before the last member or element, if there is one.
func lastSpace(v hujson.ValueTrimmed) (space []byte, ok bool) {
	switch v := v.(type) {
	case *hujson.Object:
		if n := len(v.Members); n > 0 {
			return v.Members[n-1].Name.BeforeExtra, true
		}
	case *hujson.Array:
		if n := len(v.Elements); n > 0 {
			return v.Elements[n-1].BeforeExtra, true
		}
	}
	return nil, false
}

// member returns the last member of the name, or nil.
func member(object *hujson.Object, name string) *hujson.Value {
	for i := len(object.Members) - 1; i >= 0; i-- {
		if nameOf(object.Members[i]) == name {
			return &object.Members[i].Value
		}
	}
	return nil
}

func nameOf(m hujson.ObjectMember) string {
	name, _ := m.Name.Value.(hujson.Literal)
	return name.String()
}

// find follows names of members down from the root. It returns nil if one is missing.
func (d *document) find(path ...string) (*hujson.Value, error) {
	at := &d.value
	for i, name := range path {
		object, ok := at.Value.(*hujson.Object)
		if !ok {
			return nil, d.wrongType(at, strings.Join(path[:i], "."), "an object")
		}
		if at = member(object, name); at == nil {
			return nil, nil
		}
	}
	return at, nil
}

// object is find for an object, which it makes if it is missing.
func (d *document) object(path ...string) (place, error) { return d.container(hujson.Kind('{'), path) }

// array is find for an array, which it makes if it is missing.
func (d *document) array(path ...string) (place, error) { return d.container(hujson.Kind('['), path) }

func (d *document) container(kind hujson.Kind, path []string) (place, error) {
	at := d.root()
	for i, name := range path {
		object := at.value.Value.(*hujson.Object)
		want, words := hujson.Kind('{'), "an object"
		if i == len(path)-1 && kind == '[' {
			want, words = kind, "an array"
		}
		below := member(object, name)
		if below == nil {
			empty := "{}"
			if want == '[' {
				empty = "[]"
			}
			d.insert(at, name, json.RawMessage(empty))
			below = member(object, name)
		}
		if below.Value.Kind() != want {
			return place{}, d.wrongType(below, strings.Join(path[:i+1], "."), words)
		}
		at = d.at(below, at.margin+d.style.indent, at.compact)
	}
	return at, nil
}

// insert adds a member to an object, or an element to an array, where the name does not count.
func (d *document) insert(to place, name string, content any) {
	before := hujson.Extra(d.style.newline + to.margin + d.style.indent)
	if space, ok := lastSpace(to.value.Value); ok {
		if before = slices.Clone(space); len(space) == 0 && !d.root().compact {
			before = hujson.Extra(" ")
		}
	}
	var last *hujson.Extra
	value := d.compose(to, content)
	switch at := to.value.Value.(type) {
	case *hujson.Object:
		key := hujson.Value{BeforeExtra: before, Value: hujson.String(name)}
		if value.BeforeExtra = hujson.Extra(" "); to.compact {
			key.BeforeExtra, value.BeforeExtra = nil, nil
			if n := len(at.Members); n > 0 {
				key.BeforeExtra = slices.Clone(before)
				value.BeforeExtra = slices.Clone(at.Members[n-1].Value.BeforeExtra)
			}
		}
		if len(at.Members) == 0 {
			last = &at.AfterExtra
		}
		at.Members = append(at.Members, hujson.ObjectMember{Name: key, Value: value})
	case *hujson.Array:
		if value.BeforeExtra = before; to.compact && len(at.Elements) == 0 {
			value.BeforeExtra = nil
		}
		if len(at.Elements) == 0 {
			last = &at.AfterExtra
		}
		at.Elements = append(at.Elements, value)
	}
	if last != nil && !to.compact {
		*last = hujson.Extra(d.style.newline + to.margin)
	}
}

// compose writes a value for a place in the style of the file.
func (d *document) compose(to place, content any) hujson.Value {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if !to.compact {
		encoder.SetIndent(to.margin+d.style.indent, d.style.indent)
	}
	if err := encoder.Encode(content); err != nil {
		panic(err) // it is one of our own types
	}
	written := strings.ReplaceAll(strings.TrimSuffix(text.String(), "\n"), "\n", d.style.newline)
	value, err := hujson.Parse([]byte(written))
	if err != nil {
		panic(err) // the encoder wrote it
	}
	return value
}

// replace puts another value in the place of one.
func (d *document) replace(old *hujson.Value, in place, content any) {
	old.Value = d.compose(in, content).Value
}

// removeMembers removes the members that match, and reports whether there were any.
func removeMembers(object *hujson.Object, matches func(name string, v *hujson.Value) bool) bool {
	count := len(object.Members)
	object.Members = slices.DeleteFunc(object.Members, func(m hujson.ObjectMember) bool { return matches(nameOf(m), &m.Value) })
	if n := len(object.Members); n > 0 {
		object.Members[n-1].Value.AfterExtra = withoutComma(object.Members[n-1].Value.AfterExtra, &object.AfterExtra)
	} else if count > 0 {
		object.AfterExtra = nil
	}
	return len(object.Members) < count
}

// removeElements is removeMembers for an array.
func removeElements(array *hujson.Array, matches func(*hujson.Value) bool) bool {
	count := len(array.Elements)
	array.Elements = slices.DeleteFunc(array.Elements, func(v hujson.Value) bool { return matches(&v) })
	if n := len(array.Elements); n > 0 {
		array.Elements[n-1].AfterExtra = withoutComma(array.Elements[n-1].AfterExtra, &array.AfterExtra)
	} else if count > 0 {
		array.AfterExtra = nil
	}
	return len(array.Elements) < count
}

// withoutComma returns what stands after a value that has become the last one: nothing, since
// anything there would be written with a comma.
func withoutComma(after hujson.Extra, end *hujson.Extra) hujson.Extra {
	if len(after) > 0 {
		*end = append(slices.Clone(after), *end...)
	}
	return nil
}

// isEmpty reports whether the value is an object or array with nothing in it.
func isEmpty(v *hujson.Value) bool {
	switch v := v.Value.(type) {
	case *hujson.Object:
		return len(v.Members) == 0
	case *hujson.Array:
		return len(v.Elements) == 0
	}
	return false
}

// decode decodes a value into one of Go.
func decode(v *hujson.Value, into any) error {
	plain := v.Clone()
	plain.Minimize()
	return json.Unmarshal(plain.Pack(), into)
}

// equal reports whether a value is what the encoder writes for the content, apart from white space and order.
func equal(v *hujson.Value, content any) bool {
	written, err := json.Marshal(content)
	var got, want any
	return err == nil && decode(v, &got) == nil && json.Unmarshal(written, &want) == nil && reflect.DeepEqual(got, want)
}

// bytes returns the file, or nil if nothing is left in it.
func (d *document) bytes() []byte {
	if isEmpty(&d.value) {
		return nil
	}
	return d.value.Pack()
}

// prune removes the value at a path if it is empty, and then those around it that are empty.
func (d *document) prune(path ...string) {
	for n := len(path); n > 0; n-- {
		v, err := d.find(path[:n-1]...)
		if err != nil || v == nil {
			return
		}
		removeMembers(v.Value.(*hujson.Object), func(name string, v *hujson.Value) bool { return name == path[n-1] && isEmpty(v) })
	}
}
