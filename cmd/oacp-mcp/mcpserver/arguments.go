package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
)

// An argumentError says what is wrong with the arguments of a call.
type argumentError struct{ problem string }

func (e *argumentError) Error() string { return e.problem }

func argumentErrorf(format string, values ...any) error {
	return &argumentError{fmt.Sprintf(format, values...)}
}

// Whole numbers. They are floats because JSON may also write them as 10.0 or 1e2.
type (
	limit   float64 // how many entries a listing may have
	seconds float64 // how long a call waits
	offset  float64 // a place in a text, in characters
)

func (s seconds) wait() time.Duration { return time.Duration(s) * time.Second }

const (
	defaultLimit = 20
	maxLimit     = 500
	maxWait      = 480
	maxOffset    = 1 << 30 // more characters than any text has
)

// inputSchema returns the schema of the arguments in a struct. It panics if the struct cannot have one,
// which is a mistake in this package.
func inputSchema[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[schema.Type]():     {Type: "string", Enum: enumOf(schema.Types())},
		reflect.TypeFor[schema.Priority](): {Type: "string", Enum: enumOf(schema.Priorities())},
		reflect.TypeFor[bridge.Type]():     {Type: "string", Enum: enumOf(bridge.Types())},
		reflect.TypeFor[bridge.Signal]():   {Type: "string", Enum: enumOf(bridge.Signals())},
		// The text comes first, for clients that know only one type.
		reflect.TypeFor[schema.Value](): {Types: []string{"string", "object"}},
		reflect.TypeFor[limit]():        {Type: "integer", Minimum: new(1.0), Maximum: new(float64(maxLimit))},
		reflect.TypeFor[seconds]():      {Type: "integer", Minimum: new(0.0), Maximum: new(float64(maxWait))},
		reflect.TypeFor[offset]():       {Type: "integer", Minimum: new(0.0), Maximum: new(float64(maxOffset))},
	}})
	if err != nil {
		panic(err)
	}
	return s
}

func enumOf[Text ~string](values []Text) []any {
	enum := make([]any, len(values))
	for i, v := range values {
		enum[i] = string(v)
	}
	return enum
}

// decodeArguments checks the arguments of a call against the schema of the tool and decodes them. An argument
// that is null counts as absent, because many models write null for an argument that they omit. A text may be
// given as a number.
func decodeArguments(raw json.RawMessage, s *jsonschema.Resolved, into any) error {
	if !utf8.Valid(raw) {
		return argumentErrorf("the arguments are not UTF-8")
	}
	given := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(raw)) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			return argumentErrorf("the arguments are not a JSON object: %v", err)
		}
	}
	maps.DeleteFunc(given, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	for name, value := range given {
		property := s.Schema().Properties[name]
		if number, err := strconv.ParseFloat(string(value), 64); err == nil && property != nil && property.Type == "string" {
			given[name] = json.RawMessage(strconv.Quote(strconv.FormatFloat(number, 'f', -1, 64)))
		}
	}
	present, err := json.Marshal(given)
	if err != nil {
		return argumentErrorf("the arguments cannot be read: %v", err)
	}
	var values map[string]any
	if err := json.Unmarshal(present, &values); err != nil {
		return argumentErrorf("the arguments cannot be read: %v", err)
	}
	if err := s.Validate(values); err != nil {
		return argumentErrorf("the arguments: %s", strings.TrimPrefix(err.Error(), "validating root: "))
	}
	if err := json.Unmarshal(present, into); err != nil {
		return argumentErrorf("the arguments cannot be read: %v", err)
	}
	return nil
}
