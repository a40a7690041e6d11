package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/schema"
)

// An argumentError says what is wrong with the arguments of a call, one sentence a problem.
type argumentError struct{ problems []string }

func (e *argumentError) Error() string { return strings.Join(e.problems, "\n") }

func argumentErrorf(format string, values ...any) error {
	return &argumentError{[]string{fmt.Sprintf(format, values...)}}
}

// decodeArguments checks the arguments of a call against the tool's schema and reads them. An argument that is
// null is as good as absent: that is how many models leave one out.
func decodeArguments(raw json.RawMessage, s *jsonschema.Schema, into any) error {
	given := map[string]json.RawMessage{}
	if !utf8.Valid(raw) {
		return argumentErrorf("the arguments are not UTF-8: send their text as JSON demands")
	}
	if len(bytes.TrimSpace(raw)) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			return argumentErrorf("the arguments are no JSON object: %v", err)
		}
	}
	maps.DeleteFunc(given, func(_ string, value json.RawMessage) bool { return kindOf(value) == "null" })
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		property, known := s.Properties[name]
		if !known {
			problems = append(problems, unknownArgument(name, s.PropertyOrder))
			continue
		}
		given[name] = plainInteger(given[name])
		if problem := checkArgument(name, given[name], property); problem != "" {
			problems = append(problems, problem)
		}
	}
	for _, name := range s.Required {
		if _, ok := given[name]; !ok {
			problems = append(problems, fmt.Sprintf("the argument %s is missing: %s", name, s.Properties[name].Description))
		}
	}
	if len(problems) > 0 {
		return &argumentError{problems}
	}
	present, err := json.Marshal(given)
	if err != nil {
		return argumentErrorf("the arguments cannot be read: %v", err)
	}
	if err := json.Unmarshal(present, into); err != nil {
		return argumentErrorf("the arguments cannot be read: %v", err)
	}
	return nil
}

func unknownArgument(name string, known []string) string {
	problem := fmt.Sprintf("there is no argument %q", name)
	if near := spelling.Nearest(name, known); near != "" {
		return problem + ": did you mean " + near + "?"
	}
	if len(known) == 0 {
		return problem + ": the tool takes none"
	}
	return problem + ": there are " + strings.Join(known, ", ")
}

// checkArgument returns what is wrong with a value, or nothing.
func checkArgument(name string, value json.RawMessage, s *jsonschema.Schema) string {
	kinds := s.Types
	if s.Type != "" {
		kinds = []string{s.Type}
	}
	if kind := kindOf(value); !slices.Contains(kinds, kind) {
		return fmt.Sprintf("the argument %s must be of type %s, not %s", name, strings.Join(kinds, " or "), kind)
	}
	if len(s.Enum) > 0 {
		return checkEnum(name, value, s.Enum)
	}
	if s.Minimum == nil || s.Maximum == nil {
		return ""
	}
	var number float64
	if err := json.Unmarshal(value, &number); err != nil || number < *s.Minimum || number > *s.Maximum {
		return fmt.Sprintf("the argument %s must be from %v to %v, not %s", name, *s.Minimum, *s.Maximum, value)
	}
	return ""
}

func checkEnum(name string, value json.RawMessage, enum []any) string {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return fmt.Sprintf("the argument %s cannot be read: %v", name, err)
	}
	values := make([]string, len(enum))
	for i, v := range enum {
		values[i] = fmt.Sprint(v)
	}
	if slices.Contains(values, text) {
		return ""
	}
	problem := fmt.Sprintf("%q is no %s", text, name)
	if near := spelling.Nearest(text, values); near != "" {
		problem += ": did you mean " + near + "?"
	}
	return problem + " It is one of " + strings.Join(values, ", ")
}

// plainInteger writes a whole number that came with a fraction or an exponent, 1.0 or 1e2, as Go's decoder takes
// it. Anything else stays as it is.
func plainInteger(value json.RawMessage) json.RawMessage {
	const exact = 1 << 53 // beyond, several whole numbers are one float
	text := string(bytes.TrimSpace(value))
	if kindOf(value) != "integer" || !strings.ContainsAny(text, ".eE") {
		return value
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(number) > exact {
		return value
	}
	return strconv.AppendInt(nil, int64(number), 10)
}

// isWhole reports whether a number in JSON has no fraction, however it is written.
func isWhole(text string) bool {
	if !strings.ContainsAny(text, ".eE") {
		return true
	}
	number, err := strconv.ParseFloat(text, 64)
	return err == nil && number == math.Trunc(number)
}

// kindOf names the JSON type of a value as schemas do; a number without a fraction is an integer.
func kindOf(value json.RawMessage) string {
	switch text := string(bytes.TrimSpace(value)); {
	case text == "" || text == "null":
		return "null"
	case text == "true" || text == "false":
		return "boolean"
	case text[0] == '"':
		return "string"
	case text[0] == '{':
		return "object"
	case text[0] == '[':
		return "array"
	case isWhole(text):
		return "integer"
	}
	return "number"
}

// recipients are given as one name, as several with commas between them, or as an array.
type recipients []schema.AgentName

// UnmarshalJSON reads any of the forms.
func (r *recipients) UnmarshalJSON(data []byte) error {
	names := []string{}
	if kindOf(data) == "string" {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		names = strings.Split(text, ",")
	} else if err := json.Unmarshal(data, &names); err != nil {
		return fmt.Errorf("the recipients: %w", err)
	}
	*r = nil
	for _, name := range names {
		if name = strings.TrimSpace(name); name != "" {
			*r = append(*r, schema.AgentName(name))
		}
	}
	return nil
}

// digits is a number that messages hold as text; it may be given either way.
type digits string

// UnmarshalJSON reads a text or a number.
func (d *digits) UnmarshalJSON(data []byte) error {
	if kindOf(data) == "string" {
		return json.Unmarshal(data, (*string)(d))
	}
	var number json.Number
	err := json.Unmarshal(data, &number)
	*d = digits(number)
	return err
}

// limit is how many entries a listing may have.
type limit int

const (
	defaultLimit = 50
	maxLimit     = 500
)

func (l limit) orDefault() int {
	if l == 0 {
		return defaultLimit
	}
	return int(l)
}
