package judge

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// convert returns a body with its texts converted to the types that the schemas demand. In a message every scalar
// is text, so a text counts as a number or a boolean where the schemas demand one and do not allow text. If eager is set,
// it also counts as one where they allow text.
func convert(schemas []*jsonschema.Schema, value any, eager bool) any {
	schemas = applied(schemas)
	switch v := value.(type) {
	case map[string]any:
		converted := make(map[string]any, len(v))
		for key, member := range v {
			converted[key] = convert(ofMember(schemas, key), member, eager)
		}
		return converted
	case []any:
		converted := make([]any, len(v))
		for i, item := range v {
			converted[i] = convert(ofItem(schemas, i), item, eager)
		}
		return converted
	case string:
		return scalar(schemas, v, eager)
	}
	return value
}

// scalar converts a text to a type that the schemas demand, or returns it unchanged.
func scalar(schemas []*jsonschema.Schema, text string, eager bool) any {
	types := typesOf(schemas)
	if slices.Contains(types, "string") && !eager {
		return text
	}
	trimmed := strings.TrimSpace(text)
	for _, kind := range types {
		switch {
		case (kind == "integer" || kind == "number") && isNumber(trimmed):
			return json.Number(strings.TrimPrefix(trimmed, "+"))
		case kind == "boolean" && (trimmed == "true" || trimmed == "false"):
			return trimmed == "true"
		}
	}
	return text
}

// typesOf returns the types that the schemas name, and those of the constants that they list.
func typesOf(schemas []*jsonschema.Schema) (types []string) {
	for _, s := range schemas {
		types = append(types, s.Types...)
		if len(s.Types) > 0 {
			continue
		}
		for _, constant := range slices.Concat(s.Constant, s.Enum) {
			switch constant.(type) {
			case string:
				types = append(types, "string")
			case json.Number:
				types = append(types, "number")
			case bool:
				types = append(types, "boolean")
			}
		}
	}
	return types
}

// maxNumber is the longest number in bytes. The library computes with exact fractions, which a large
// exponent would swell.
const maxNumber = 64

// isNumber reports whether a text is a decimal number: digits, perhaps with a sign, a fraction, and
// an exponent of up to three digits.
func isNumber(text string) bool {
	if len(text) > maxNumber || strings.Trim(text, "0123456789+-.eE") != "" {
		return false
	}
	mantissa, exponent, hasExponent := strings.Cut(strings.ToLower(text), "e")
	if digits := strings.TrimLeft(exponent, "+-"); hasExponent && (digits == "" || len(digits) > 3) {
		return false
	}
	if plain := strings.TrimLeft(mantissa, "+-"); plain == "" || plain[0] == '.' || strings.HasSuffix(plain, ".") {
		return false
	}
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

// applied returns the schemas and those that apply to the same value with them.
func applied(schemas []*jsonschema.Schema) []*jsonschema.Schema {
	if !slices.ContainsFunc(schemas, appliesOthers) {
		return schemas
	}
	var all []*jsonschema.Schema
	seen := make(map[*jsonschema.Schema]bool)
	waiting := slices.Clone(schemas)
	for len(waiting) > 0 {
		s := waiting[0]
		waiting = waiting[1:]
		if s == nil || seen[s] {
			continue
		}
		seen[s] = true
		all = append(all, s)
		waiting = append(waiting, s.Ref, s.RecursiveRef, s.DynamicRef, s.Then, s.Else, s.If)
		waiting = slices.Concat(waiting, s.AllOf, s.AnyOf, s.OneOf)
	}
	return all
}

// appliesOthers reports whether a schema is nil or applies others to the same value.
func appliesOthers(s *jsonschema.Schema) bool {
	return s == nil || s.Ref != nil || s.RecursiveRef != nil || s.DynamicRef != nil || s.If != nil ||
		len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) > 0
}

// ofMember returns the schemas of the value of a key.
func ofMember(schemas []*jsonschema.Schema, key string) (found []*jsonschema.Schema) {
	for _, s := range schemas {
		named := false
		if property := s.Properties[key]; property != nil {
			found, named = append(found, property), true
		}
		for pattern, property := range s.PatternProperties {
			if pattern.MatchString(key) {
				found, named = append(found, property), true
			}
		}
		if named {
			continue
		}
		if additional, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
			found = append(found, additional)
		}
	}
	return found
}

// ofItem returns the schemas of the item with the index.
func ofItem(schemas []*jsonschema.Schema, index int) (found []*jsonschema.Schema) {
	for _, s := range schemas {
		rest := s.Items2020
		first := s.PrefixItems
		switch items := s.Items.(type) {
		case *jsonschema.Schema:
			rest = items
		case []*jsonschema.Schema:
			first = items
			rest, _ = s.AdditionalItems.(*jsonschema.Schema)
		}
		if index < len(first) {
			found = append(found, first[index])
		} else if rest != nil {
			found = append(found, rest)
		}
	}
	return found
}
