package validate

import (
	"bytes"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/oacp-go/oacp/schema"
	"github.com/santhosh-tekuri/jsonschema/v5"
)

// messageSchema compiles the published JSON Schema of a message. Only tests use it: they check that
// the rules and the schema that editors use agree on every message. In the program it would add
// nothing, and importing it costs every command more than two milliseconds at start, as the library
// then compiles the metaschemas of all drafts.
var messageSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	document, err := schema.Document(schema.MessageDocument)
	if err != nil {
		return nil, err
	}
	const location = "message.schema.json"
	compiler := jsonschema.NewCompiler()
	compiler.Draft = jsonschema.Draft2020
	if err := compiler.AddResource(location, bytes.NewReader(document)); err != nil {
		return nil, err
	}
	return compiler.Compile(location)
})

// A violation is an objection of the JSON Schema to one place of a message.
type violation struct {
	at      path
	keyword string
	message string
}

// covers reports whether there is a finding about the place, about something around it or about a
// part of it.
func (c *checker) covers(at path) bool {
	field := at.String()
	same := func(d *Diagnostic) bool {
		return d.Severity == Error && (within(d.Field, field) || within(field, d.Field))
	}
	return c.full() ||
		slices.ContainsFunc(c.out, func(d Diagnostic) bool { return same(&d) }) ||
		slices.ContainsFunc(c.found, func(f finding) bool { return same(&f.Diagnostic) })
}

// within reports whether one path leads through or to the other.
func within(field, outer string) bool {
	rest, ok := strings.CutPrefix(field, outer)
	return ok && outer != "" && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// schemaViolations returns the violations of the JSON Schema in the fields.
func schemaViolations(root *node) []violation {
	compiled, err := messageSchema()
	if err != nil {
		return []violation{{message: err.Error()}}
	}
	err = compiled.Validate(root.instance())
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		return appendViolations(nil, invalid, root)
	}
	return []violation{{message: err.Error()}}
}

// appendViolations appends the leaves of a validation error: the errors around them only say that
// something inside is wrong.
func appendViolations(out []violation, e *jsonschema.ValidationError, root *node) []violation {
	for _, cause := range e.Causes {
		out = appendViolations(out, cause, root)
	}
	if len(e.Causes) > 0 {
		return out
	}
	v := violation{at: root.pointer(e.InstanceLocation), message: e.Message}
	v.keyword = e.KeywordLocation[strings.LastIndexByte(e.KeywordLocation, '/')+1:]
	if v.keyword != "required" && v.keyword != "additionalProperties" {
		return append(out, v)
	}
	for _, name := range quotedNames(e.Message) {
		named := v
		named.at = append(v.at[:len(v.at):len(v.at)], name)
		out = append(out, named)
	}
	return out
}

// quotedNames returns the texts in single quotes in a message.
func quotedNames(message string) []string {
	var names []string
	for {
		_, rest, ok := strings.Cut(message, "'")
		end := 0
		for end < len(rest) && rest[end] != '\'' {
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		if !ok || end >= len(rest) {
			return names
		}
		quoted := strings.ReplaceAll(strings.ReplaceAll(rest[:end], `\'`, `'`), `"`, `\"`)
		if name, err := strconv.Unquote(`"` + quoted + `"`); err == nil {
			names = append(names, name)
		}
		message = rest[end+1:]
	}
}

// pointer turns a JSON pointer, as jsonschema escapes it, into a path.
func (n *node) pointer(pointer string) path {
	var at path
	for _, step := range strings.Split(pointer, "/")[1:] {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		if plain, err := url.PathUnescape(step); err == nil {
			step = plain
		}
		if n != nil && n.kind == schema.List {
			i, _ := strconv.Atoi(step)
			at = append(at, i)
			n = &n.items[min(i, len(n.items)-1)]
			continue
		}
		at = append(at, step)
		if entry := n.get(step); entry != nil {
			n = &entry.value
		}
	}
	return at
}

// instance returns what the JSON Schema sees of a value: every scalar as the text it is, without
// outer white space.
func (n *node) instance() any {
	switch n.kind {
	case schema.Text:
		return strings.TrimSpace(n.text)
	case schema.List:
		list := make([]any, len(n.items))
		for i := range n.items {
			list[i] = n.items[i].instance()
		}
		return list
	case schema.Mapping:
		mapping := make(map[string]any, len(n.pairs))
		for i := range n.pairs {
			mapping[n.pairs[i].key] = n.pairs[i].value.instance()
		}
		return mapping
	}
	return nil
}
