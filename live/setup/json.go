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
	// newline ends a line of the file, and indent is one step of indentation.
	newline, indent string
}

// A value is data[from:to] of a document. If it is a member of an object, that begins with its name at
// begin, else begin is from.
type value struct {
	name            string
	begin, from, to int
}

// byteOrderMark may begin a file.
const byteOrderMark = "\ufeff"

// end is the step of a path that leads behind the last element of an array. The other steps are the
// names of members and the indices of elements.
const end = -1

// parseJSON reads a file. An empty file is an empty object.
func parseJSON(data []byte) (*document, error) {
	d := &document{data: data, newline: lineEnd(data), indent: "  "}
	if len(bytes.TrimSpace(data)) == 0 {
		d.data = []byte("{}" + d.newline)
	}
	// It keeps the place of what follows, as far as errors say it.
	if err := json.Unmarshal(bytes.Replace(d.data, []byte(byteOrderMark), []byte("   "), 1), new(json.RawMessage)); err != nil {
		return nil, d.syntaxError(err)
	}
	if err := d.checkKind(d.root(), nil, ""); err != nil {
		return nil, err
	}
	if all := d.items(d.root()); len(all) > 0 {
		if margin, lines := lastLine(d.space(d.root(), all[:1])); lines && margin != "" {
			d.indent = margin
		}
	}
	return d, nil
}

func (d *document) root() value {
	from := len(d.data) - len(bytes.TrimLeft(d.data, " \t\r\n"+byteOrderMark))
	return value{begin: from, from: from, to: len(bytes.TrimRight(d.data, " \t\r\n"))}
}

// items returns the members of an object or the elements of an array. There are no errors: parseJSON has checked the
// file.
func (d *document) items(v value) (all []value) {
	bracket := d.data[v.from]
	if bracket != '{' && bracket != '[' {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(d.data[v.from:v.to]))
	at := func() int { return v.from + int(decoder.InputOffset()) }
	_, _ = decoder.Token()
	for decoder.More() {
		var item value
		if bracket == '{' {
			item.begin = at() + bytes.IndexByte(d.data[at():], '"')
			name, _ := decoder.Token()
			item.name, _ = name.(string)
		}
		var raw json.RawMessage
		_ = decoder.Decode(&raw)
		item.from, item.to = at()-len(raw), at()
		if bracket == '[' {
			item.begin = item.from
		}
		all = append(all, item)
	}
	return all
}

// syntaxError says where a file is not JSON.
func (d *document) syntaxError(err error) error {
	at, problem := len(d.data), err.Error()
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && !strings.HasPrefix(problem, "unexpected end") {
		at = int(syntax.Offset) - 1
		before := bytes.TrimSpace(d.data[:at])
		switch c := d.data[at]; {
		case c == '/':
			problem = "a comment is not JSON"
		case (c == '}' || c == ']') && bytes.HasSuffix(before, []byte(",")):
			at, problem = len(before)-1, "a comma without a value after it is not JSON"
		}
	}
	return invalid(d.data, at, problem)
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
	return invalid(d.data, v.from, fmt.Sprintf("%s is %s, want %s", what, cmp.Or(kinds[kind], "a number"), kinds[want]))
}

// space returns the white space before the last of the first items of a value.
func (d *document) space(v value, items []value) []byte {
	last := len(items) - 1
	from := v.from + 1
	if last > 0 {
		from = items[last-1].to
	}
	before := d.data[from:items[last].begin]
	return before[bytes.LastIndexByte(before, ',')+1:]
}

// index returns which of the items a step leads to, or -1. Of several members of one name, programs take
// the last.
func index(items []value, step any) int {
	for i := len(items) - 1; i >= 0; i-- {
		if step == any(i) || step == any(items[i].name) {
			return i
		}
	}
	return -1
}

// find returns the value at a path, and whether there is one.
func (d *document) find(path ...any) (v value, ok bool) {
	v = d.root()
	for _, step := range path {
		all := d.items(v)
		i := index(all, step)
		if i < 0 {
			return value{}, false
		}
		v = all[i]
	}
	return v, true
}

// elements returns the elements of the array at a path, and none if no array is there.
func (d *document) elements(path ...any) []value {
	if v, ok := d.find(path...); ok && d.data[v.from] == '[' {
		return d.items(v)
	}
	return nil
}

// set writes content at a path, and makes the objects and arrays of the path that are missing.
func (d *document) set(content any, path ...any) error {
	at := d.root()
	for n, step := range path {
		if err := d.checkKind(at, path[:n], step); err != nil {
			return err
		}
		all := d.items(at)
		i := index(all, step)
		if i < 0 {
			for _, missing := range slices.Backward(path[n+1:]) {
				content = around(content, missing)
			}
			d.insert(at, all, n, step, content)
			return nil
		}
		at = all[i]
	}
	d.replace(at.from, at.to, d.encode(content, d.data[at.from:at.to]))
	return nil
}

// around returns the object or array that has content at a step.
func around(content, step any) any {
	if name, ok := step.(string); ok {
		return map[string]any{name: content}
	}
	return []any{content}
}

// insert adds an item to those of an object or array, in the style of the last one.
func (d *document) insert(to value, items []value, depth int, step, content any) {
	name := ""
	if text, ok := step.(string); ok {
		name = encode(text, "", "") + ": "
	}
	if len(items) == 0 {
		margin := d.newline + strings.Repeat(d.indent, depth)
		d.replace(to.from+1, to.to-1, margin+d.indent+name+d.encode(content, []byte(margin+d.indent))+margin)
		return
	}
	space, at := d.space(to, items), items[len(items)-1].to
	d.replace(at, at, ","+cmp.Or(string(space), " ")+name+d.encode(content, space))
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
func (d *document) remove(path ...any) {
	for n := len(path) - 1; n >= 0; n-- {
		in, _ := d.find(path[:n]...)
		all := d.items(in)
		switch i := index(all, path[n]); {
		case len(all) == 1:
			d.replace(in.from+1, in.to-1, "")
			continue
		case i == 0:
			d.replace(all[0].begin, all[1].begin, "")
		default:
			d.replace(all[i-1].to, all[i].to, "")
		}
		return
	}
}

// replace puts a text in the place of a part of the file.
func (d *document) replace(from, to int, text string) {
	d.data = concat(d.data[:from], []byte(text), d.data[to:])
}

// decode decodes a value into one of Go.
func (d *document) decode(v value, into any) error { return json.Unmarshal(d.data[v.from:v.to], into) }

// equal reports whether a value is the encoded content, apart from white space and order.
func (d *document) equal(v value, content any) bool {
	var got, want any
	return d.decode(v, &got) == nil && json.Unmarshal([]byte(encode(content, "", "")), &want) == nil && reflect.DeepEqual(got, want)
}
