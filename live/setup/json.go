package setup

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A document is a JSON file that is changed in places. What is not changed keeps its bytes.
type document struct {
	data []byte
	root value
	// newline ends a line of the file, and indent is one step of indentation.
	newline, indent string
}

// A value is data[from:to] of a document.
type value struct {
	// name is that of a member of an object, and begin where it begins. Other values begin at from.
	name            string
	begin, from, to int
	// items are the members of an object or the elements of an array.
	items []value
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
	if err := json.Unmarshal(d.data, new(json.RawMessage)); err != nil {
		return nil, d.invalid(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(d.data))
	decoder.UseNumber()
	if err := d.read(decoder, &d.root); err != nil {
		return nil, err
	}
	if err := d.checkKind(d.root, nil, ""); err != nil {
		return nil, err
	}
	if len(d.root.items) > 0 {
		if margin, lines := lastLine(d.space(d.root, 0)); lines && margin != "" {
			d.indent = margin
		}
	}
	return d, nil
}

// read reads the next value from a decoder.
func (d *document) read(decoder *json.Decoder, v *value) error {
	v.from = d.next(decoder)
	bracket, err := decoder.Token()
	if err != nil {
		return err
	}
	if _, ok := bracket.(json.Delim); ok {
		for decoder.More() {
			item := value{begin: d.next(decoder)}
			if bracket == json.Delim('{') {
				name, err := decoder.Token()
				if err != nil {
					return err
				}
				item.name = name.(string)
			}
			if err := d.read(decoder, &item); err != nil {
				return err
			}
			v.items = append(v.items, item)
		}
		if _, err := decoder.Token(); err != nil {
			return err
		}
	}
	v.to = int(decoder.InputOffset())
	return nil
}

// next returns where the next name or value of a decoder begins.
func (d *document) next(decoder *json.Decoder) int {
	return len(d.data) - len(bytes.TrimLeft(d.data[decoder.InputOffset():], " \t\r\n,:"))
}

// invalid says where a file is not JSON.
func (d *document) invalid(err error) error {
	at := len(d.data)
	if problem, ok := errors.AsType[*json.SyntaxError](err); ok && !strings.HasPrefix(err.Error(), "unexpected end") {
		at = int(problem.Offset) - 1
		before := bytes.TrimSpace(d.data[:at])
		switch c := d.data[at]; {
		case c == '/':
			err = errors.New("a comment is not JSON")
		case (c == '}' || c == ']') && bytes.HasSuffix(before, []byte(",")):
			at, err = bytes.LastIndexByte(d.data[:at], ','), errors.New("a comma without a value after it is not JSON")
		}
	}
	return positioned(d.data, at, err)
}

// positioned adds the line and column of an offset to an error.
func positioned(data []byte, offset int, err error) error {
	before := data[:offset]
	return atPosition(bytes.Count(before, []byte("\n"))+1, offset-bytes.LastIndexByte(before, '\n'), err)
}

// lineEnd returns how the lines of a file end.
func lineEnd(data []byte) string {
	if at := bytes.IndexByte(data, '\n'); at > 0 && data[at-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// lastLine returns the last line of a text, and whether it has several lines.
func lastLine(text []byte) (line string, ok bool) {
	at := bytes.LastIndexByte(text, '\n')
	return string(text[at+1:]), at >= 0
}

// checkKind returns an error if the value at a path has no place for a step.
func (d *document) checkKind(v value, path []any, step any) error {
	kinds := map[byte]string{'{': "an object", '[': "an array", '"': "a string", 't': "true", 'f': "false", 'n': "null"}
	kind, want, what := d.data[v.from], byte('{'), "the file"
	if _, ok := step.(int); ok {
		want = '['
	}
	if kind == want {
		return nil
	}
	for i, name := range path {
		if what += "." + fmt.Sprint(name); i == 0 {
			what = fmt.Sprint(name)
		}
	}
	return positioned(d.data, v.from, fmt.Errorf("%s is %s, want %s", what, cmp.Or(kinds[kind], "a number"), kinds[want]))
}

// space returns the white space before an item.
func (d *document) space(v value, item int) []byte {
	from := v.from + 1
	if item > 0 {
		from = v.items[item-1].to
	}
	before := d.data[from:v.items[item].begin]
	return before[bytes.LastIndexByte(before, ',')+1:]
}

// index returns the index of the item that a step leads to, or -1. Of several members of one name,
// programs take the last.
func (v value) index(step any) int {
	for i := len(v.items) - 1; i >= 0; i-- {
		if step == any(i) || step == any(v.items[i].name) {
			return i
		}
	}
	return -1
}

// find returns the value at a path, and whether there is one.
func (d *document) find(path ...any) (v value, ok bool) {
	v = d.root
	for _, step := range path {
		i := v.index(step)
		if i < 0 {
			return value{}, false
		}
		v = v.items[i]
	}
	return v, true
}

// elements returns the elements of the array at a path, and none if no array is there.
func (d *document) elements(path ...any) []value {
	if v, ok := d.find(path...); ok && d.data[v.from] == '[' {
		return v.items
	}
	return nil
}

// set writes content at a path, and makes the objects and arrays of the path that are missing.
func (d *document) set(content any, path ...any) error {
	at := d.root
	for n, step := range path {
		if err := d.checkKind(at, path[:n], step); err != nil {
			return err
		}
		i := at.index(step)
		if i < 0 {
			for _, missing := range slices.Backward(path[n+1:]) {
				content = around(content, missing)
			}
			return d.insert(at, n, step, content)
		}
		at = at.items[i]
	}
	return d.replace(at.from, at.to, d.encode(content, d.data[at.from:at.to]))
}

// around returns the object or array that has content at a step.
func around(content, step any) any {
	if name, ok := step.(string); ok {
		return map[string]any{name: content}
	}
	return []any{content}
}

// insert adds an item to an object or array, in the style of the last one.
func (d *document) insert(to value, depth int, step, content any) error {
	name := ""
	if text, ok := step.(string); ok {
		name = encode(text, "", "") + ": "
	}
	last := len(to.items) - 1
	if last < 0 {
		margin := d.newline + strings.Repeat(d.indent, depth)
		return d.replace(to.from+1, to.to-1, margin+d.indent+name+d.encode(content, []byte(margin+d.indent))+margin)
	}
	space, at := d.space(to, last), to.items[last].to
	return d.replace(at, at, ","+cmp.Or(string(space), " ")+name+d.encode(content, space))
}

// encode writes a value in lines that begin like the last one of a text, or in one line if that has no
// several.
func (d *document) encode(content any, like []byte) string {
	last, lines := lastLine(like)
	if !lines {
		return encode(content, "", "")
	}
	margin := last[:len(last)-len(strings.TrimLeft(last, " \t"))]
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
		in, _ := d.find(path[:n]...)
		i := in.index(path[n])
		var from, to int
		switch {
		case len(in.items) == 1:
			from, to = in.from+1, in.to-1
		case i == 0:
			from, to = in.items[0].begin, in.items[1].begin
		default:
			from, to = in.items[i-1].to, in.items[i].to
		}
		if err := d.replace(from, to, ""); err != nil || len(in.items) > 1 {
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
func (d *document) decode(v value, into any) error { return json.Unmarshal(d.data[v.from:v.to], into) }

// equal reports whether a value is the encoded content, apart from white space and order.
func (d *document) equal(v value, content any) bool {
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
	if len(d.root.items) == 0 {
		return nil, nil
	}
	return d.data, nil
}
