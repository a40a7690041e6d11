package contract

import (
	"cmp"
	"encoding/json"
	"errors"
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

// ErrNoTemplate is returned for a name that neither oacp nor the workspace has a schema for.
var ErrNoTemplate = errors.New("there is no such schema")

// TemplateNames returns the names for Template: types whose bodies oacp knows, and the names of a
// workspace's schemas, which may repeat them.
func TemplateNames(own []string) []string {
	names := slices.DeleteFunc(schema.DocumentNames(), func(name string) bool { return name == schema.MessageDocument })
	return slices.Compact(slices.Sorted(slices.Values(append(names, own...))))
}

// Template returns a YAML body to fill in, made from the fields that oacp knows for a type and the schema
// of the workspace: the fields in their order, optional ones as comments, each with its description.
// Required values are empty, so that the body is refused until they are filled in.
func (s *Schemas) Template(name string) ([]byte, error) {
	t := templater{files: make(map[string]schema.Value)}
	for file, text := range s.files {
		var document schema.Value
		err := json.Unmarshal([]byte(text), &document)
		if err != nil && file == name+Suffix {
			return nil, fmt.Errorf("%s: %w", filepath.Join(s.dir, Folder, file), err)
		}
		t.files[file] = document // a neighbour that is not JSON says nothing
	}
	var root []part
	if text, err := schema.Document(name); err == nil && name != schema.MessageDocument {
		var document schema.Value
		if err := json.Unmarshal(text, &document); err != nil {
			return nil, fmt.Errorf("the schema of oacp for %s: %w", name, err)
		}
		root = append(root, part{value: document})
	}
	if document, ok := t.files[name+Suffix]; ok {
		root = append(root, t.resolve(part{file: name + Suffix, value: document}, 0)...)
	}
	if len(root) == 0 {
		return nil, fmt.Errorf("%q: %w", name, ErrNoTemplate)
	}
	t.comment(0, false, get(root, "title").Text)
	t.comment(0, false, get(root, "description").Text)
	if len(t.lines) > 0 {
		t.line(0, false, "")
	}
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
}

// get returns the first value that one of the schemas has for the keyword.
func get(parts []part, keyword string) schema.Value {
	for _, p := range parts {
		if v := p.value.Get(keyword); v.Kind != schema.Absent {
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

// resolve returns a schema and those that apply together with it: those that it refers to, all of allOf,
// and the first of anyOf and oneOf.
func (t *templater) resolve(p part, depth int) []part {
	all := []part{p}
	if t.parts++; depth > templateDepth || t.parts > templateParts {
		return all
	}
	if target, ok := t.target(p); ok {
		all = append(all, t.resolve(target, depth+1)...)
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		for i, item := range p.value.Get(keyword).Items {
			if i == 0 || keyword == "allOf" {
				all = append(all, t.resolve(part{file: p.file, value: item}, depth+1)...)
			}
		}
	}
	return all
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

// A field is a property, with the schemas that apply to it.
type field struct {
	name     string
	required bool
	schemas  []part
}

// fields returns the properties of schemas that apply together.
func (t *templater) fields(schemas []part, depth int) (fields []field) {
	at := func(name string) int { return slices.IndexFunc(fields, func(f field) bool { return f.name == name }) }
	var required []schema.Value
	for _, p := range schemas {
		// "recommended" is our own keyword: fields that a body should have.
		required = slices.Concat(required, p.value.Get("required").Items, p.value.Get("recommended").Items)
		for _, property := range p.value.Get("properties").Pairs {
			if at(property.Key) < 0 {
				fields = append(fields, field{name: property.Key, schemas: t.resolve(part{file: p.file, value: property.Value}, depth)})
			}
		}
	}
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
	const width = 90
	line := "#"
	for _, word := range strings.Fields(text) {
		if len(line) > 1 && indent+len(line)+len(word) > width {
			t.line(indent, off, line)
			line = "#"
		}
		line += " " + word
	}
	if len(line) > 1 {
		t.line(indent, off, line)
	}
}

// mapping adds the fields of a mapping. If none is required, the first one stands for all, because a
// mapping is not empty.
func (t *templater) mapping(fields []field, indent, depth int, off bool) {
	noneRequired := !slices.ContainsFunc(fields, func(f field) bool { return f.required })
	for i, f := range fields {
		off := off || !f.required && !(noneRequired && i == 0)
		t.comment(indent, off, cmp.Or(get(f.schemas, "description").Text, get(f.schemas, "title").Text))
		t.value(quoteYAML(f.name)+":", f.schemas, indent, depth, off)
	}
}

// value adds a value behind what introduces it: a key or the dash of a list.
func (t *templater) value(before string, schemas []part, indent, depth int, off bool) {
	kind := get(schemas, "type")
	if kind.Kind == schema.List && len(kind.Items) > 0 {
		kind = kind.Items[0]
	}
	inner := t.fields(schemas, depth)
	switch choices := get(schemas, "enum").Items; {
	case depth >= templateDepth:
		t.line(indent, off, before)
	case len(choices) > 0:
		var texts []string
		for _, choice := range choices {
			texts = append(texts, quoteYAML(choice.Text))
		}
		t.line(indent, off, before+"  # "+strings.Join(texts, ", "))
	case len(inner) > 0 || kind.Text == "object":
		t.line(indent, off, before)
		t.mapping(inner, indent+2, depth+1, off)
	case kind.Text == "array":
		items := t.resolve(part{file: schemas[0].file, value: get(schemas, "items")}, depth)
		t.line(indent, off, before)
		t.value("-", items, indent+2, depth+1, off)
	default:
		t.line(indent, off, before)
	}
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
