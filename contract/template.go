package contract

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/schema"
)

// Bounds of a skeleton. A schema may refer to itself.
const (
	templateDepth = 8
	templateLines = 500
	templateParts = 2000
)

// Template returns a YAML body to fill in, for a schema that can be applied: its fields in their order,
// those that it does not demand as comments, and what it says about each.
func (s *Schemas) Template(name string) ([]byte, error) {
	if _, ok := s.files[name+Suffix]; !ok {
		return nil, fmt.Errorf("there is no schema %q", name)
	}
	t := templater{files: make(map[string]schema.Value)}
	for file, text := range s.files {
		var document schema.Value
		err := json.Unmarshal([]byte(text), &document)
		if err != nil && file == name+Suffix {
			return nil, fmt.Errorf("%s: %w", filepath.Join(s.dir, Folder, file), err)
		}
		t.files[file] = document // a neighbour that is not JSON says nothing
	}
	root := t.resolve(part{file: name + Suffix, value: t.files[name+Suffix]}, 0)
	t.comment(0, false, root.get("title").Text)
	t.comment(0, false, root.get("description").Text)
	if fields := t.fields(root, 0); len(fields) > 0 {
		t.mapping(fields, 0, 0, false)
	} else {
		t.comment(0, false, "The schema names no fields.")
	}
	return []byte(strings.Join(t.lines, "\n") + "\n"), nil
}

// A part is a schema in a file.
type part struct {
	file  string
	value schema.Value
	// parts are the schemas that apply with it, in their order.
	parts []part
}

// get returns the first value that the schema or one that applies with it has for the keyword.
func (p part) get(keyword string) schema.Value {
	if v := p.value.Get(keyword); v.Kind != schema.Absent {
		return v
	}
	for _, other := range p.parts {
		if v := other.get(keyword); v.Kind != schema.Absent {
			return v
		}
	}
	return schema.Value{}
}

// A templater collects the lines of a skeleton.
type templater struct {
	files map[string]schema.Value
	lines []string
	// parts is how many schemas were resolved.
	parts int
}

// resolve finds the schemas that apply together with one: those that it refers to, all of allOf, and
// the first of anyOf and oneOf.
func (t *templater) resolve(p part, depth int) part {
	if t.parts++; depth > templateDepth || t.parts > templateParts {
		return p
	}
	if target, ok := t.target(p); ok {
		p.parts = append(p.parts, t.resolve(target, depth+1))
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		for i, item := range p.value.Get(keyword).Items {
			if i == 0 || keyword == "allOf" {
				p.parts = append(p.parts, t.resolve(part{file: p.file, value: item}, depth+1))
			}
		}
	}
	return p
}

// target returns what a $ref means: a value in the file or in one beside it.
func (t *templater) target(p part) (part, bool) {
	address, fragment, _ := strings.Cut(p.value.Get("$ref").Text, "#")
	file := p.file
	if address != "" {
		file = path.Base(address)
	} else if fragment == "" {
		return part{}, false
	}
	v, ok := t.files[file]
	for _, step := range strings.Split(fragment, "/")[1:] {
		v = v.Get(strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
	}
	return part{file: file, value: v}, ok && v.Kind == schema.Mapping
}

// A field is a property of a schema.
type field struct {
	name     string
	required bool
	schema   part
}

// fields returns the properties of a schema and of those that apply with it.
func (t *templater) fields(p part, depth int) (fields []field) {
	at := func(name string) int { return slices.IndexFunc(fields, func(f field) bool { return f.name == name }) }
	var required []schema.Value
	var collect func(part)
	collect = func(p part) {
		required = append(required, p.value.Get("required").Items...)
		for _, property := range p.value.Get("properties").Pairs {
			if at(property.Key) < 0 {
				resolved := t.resolve(part{file: p.file, value: property.Value}, depth)
				fields = append(fields, field{name: property.Key, schema: resolved})
			}
		}
		for _, other := range p.parts {
			collect(other)
		}
	}
	collect(p)
	for _, name := range required {
		if i := at(name.Text); i >= 0 {
			fields[i].required = true
		} else {
			fields = append(fields, field{name: name.Text, required: true})
		}
	}
	return fields
}

// line adds a line, as a comment if it is off.
func (t *templater) line(indent int, off bool, text string) {
	if len(t.lines) >= templateLines {
		return
	}
	mark := ""
	if off {
		mark = "# "
	}
	t.lines = append(t.lines, mark+strings.Repeat(" ", indent)+text)
}

// comment adds a text that explains what follows.
func (t *templater) comment(indent int, off bool, text string) {
	if text = strings.Join(strings.Fields(text), " "); text != "" {
		t.line(indent, off, "# "+text)
	}
}

// mapping adds the fields of a mapping. If none is required, the first one stands for all, because a
// mapping is not empty.
func (t *templater) mapping(fields []field, indent, depth int, off bool) {
	noneRequired := !slices.ContainsFunc(fields, func(f field) bool { return f.required })
	for i, f := range fields {
		off := off || !f.required && !(noneRequired && i == 0)
		t.comment(indent, off, cmp.Or(f.schema.get("description").Text, f.schema.get("title").Text))
		t.value(quoteYAML(f.name)+":", f.schema, indent, depth, off)
	}
}

// value adds a value behind what introduces it: a key or the dash of a list.
func (t *templater) value(before string, p part, indent, depth int, off bool) {
	if choices := p.get("enum").Items; len(choices) > 0 {
		var texts []string
		for _, choice := range choices {
			texts = append(texts, quoteYAML(choice.Text))
		}
		before += " " + texts[0]
		t.line(indent, off, before+"  # "+strings.Join(texts, ", "))
		return
	}
	inner := t.fields(p, depth)
	switch kind := kindOf(p); {
	case depth >= templateDepth:
		t.line(indent, off, before)
	case len(inner) > 0 || kind == "object":
		t.line(indent, off, before)
		t.mapping(inner, indent+2, depth+1, off)
	case kind == "array":
		items := t.resolve(part{file: p.file, value: p.get("items")}, depth)
		t.line(indent, off, before)
		t.value("-", items, indent+2, depth+1, off)
	default:
		t.line(indent, off, before+" "+sample(p, kind))
	}
}

func kindOf(p part) string {
	kind := p.get("type")
	if kind.Kind == schema.List && len(kind.Items) > 0 {
		return kind.Items[0].Text
	}
	return kind.Text
}

// sample returns a value to be replaced: the constant, the default or an example of the schema, or
// what says which kind is wanted.
func sample(p part, kind string) string {
	values := append([]schema.Value{p.get("const"), p.get("default")}, p.get("examples").Items...)
	for _, v := range values {
		if v.Kind == schema.Text {
			return quoteYAML(v.Text)
		}
	}
	switch kind {
	case "integer", "number":
		return cmp.Or(p.get("minimum").Text, "0")
	case "boolean":
		return "false"
	}
	return `""`
}

// quoteYAML writes a text so that YAML reads it back.
func quoteYAML(text string) string {
	plain := text != "" && text != "null" && strings.IndexFunc(text, func(r rune) bool {
		letter := 'a' <= r|0x20 && r|0x20 <= 'z'
		return !letter && (r < '0' || r > '9') && !strings.ContainsRune("_./", r)
	}) < 0
	if plain {
		return text
	}
	quoted, _ := json.Marshal(text) // a text can be written
	return string(quoted)
}
