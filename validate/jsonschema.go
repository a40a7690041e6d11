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

// messageSchema compiles the published JSON Schema of a message, once and
// only in a process that validates files: it takes longer than everything
// else a command does.
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

// A violation is what the JSON Schema has against one place of a message.
type violation struct {
	at      path
	keyword string
	message string
}

// checkSchema checks the fields of a file against the JSON Schema. What it
// finds beyond the findings so far is reported under the rule it belongs to.
func (c *checker) checkSchema(root *node) {
	for _, v := range schemaViolations(root) {
		if !c.covers(v.at) {
			c.report(v.rule(), v.at, v.message, "")
		}
	}
}

// covers reports whether there is a finding about the place, about something
// around it or about a part of it.
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

// schemaViolations returns what the JSON Schema has against the fields.
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

// appendViolations appends the leaves of a validation error: what encloses
// them only says that something in them is wrong.
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

// instance returns what the JSON Schema sees of a value: every scalar as the
// text it is, without outer white space.
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

// fieldRules are the rules that the patterns and enumerations of the JSON
// Schema stand for.
var fieldRules = map[string]Rule{
	"id": RuleID, "from": RuleAgentName, "to": RuleAgentName, "type": RuleType, "priority": RulePriority,
	"created_at_utc": RuleTime, "expires_at": RuleTime, "autonomy_hint": RuleAutonomyHint,
	"related_pr": RuleRelatedPR, "conversation_id": RuleConversationID, "auth": RuleAuthForm,
	"model": RuleTelemetryType, "turns": RuleTelemetryValue, "input_tokens": RuleTelemetryValue,
	"output_tokens": RuleTelemetryValue, "wall_time_s": RuleTelemetryValue, "est_cost_usd": RuleTelemetryValue,
}

// rule returns the rule that the violation breaks.
func (v *violation) rule() Rule {
	field := ""
	if len(v.at) > 0 {
		field, _ = v.at[0].(string)
	}
	switch v.keyword {
	case "required":
		if len(v.at) > 1 {
			return RuleTypedBodyField
		}
		return RuleMissingField
	case "additionalProperties":
		return RuleUnknownField
	case "maxItems", "uniqueItems":
		return RuleRecipients
	case "maxLength":
		return RuleLength
	}
	if rule, ok := fieldRules[field]; ok && v.keyword != "type" {
		return rule
	}
	if field == "body" && len(v.at) > 1 {
		return RuleTypedBodyField
	}
	return RuleFieldKind
}
