package mcpserver

import (
	"bytes"
	"cmp"
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

// An argumentError lists what is wrong with the arguments of a call.
type argumentError struct{ problems []string }

func (e *argumentError) Error() string { return strings.Join(e.problems, "\n") }

func argumentErrorf(format string, values ...any) error {
	return &argumentError{[]string{fmt.Sprintf(format, values...)}}
}

// decodeArguments checks the arguments of a call against the schema of the tool and reads them. An
// argument that is null counts as absent, because many models leave one out that way. A text may be given as a number.
func decodeArguments(raw json.RawMessage, s *jsonschema.Schema, into any) error {
	given := map[string]json.RawMessage{}
	if !utf8.Valid(raw) {
		return argumentErrorf("the arguments are not UTF-8")
	}
	if len(bytes.TrimSpace(raw)) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			return argumentErrorf("the arguments are not a JSON object: %v", err)
		}
	}
	maps.DeleteFunc(given, func(_ string, value json.RawMessage) bool { return kindOf(value) == "null" })
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		property, known := s.Properties[name]
		if !known {
			otherwise := "the tool takes " + cmp.Or(strings.Join(s.PropertyOrder, ", "), "none")
			hint := spelling.DidYouMean(s.PropertyOrder, name, otherwise)
			problems = append(problems, fmt.Sprintf("unknown argument %q: %s", name, hint))
			continue
		}
		if number, err := strconv.ParseFloat(string(given[name]), 64); err == nil && property.Type == "string" && property.Enum == nil {
			given[name] = json.RawMessage(strconv.Quote(strconv.FormatFloat(number, 'f', -1, 64)))
		}
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
	if err == nil {
		err = json.Unmarshal(present, into)
	}
	if err != nil {
		return argumentErrorf("the arguments cannot be read: %v", err)
	}
	return nil
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
	var given any
	if err := json.Unmarshal(value, &given); err != nil {
		return fmt.Sprintf("the argument %s cannot be read: %v", name, err)
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, given) {
		values := strings.Fields(strings.Trim(fmt.Sprint(s.Enum), "[]"))
		problem := fmt.Sprintf("the argument %s cannot be %q: it is one of %s", name, given, strings.Join(values, ", "))
		if near := spelling.Nearest(fmt.Sprint(given), values); near != "" {
			problem += "; did you mean " + near + "?"
		}
		return problem
	}
	if number, ok := given.(float64); ok && s.Maximum != nil && (number < *s.Minimum || number > *s.Maximum) {
		return fmt.Sprintf("the argument %s must be from %v to %v, not %s", name, *s.Minimum, *s.Maximum, value)
	}
	return ""
}

// kindOf names the JSON type of a value as schemas do. A number without a fraction is an integer,
// however it is written.
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
	default:
		if number, err := strconv.ParseFloat(text, 64); err == nil && number == math.Trunc(number) {
			return "integer"
		}
		return "number"
	}
}

// recipients are given as one name, as several with commas between them, or as an array of such.
type recipients []schema.AgentName

// UnmarshalJSON reads any of the forms.
func (r *recipients) UnmarshalJSON(data []byte) error {
	names := make([]string, 1)
	var into any = &names
	if kindOf(data) == "string" {
		into = &names[0]
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("the recipients: %w", err)
	}
	*r = nil
	for name := range strings.SplitSeq(strings.Join(names, ","), ",") {
		if name = strings.TrimSpace(name); name != "" {
			*r = append(*r, schema.AgentName(name))
		}
	}
	return nil
}

// Whole numbers, which JSON may also write as 10.0 or 1e2: how many entries a listing may have, how long a call
// waits, and a place in a text, in characters.
type (
	limit   float64
	seconds float64
	offset  float64
)

const (
	defaultLimit = 20
	maxLimit     = 500
	maxWait      = 480
	maxOffset    = 1 << 30 // more characters than any text has
)

func (l limit) orDefault() int {
	if l == 0 {
		return defaultLimit
	}
	return int(l)
}
