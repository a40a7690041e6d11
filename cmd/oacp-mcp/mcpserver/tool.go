package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
)

// A tool is one thing that a client may ask for. In and Out are structs; their JSON names and jsonschema tags make
// the schemas that clients see, and arguments are checked against the very same schema.
type tool[In, Out any] struct {
	name        string
	title       string
	description string
	effect      effect
	// call does the work. The text says for a model what the result says for a program.
	call func(ctx context.Context, in In) (result Out, text string, err error)
}

// An effect says what calling a tool may do, for clients that ask a person first.
type effect struct {
	readOnly    bool
	destructive bool
	// idempotent tools may be called again with the same arguments, to no further effect.
	idempotent bool
}

// addTool makes the server offer a tool.
func addTool[In, Out any](s *Server, t tool[In, Out]) error {
	input, err := schemaOf[In](inputTypes())
	if err != nil {
		return fmt.Errorf("tool %s: arguments: %w", t.name, err)
	}
	output, err := schemaOf[Out](outputTypes())
	if err != nil {
		return fmt.Errorf("tool %s: result: %w", t.name, err)
	}
	closedWorld := false
	definition := &mcp.Tool{
		Name: t.name, Title: t.title, Description: t.description, InputSchema: input, OutputSchema: output,
		Annotations: &mcp.ToolAnnotations{
			Title: t.title, ReadOnlyHint: t.effect.readOnly, DestructiveHint: &t.effect.destructive,
			IdempotentHint: t.effect.idempotent, OpenWorldHint: &closedWorld,
		},
	}
	s.protocol.AddTool(definition, func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		var in In
		if err := decodeArguments(request.Params.Arguments, input, &in); err != nil {
			return failed(err), nil
		}
		result, text, err := t.call(ctx, in)
		if err != nil {
			return failed(err), nil
		}
		return answer(result, text), nil
	})
	return nil
}

// answer is the result of a call that did what it was asked for.
func answer(result any, text string) *mcp.CallToolResult {
	structured, err := json.Marshal(result)
	if err != nil {
		return failed(fmt.Errorf("writing the result: %w", err))
	}
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: text}},
		StructuredContent: json.RawMessage(structured),
	}
}

// schemaOf returns the schema of a struct.
func schemaOf[T any](types map[reflect.Type]*jsonschema.Schema) (*jsonschema.Schema, error) {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: types})
	if err != nil {
		return nil, err
	}
	withoutNull(s)
	return s, nil
}

// inputTypes are the schemas of our own types as arguments. Where a text and something else will do, the text
// comes first, for clients that know one type only.
func inputTypes() map[reflect.Type]*jsonschema.Schema {
	most := schema.MaxRecipients
	least, limits := 1.0, float64(maxLimit)
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[schema.Type]():     {Type: "string", Enum: enumOf(schema.Types())},
		reflect.TypeFor[schema.Priority](): {Type: "string", Enum: enumOf(schema.Priorities())},
		reflect.TypeFor[bridge.Type]():     {Type: "string", Enum: enumOf(bridge.Types())},
		reflect.TypeFor[bridge.Signal]():   {Type: "string", Enum: enumOf(bridge.Signals())},
		reflect.TypeFor[schema.Value]():    {Types: []string{"string", "object"}},
		reflect.TypeFor[digits]():          {Types: []string{"string", "integer"}},
		reflect.TypeFor[limit]():           {Type: "integer", Minimum: &least, Maximum: &limits},
		reflect.TypeFor[recipients](): {
			Types: []string{"string", "array"}, Items: &jsonschema.Schema{Type: "string"}, MaxItems: &most,
		},
	}
}

// outputTypes are the schemas of our own types as results.
func outputTypes() map[reflect.Type]*jsonschema.Schema {
	required := schema.RequiredFields()
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[schema.Message]():  {Type: "object", Required: required},
		reflect.TypeFor[json.RawMessage](): {Type: "object"},
	}
}

func enumOf[Text ~string](values []Text) []any {
	enum := make([]any, len(values))
	for i, v := range values {
		enum[i] = string(v)
	}
	return enum
}

// withoutNull takes null out of the types of slices and pointers: results have an empty array or leave the field
// out, and many clients know one type only.
func withoutNull(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	s.Types = slices.DeleteFunc(s.Types, func(t string) bool { return t == "null" })
	if len(s.Types) == 1 {
		s.Type, s.Types = s.Types[0], nil
	}
	for _, property := range s.Properties {
		withoutNull(property)
	}
	withoutNull(s.Items)
}
