package judge

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/spelling"
)

// maxViolations bounds an answer. A body of one megabyte could break a schema in many places.
const maxViolations = 101

// check answers a request.
func (c *compiled) check(r contract.Request) (answer contract.Answer) {
	answer.ID = r.ID
	defer func() {
		if p := recover(); p != nil {
			answer.Error = shorten(fmt.Sprintf("the schema library failed: %v", p))
		}
	}()
	for _, name := range r.Names {
		s := c.schemas[name]
		if s == nil {
			answer.Error = "there is no schema " + name
			return answer
		}
		violations, err := c.apply(s, r)
		if err != nil {
			answer.Error = shorten(err.Error())
			return answer
		}
		answer.Violations = append(answer.Violations, violations...)
	}
	slices.SortStableFunc(answer.Violations, func(a, b contract.Violation) int {
		return cmp.Or(slices.Compare(a.At, b.At), cmp.Compare(a.Message, b.Message))
	})
	answer.Violations = answer.Violations[:min(len(answer.Violations), maxViolations)]
	return answer
}

// apply returns how a body breaks a schema. A body fits if it does in any of its readings: as fields
// or as text, and with the texts for which the schema allows several types as texts or as others.
func (c *compiled) apply(s *jsonschema.Schema, r contract.Request) ([]contract.Violation, error) {
	asked := []*jsonschema.Schema{s}
	types := typesOf(applied(asked))
	var readings []func() any
	if r.Fields != nil {
		var fields any
		if err := json.Unmarshal(r.Fields, &fields); err != nil {
			return nil, fmt.Errorf("the fields cannot be read: %w", err)
		}
		if isDeeper(fields, maxDepth) {
			return []contract.Violation{{At: []string{}, Message: fmt.Sprintf("a body that has a schema nests at most %d deep", maxDepth)}}, nil
		}
		for _, eager := range []bool{false, true} {
			readings = append(readings, func() any { return convert(asked, fields, eager) })
		}
	}
	if r.Text != nil && (r.Fields == nil || slices.Contains(types, "string")) {
		readings = append(readings, func() any { return *r.Text })
	}
	if !slices.Contains(types, "object") && slices.Contains(types, "string") {
		slices.Reverse(readings) // the schema wants text, so the violations are those of the text
	}
	var first *jsonschema.ValidationError
	var body any
	for _, read := range readings {
		b := read()
		err := s.Validate(b)
		if err == nil {
			return nil, nil
		}
		invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
		if !ok {
			return nil, err
		}
		if first == nil {
			first, body = invalid, b
		}
	}
	if first == nil {
		return nil, errors.New("there is no body")
	}
	var violations []contract.Violation
	for _, leaf := range leaves(first) {
		violations = append(violations, c.violations(leaf, body)...)
		if len(violations) > maxViolations {
			break
		}
	}
	return violations, nil
}

// maxDepth is how deep a body may nest. The library's time grows with the cube of the depth.
const maxDepth = 100

// isDeeper reports whether a value nests deeper than the depth.
func isDeeper(value any, depth int) bool {
	if depth == 0 {
		return true
	}
	inside := func(v any) bool { return isDeeper(v, depth-1) }
	switch v := value.(type) {
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), inside)
	case []any:
		return slices.ContainsFunc(v, inside)
	}
	return false
}

// violations turns an error of the library into violations, one for each field in it.
func (c *compiled) violations(e *jsonschema.ValidationError, body any) []contract.Violation {
	v := contract.Violation{At: steps(e.InstanceLocation), Message: shorten(e.Message)}
	value := lookUp(body, v.At)
	file, where := c.fileOf(e.AbsoluteKeywordLocation)
	v.File = file
	around := c.schemaAround(file, where)
	keyword := keywordOf(e)
	v.Advice = textOf(around, "description", "title")
	own := textOf(around, "errorMessage") // the message of the schema's author replaces ours
	if own != "" {
		v.Message = own
	} else if keyword == "type" {
		v.Message = expected(e.Message, value)
		_, isText := value.(string)
		v.FreeText = isText && len(v.At) == 0
	}
	fields, _ := value.(map[string]any)
	var all []contract.Violation
	switch keyword {
	case "required":
		names, _ := around["required"].([]any)
		for _, name := range names {
			name, _ := name.(string)
			if _, ok := fields[name]; ok {
				continue
			}
			one := v
			property, _ := lookUp(around, []string{"properties", name}).(map[string]any)
			one.Advice = cmp.Or(textOf(property, "description", "title"), v.Advice)
			if own == "" {
				one.Message = fmt.Sprintf("the field %.60s is missing", name)
			}
			all = append(all, one)
		}
	case "additionalProperties":
		for name := range fields {
			if !strings.Contains(e.Message, quoted(name)) {
				continue
			}
			one := v
			one.At, one.Key = append(slices.Clone(v.At), name), true
			one.Advice = adviceOn(name, around)
			if own == "" {
				one.Message = "the schema does not have this field"
			}
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		all = append(all, v)
	}
	return all
}

// adviceOn returns advice on a field that a schema does not have: the most similar one that it has, or
// all of them.
func adviceOn(name string, around map[string]any) string {
	properties, _ := around["properties"].(map[string]any)
	names := slices.Sorted(maps.Keys(properties))
	if len(names) == 0 {
		return ""
	}
	return shorten(spelling.DidYouMean(names, name, "the fields are "+strings.Join(names, ", ")))
}

// quoted returns a name as the library writes it in messages.
func quoted(name string) string {
	text := strings.ReplaceAll(strconv.Quote(name), `\"`, `"`)
	return "'" + strings.ReplaceAll(text[1:len(text)-1], "'", `\'`) + "'"
}

// expected rewords the message about a wrong type for people who write YAML.
func expected(message string, value any) string {
	want, _, _ := strings.Cut(strings.TrimPrefix(message, "expected "), ", but got")
	want = strings.NewReplacer("object", "mapping", "array", "list", "string", "text").Replace(want)
	got := "null"
	switch v := value.(type) {
	case map[string]any:
		got = "a mapping"
	case []any:
		got = "a list"
	case json.Number:
		got = v.String()
	case bool:
		got = strconv.FormatBool(v)
	case string:
		got = fmt.Sprintf("%.40q", v)
	}
	return fmt.Sprintf("want %s, not %s", want, got)
}

// schemaAround returns the schema that contains the keyword at the place.
func (c *compiled) schemaAround(file string, where []string) map[string]any {
	for depth := len(where); depth >= 0; depth-- {
		found, ok := lookUp(c.roots[file], where[:depth]).(map[string]any)
		if ok && (depth < len(where) || len(where) == 0) {
			return found
		}
	}
	return nil
}

// lookUp returns the value that keys and indexes lead to, or nil.
func lookUp(value any, at []string) any {
	for _, step := range at {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// textOf returns the first of the members that is text, on one line.
func textOf(s map[string]any, members ...string) string {
	for _, member := range members {
		if text, ok := s[member].(string); ok && strings.TrimSpace(text) != "" {
			return shorten(strings.Join(strings.Fields(text), " "))
		}
	}
	return ""
}
