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
	data []byte
	root hujson.Value
	// newline ends a line of the file, and indent is one step of indentation.
	newline, indent string
}

// An item is a member of an object or an element of an array.
type item struct {
	// name is that of a member.
	name string
	// space is the white space before the item.
	space []byte
	// The item is data[from:to].
	from, to int
	value    *hujson.Value
}

// end is the step of a path that leads behind the last element of an array. The other steps are the
// names of members and the indices of elements.
const end = -1

// parseJSON reads a file. An empty file is an empty object.
func parseJSON(data []byte) (*document, error) {
	d := &document{data: data, newline: lineEnd(data), indent: "  "}
	if len(bytes.TrimSpace(data)) == 0 {
		d.data = []byte("{}" + d.newline)
	}
	var err error
	if d.root, err = hujson.Parse(d.data); err != nil {
		return nil, syntaxError(err)
	}
	if !d.root.IsStandard() {
		return nil, d.notStandard()
	}
	if err := d.checkKind(&d.root, nil, ""); err != nil {
		return nil, err
	}
	if all := items(&d.root); len(all) > 0 {
		if margin, ok := lastLine(all[0].space); ok && margin != "" {
			d.indent = margin
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
	standard := d.root.Clone()
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

// checkKind returns an error if the value at a path has no place for a step.
func (d *document) checkKind(v *hujson.Value, path []any, step any) error {
	kinds := map[hujson.Kind]string{'{': "an object", '[': "an array", '"': "a string", '0': "a number", 't': "true", 'f': "false", 'n': "null"}
	want := hujson.Kind('{')
	if _, ok := step.(int); ok {
		want = '['
	}
	if v.Value.Kind() == want {
		return nil
	}
	what := "the file"
	for i, name := range path {
		if what += "." + fmt.Sprint(name); i == 0 {
			what = fmt.Sprint(name)
		}
	}
	return positioned(d.data, v.StartOffset, fmt.Errorf("%s is %s, want %s", what, kinds[v.Value.Kind()], kinds[want]))
}

// items returns what is in an object or array.
func items(v *hujson.Value) []item {
	var all []item
	switch v := v.Value.(type) {
	case *hujson.Object:
		for i := range v.Members {
			name, value := &v.Members[i].Name, &v.Members[i].Value
			all = append(all, item{name.Value.(hujson.Literal).String(), name.BeforeExtra, name.StartOffset, value.EndOffset, value})
		}
	case *hujson.Array:
		for i := range v.Elements {
			value := &v.Elements[i]
			all = append(all, item{"", value.BeforeExtra, value.StartOffset, value.EndOffset, value})
		}
	}
	return all
}

// indexOf returns the index of the item that a step leads to, or -1. Of several members of one name,
// programs take the last.
func indexOf(all []item, step any) int {
	for i := len(all) - 1; i >= 0; i-- {
		if step == any(i) || step == any(all[i].name) {
			return i
		}
	}
	return -1
}

// find returns the value at a path, or nil.
func (d *document) find(path ...any) *hujson.Value {
	at := &d.root
	for _, step := range path {
		all := items(at)
		i := indexOf(all, step)
		if i < 0 {
			return nil
		}
		at = all[i].value
	}
	return at
}

// elements returns the elements of the array at a path, and none if no array is there.
func (d *document) elements(path ...any) []item {
	if v := d.find(path...); v != nil && v.Value.Kind() == '[' {
		return items(v)
	}
	return nil
}

// set writes content at a path in the style of what is around it, and makes the objects and arrays of
// the path that are missing.
func (d *document) set(content any, path ...any) error {
	// The line of the last bracket of at begins with margin, unless at has no lines of its own.
	at, margin, lines := &d.root, "", true
	for n, step := range path {
		if err := d.checkKind(at, path[:n], step); err != nil {
			return err
		}
		all := items(at)
		if len(all) > 0 {
			var inner string
			if inner, lines = lastLine(all[len(all)-1].space); lines {
				margin = strings.TrimSuffix(inner, d.indent)
			}
		}
		i := indexOf(all, step)
		if i < 0 {
			for _, missing := range slices.Backward(path[n+1:]) {
				content = around(content, missing)
			}
			return d.insert(at, all, step, content, margin, lines)
		}
		at, margin = all[i].value, margin+d.indent
	}
	return d.replace(at.StartOffset, at.EndOffset, d.encode(content, margin, lines))
}

// around returns the object or array that has content at a step.
func around(content, step any) any {
	if name, ok := step.(string); ok {
		return map[string]any{name: content}
	}
	return []any{content}
}

// insert adds an item behind the others of an object or array.
func (d *document) insert(to *hujson.Value, others []item, step, content any, margin string, lines bool) error {
	text, last := d.encode(content, margin+d.indent, lines), len(others)-1
	if name, ok := step.(string); ok {
		colon := ": "
		if !lines {
			colon = ":"
			if last >= 0 {
				colon += string(others[last].value.BeforeExtra)
			}
		}
		text = encode(name, "", "") + colon + text
	}
	if last >= 0 {
		space := string(others[last].space)
		if _, spacious := lastLine(items(&d.root)[0].space); space == "" && spacious {
			space = " "
		}
		return d.replace(others[last].to, others[last].to, ","+space+text)
	}
	if lines {
		text = d.newline + margin + d.indent + text + d.newline + margin
	}
	return d.replace(to.StartOffset+1, to.EndOffset-1, text)
}

// encode writes a value whose last line begins with margin, or all of it in one line.
func (d *document) encode(content any, margin string, lines bool) string {
	if !lines {
		return encode(content, "", "")
	}
	return strings.ReplaceAll(encode(content, margin, d.indent), "\n", d.newline)
}

// encode writes a value as JSON, without the escapes for HTML.
func encode(content any, margin, indent string) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent(margin, indent)
	if err := encoder.Encode(content); err != nil {
		panic(err) // it is one of our own types
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// remove removes the item at a path, and the objects and arrays around it that are empty then.
func (d *document) remove(path ...any) error {
	for n := len(path) - 1; n >= 0; n-- {
		in := d.find(path[:n]...)
		all := items(in)
		i := indexOf(all, path[n])
		var from, to int
		switch {
		case len(all) == 1:
			from, to = in.StartOffset+1, in.EndOffset-1
		case i == 0:
			from, to = all[0].from, all[1].from
		default:
			from, to = all[i-1].to, all[i].to
		}
		if err := d.replace(from, to, ""); err != nil || len(all) > 1 {
			return err
		}
	}
	return nil
}

// replace puts a text in the place of a part of the file.
func (d *document) replace(from, to int, text string) error {
	changed, err := parseJSON(concat(d.data[:from], []byte(text), d.data[to:]))
	if err == nil {
		d.data, d.root = changed.data, changed.root
	}
	return err
}

// decode decodes a value into one of Go.
func (d *document) decode(v *hujson.Value, into any) error {
	return json.Unmarshal(d.data[v.StartOffset:v.EndOffset], into)
}

// equal reports whether a value is the encoded content, apart from white space and order.
func (d *document) equal(v *hujson.Value, content any) bool {
	var got, want any
	return d.decode(v, &got) == nil && json.Unmarshal([]byte(encode(content, "", "")), &want) == nil && reflect.DeepEqual(got, want)
}

// takeJSON returns the file without the items whose paths find returns, one after the other, and nil
// if nothing is left.
func takeJSON(data []byte, find func(*document) (path []any)) ([]byte, error) {
	d, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	path := find(d)
	if path == nil {
		return data, nil
	}
	for ; path != nil; path = find(d) {
		if err := d.remove(path...); err != nil {
			return nil, err
		}
	}
	if len(items(&d.root)) == 0 {
		return nil, nil
	}
	return d.data, nil
}
