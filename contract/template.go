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
	var root part
	if text, err := schema.Document(name); err == nil && name != schema.MessageDocument {
		var document schema.Value
		if err := json.Unmarshal(text, &document); err != nil {
			return nil, fmt.Errorf("the schema of oacp for %s: %w", name, err)
		}
		root.parts = append(root.parts, part{value: document})
	}
	if document, ok := t.files[name+Suffix]; ok {
		root.parts = append(root.parts, t.resolve(part{file: name + Suffix, value: document}, 0))
	}
	if len(root.parts) == 0 {
		return nil, fmt.Errorf("%q: %w", name, ErrNoTemplate)
	}
	t.comment(0, false, root.get("title").Text)
	t.comment(0, false, root.get("description").Text)
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
		// "recommended" is our own keyword: fields that a body should have.
		required = slices.Concat(required, p.value.Get("required").Items, p.value.Get("recommended").Items)
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
		t.comment(indent, off, cmp.Or(f.schema.get("description").Text, f.schema.get("title").Text)+examples(f.schema))
		t.value(quoteYAML(f.name)+":", f.schema, indent, depth, off)
	}
}

// value adds a value behind what introduces it: a key or the dash of a list.
func (t *templater) value(before string, p part, indent, depth int, off bool) {
	inner := t.fields(p, depth)
	switch kind := kindOf(p); {
	case len(p.get("enum").Items) > 0 || depth >= templateDepth:
		t.line(indent, off, before+choices(p))
	case len(inner) > 0 || kind == "object":
		t.line(indent, off, before)
		t.mapping(inner, indent+2, depth+1, off)
	case kind == "array":
		items := t.resolve(part{file: p.file, value: p.get("items")}, depth)
		t.line(indent, off, before)
		t.value("-", items, indent+2, depth+1, off)
	default:
		t.line(indent, off, before+sample(p))
	}
}

// choices returns the values that a schema allows, as a comment.
func choices(p part) string {
	var texts []string
	for _, choice := range p.get("enum").Items {
		texts = append(texts, quoteYAML(choice.Text))
	}
	if len(texts) == 0 {
		return ""
	}
	return "  # " + strings.Join(texts, ", ")
}

// examples returns the examples of a schema as a sentence.
func examples(p part) string {
	var texts []string
	for _, example := range p.get("examples").Items {
		if example.Kind == schema.Text {
			texts = append(texts, quoteYAML(example.Text))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return " For example: " + strings.Join(texts, ", ") + "."
}

func kindOf(p part) string {
	kind := p.get("type")
	if kind.Kind == schema.List && len(kind.Items) > 0 {
		return kind.Items[0].Text
	}
	return kind.Text
}

// sample returns the constant or the default of a schema. A value that has neither is to be filled in.
func sample(p part) string {
	for _, v := range []schema.Value{p.get("const"), p.get("default")} {
		if v.Kind == schema.Text {
			return " " + quoteYAML(v.Text)
		}
	}
	return ""
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
