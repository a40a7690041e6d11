package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// addTool makes the server offer a tool. In and Out are structs; their JSON names and jsonschema
// tags make the schemas that clients see, and arguments are checked against the same schema. The
// schemas of results are a resource of their own: in the list of tools they would cost more than
// everything else, and the programs do not show them to a model.
func addTool[In, Out any](
	s *Server, name, description string, effect mcp.ToolAnnotations,
	call func(ctx context.Context, in In) (Out, error),
) {
	if !effect.ReadOnlyHint { // else the other hints mean nothing
		effect.OpenWorldHint = new(false)
		effect.DestructiveHint = cmp.Or(effect.DestructiveHint, new(false))
	}
	input := schemaOf[In](inputTypes())
	definition := &mcp.Tool{Name: name, Description: description, Annotations: &effect, InputSchema: listed(input)}
	s.results[name] = schemaOf[Out](outputTypes())
	s.protocol.AddTool(definition, func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in In
		if err := decodeArguments(request.Params.Arguments, input, &in); err != nil {
			return failed(err), nil
		}
		limit := callTimeout
		if waits, ok := any(in).(waiting); ok {
			limit += waits.wait()
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		result, err := call(ctx, in)
		if err != nil {
			return failed(err), nil
		}
		structured, err := encode(result)
		if err != nil {
			return failed(fmt.Errorf("encoding the result: %w", err)), nil
		}
		text := structured
		if documented, ok := any(result).(fmt.Stringer); ok {
			text = documented.String()
		}
		return &mcp.CallToolResult{
			Content:           []mcp.Content{&mcp.TextContent{Text: text}},
			StructuredContent: json.RawMessage(structured),
		}, nil
	})
}

// listed returns a schema of arguments as the list of tools has it, which every session of a model pays for:
// without arguments that have no description, and of optional ones without the values that an error would name.
func listed(input *jsonschema.Schema) *jsonschema.Schema {
	short := *input
	short.AdditionalProperties, short.PropertyOrder, short.Properties = nil, nil, make(map[string]*jsonschema.Schema)
	for name, property := range input.Properties {
		one := *property
		if !slices.Contains(input.Required, name) {
			one.Enum, one.Minimum, one.Maximum = nil, nil, nil
		}
		if one.Description != "" {
			short.Properties[name] = &one
		}
	}
	return &short
}

// schemaOf returns the schema of a struct. It panics if the struct has none, which no input can
// cause.
func schemaOf[T any](types map[reflect.Type]*jsonschema.Schema) *jsonschema.Schema {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: types})
	if err != nil {
		panic(err)
	}
	withoutNull(s)
	return s
}

// inputTypes are the schemas of our own types as arguments. If a text and something else will do,
// the text comes first, for clients that know one type only.
func inputTypes() map[reflect.Type]*jsonschema.Schema {
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[schema.Type]():     {Type: "string", Enum: enumOf(schema.Types())},
		reflect.TypeFor[schema.Priority](): {Type: "string", Enum: enumOf(schema.Priorities())},
		reflect.TypeFor[bridge.Type]():     {Type: "string", Enum: enumOf(bridge.Types())},
		reflect.TypeFor[bridge.Signal]():   {Type: "string", Enum: enumOf(bridge.Signals())},
		reflect.TypeFor[schema.Value]():    {Types: []string{"string", "object"}},
		reflect.TypeFor[seconds]():         {Type: "integer", Minimum: new(0.0), Maximum: new(float64(maxWait))},
		reflect.TypeFor[offset]():          {Type: "integer", Minimum: new(0.0), Maximum: new(float64(maxOffset))},
		reflect.TypeFor[limit]():           {Type: "integer", Minimum: new(1.0), Maximum: new(float64(maxLimit))},
		reflect.TypeFor[recipients](): {
			Types: []string{"string", "array"}, Items: &jsonschema.Schema{Type: "string"}, MaxItems: new(schema.MaxRecipients),
		},
	}
}

// outputTypes are the schemas of our own types as results.
func outputTypes() map[reflect.Type]*jsonschema.Schema {
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[schema.Message]():  {Type: "object", Required: schema.RequiredFields()},
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

// withoutNull takes null out of the types of slices and pointers: results have an empty array or
// leave the field out, and many clients know one type only.
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

// failed is the result of a call that failed: the code of the error, what is wrong, and what to do.
func failed(err error) *mcp.CallToolResult {
	f := failure.Of(err)
	lines := f.Lines()
	if arguments, ok := errors.AsType[*argumentError](err); ok {
		f.Code, lines = failure.CodeUsage, arguments.problems
	}
	text := f.Code + ": " + cut(strings.Join(lines, "\n"), answerTokens-frameTokens)
	if hint := hintFor(err, f.Code); hint != "" {
		text += "\nhint: " + hint
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: cut(text, answerTokens)}}}
}

// hintFor returns what a model can do about an error. The hints of the command line name commands
// and flags, which a model does not have.
func hintFor(err error, code string) string {
	if explained, ok := errors.AsType[*failure.Error](err); ok {
		return explained.Hint
	}
	if agent, ok := errors.AsType[*mailbox.UnknownAgentError](err); ok {
		known := cut(listOf(agent.Known), frameTokens)
		if near := spelling.Nearest(string(agent.Agent), agent.Known); near != "" {
			return fmt.Sprintf("did you mean %s? There are %s", near, known)
		}
		return "there are " + known
	}
	return map[string]string{
		"already_answered": "another session of yours may have answered: read_message shows the answer; with again, this one is sent too",
		"copy_gone":        "someone removed its copy, or another machine delivered it: if the agent does not have the message, send it again to that agent alone",
		"queued":           "do not send it again: the next message that anyone sends, or oacp doctor --fix, delivers it",
		"not_durable":      "it is sent: do not send it again",
		"not_found":        "list_inbox shows the ids of the pending messages",
		"duplicate_id":     "the id covers type, sender, receiver and content: change the content and call again",
		"ambiguous":        "give more of the id",
		"short_id":         "give the full id, as list_inbox shows it",
		"not_recipient":    "you can reply to what was sent to you: use send_message with in_reply_to",
		"not_pending":      "only a message in your own inbox can be acknowledged: list_inbox shows them",
		"invalid_message":  "nothing was sent: correct the message and call again",
		"timeout":          "the call may have been carried out: check before you repeat it",
		"cancelled":        "the call may have been carried out: check before you repeat it",
		"permission":       "a person has to give access to this path",
		"read_only":        "a person has to give access to this path",
	}[code]
}

// listOf joins names for a sentence.
func listOf(names []schema.AgentName) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(names), " ", ", "), "[]")
}
