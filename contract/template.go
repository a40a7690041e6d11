package contract

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/schema"
)

// ErrNoTemplate reports that neither oacp nor the workspace has a schema of the name.
var ErrNoTemplate = errors.New("there is no such schema")

// TemplateNames returns the names for Template: types whose bodies oacp knows, and the names of a
// workspace's schemas, which may repeat them.
func TemplateNames(own []string) []string {
	names := slices.DeleteFunc(schema.DocumentNames(), func(name string) bool { return name == schema.MessageDocument })
	return slices.Compact(slices.Sorted(slices.Values(append(names, own...))))
}

// Template returns a YAML body to fill in, made from the fields that oacp knows for a type and the schema
// of the workspace: the fields in their order, optional ones as comments, each with its description.
// Required values are empty, so validation refuses the body until they are filled in. Template does
// not follow references and combinations of schemas. The fields that the mapping known has get its values.
func (s *Schemas) Template(name string, known schema.Value) ([]byte, error) {
	var schemas []schema.Value
	add := func(text, from string) error {
		var document schema.Value
		if err := json.Unmarshal([]byte(text), &document); err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		schemas = append(schemas, document)
		return nil
	}
	if text, err := schema.Document(name); err == nil && name != schema.MessageDocument {
		if err := add(string(text), "the schema of oacp for "+name); err != nil {
			return nil, err
		}
	}
	if text, ok := s.files[name+Suffix]; ok {
		if err := add(text, filepath.Join(s.dir, Folder, name+Suffix)); err != nil {
			return nil, err
		}
	}
	if len(schemas) == 0 {
		return nil, fmt.Errorf("%q: %w", name, ErrNoTemplate)
	}
	t := templater{known: known}
	t.comment(0, false, schemas[0].Get("title").Text)
	t.comment(0, false, schemas[0].Get("description").Text)
	if len(t.lines) > 0 {
		t.line(0, false, "")
	}
	if fields := fieldsOf(schemas...); len(fields) > 0 {
		t.mapping(fields, 0, false)
	} else {
		t.comment(0, false, "The schema names no fields.")
	}
	return []byte(strings.Join(t.lines, "\n") + "\n"), nil
}

// A field is a property with its schema, which is absent for a required name without a property.
type field struct {
	name     string
	required bool
	schema   schema.Value
}

func fieldsOf(schemas ...schema.Value) (fields []field) {
	at := func(name string) int { return slices.IndexFunc(fields, func(f field) bool { return f.name == name }) }
	var required []schema.Value
	for _, s := range schemas {
		// "recommended" is our own keyword: fields that a body should have.
		required = slices.Concat(required, s.Get("required").Items, s.Get("recommended").Items)
		for _, property := range s.Get("properties").Pairs {
			if at(property.Key) < 0 {
				fields = append(fields, field{name: property.Key, schema: property.Value})
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

// A templater collects the lines of a template.
type templater struct {
	lines []string
	known schema.Value // values of fields of the body
}

// line adds a line, as a comment if it is optional.
func (t *templater) line(indent int, optional bool, text string) {
	mark := ""
	if optional {
		mark = "# "
	}
	t.lines = append(t.lines, mark+strings.Repeat(" ", indent)+text)
}

// comment adds a text that explains the lines after it.
func (t *templater) comment(indent int, optional bool, text string) {
	const width = 90
	line := "#"
	for _, word := range strings.Fields(text) {
		if len(line) > 1 && indent+len(line)+len(word) > width {
			t.line(indent, optional, line)
			line = "#"
		}
		line += " " + word
	}
	if len(line) > 1 {
		t.line(indent, optional, line)
	}
}

// mapping adds the fields of a mapping. If none is required, the first one counts as required, because
// a mapping cannot be empty.
func (t *templater) mapping(fields []field, indent int, optional bool) {
	noneRequired := !slices.ContainsFunc(fields, func(f field) bool { return f.required })
	for i, f := range fields {
		known := t.known.Get(f.name)
		if indent > 0 {
			known = schema.Value{}
		}
		optional := known.Kind == schema.Absent && (optional || !f.required && !(noneRequired && i == 0))
		t.comment(indent, optional, cmp.Or(f.schema.Get("description").Text, f.schema.Get("title").Text))
		if known.Kind != schema.Absent {
			text := schema.EncodeMapping(schema.Value{Kind: schema.Mapping, Pairs: []schema.Pair{{Key: f.name, Value: known}}})
			t.lines = append(t.lines, strings.TrimSuffix(string(text), "\n"))
			continue
		}
		t.value(quoteYAML(f.name)+":", f.schema, indent, optional)
	}
}

// value adds a value after the text that introduces it: a key with its colon, or the dash of a list.
func (t *templater) value(before string, s schema.Value, indent int, optional bool) {
	kind := s.Get("type")
	if kind.Kind == schema.List && len(kind.Items) > 0 {
		kind = kind.Items[0]
	}
	if choices := s.Get("enum").Items; len(choices) > 0 {
		var texts []string
		for _, choice := range choices {
			texts = append(texts, quoteYAML(choice.Text))
		}
		t.line(indent, optional, before+"  # "+strings.Join(texts, ", "))
		return
	}
	t.line(indent, optional, before)
	if inner := fieldsOf(s); len(inner) > 0 {
		t.mapping(inner, indent+2, optional)
	} else if kind.Text == "array" {
		t.value("-", s.Get("items"), indent+2, optional)
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
	quoted, _ := json.Marshal(text) // encoding a string cannot fail
	return string(quoted)
}
