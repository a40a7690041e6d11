package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/turn/track"
)

// An inputWithDefaults sets its defaults before the arguments of a call are decoded.
type inputWithDefaults interface{ setDefaults() }

// A waitingInput says how long its call may wait for messages.
type waitingInput interface{ wait() time.Duration }

// addTool makes the server offer a tool. The schema of its arguments comes from the JSON names and jsonschema tags of
// the struct In, and arguments are checked against it. There are no schemas of results: they would cost more tokens than
// the rest of the list of tools, and clients do not show them to a model.
func addTool[In, Out any](
	s *Server, name, description string, effect mcp.ToolAnnotations,
	call func(ctx context.Context, in In) (Out, error),
) {
	if !effect.ReadOnlyHint { // a read-only tool needs no other hints
		effect.OpenWorldHint = new(false)
		effect.DestructiveHint = cmp.Or(effect.DestructiveHint, new(false))
	}
	input := inputSchema[In]()
	resolved, err := input.Resolve(nil)
	if err != nil {
		panic(err) // no input can cause it
	}
	definition := &mcp.Tool{Name: name, Description: description, Annotations: &effect, InputSchema: input}
	s.protocol.AddTool(definition, func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if s.workspace != nil && !effect.ReadOnlyHint { // that would write
			defer track.NoteCommand(s.workspace, s.agent, name, name == "next_message", time.Now)()
		}
		s.called(request.Session)
		result, err := answer(context.WithValue(ctx, sessionKey{}, request.Session), request.Params.Arguments, resolved, call)
		if err != nil {
			return failed(err), nil
		}
		text, err := encode(result)
		if err != nil {
			return failed(fmt.Errorf("encoding the result: %w", err)), nil
		}
		return &mcp.CallToolResult{
			Content:           []mcp.Content{&mcp.TextContent{Text: text}},
			StructuredContent: json.RawMessage(text),
		}, nil
	})
}

// answer decodes the arguments of a call and executes it.
func answer[In, Out any](
	ctx context.Context, arguments json.RawMessage, s *jsonschema.Resolved, call func(ctx context.Context, in In) (Out, error),
) (result Out, err error) {
	var in In
	if d, ok := any(&in).(inputWithDefaults); ok {
		d.setDefaults()
	}
	if err := decodeArguments(arguments, s, &in); err != nil {
		return result, err
	}
	limit := callTimeout
	if waits, ok := any(in).(waitingInput); ok {
		limit += waits.wait()
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return call(ctx, in)
}

// failed returns the result of a call that failed. It has the code and the text of the error, and a hint.
func failed(err error) *mcp.CallToolResult {
	f := failure.Of(err)
	text := strings.Join(f.Lines(), "\n")
	if arguments, ok := errors.AsType[*argumentError](err); ok {
		f.Code, text = failure.CodeUsage, arguments.problem
	}
	text = f.Code + ": " + cut(text, answerTokens-frameTokens)
	if hint := hintFor(err, f.Code); hint != "" {
		text += "\nhint: " + hint
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: cut(text, answerTokens)}}}
}

// hintFor returns a hint about an error for a model. The hints of the command line name commands and flags, which
// a model does not have.
func hintFor(err error, code string) string {
	if explained, ok := errors.AsType[*failure.Error](err); ok {
		return explained.Hint
	}
	if agent, ok := errors.AsType[*mailbox.UnknownAgentError](err); ok {
		known := cut(cmp.Or(spelling.Join(agent.Known), "none"), frameTokens)
		if near := spelling.Nearest(string(agent.Agent), agent.Known); near != "" {
			return fmt.Sprintf("did you mean %s? There are %s", near, known)
		}
		return "there are " + known
	}
	return map[string]string{
		"already_answered": "another session of yours may have answered: read_message shows the answer; with again, this one is sent too",
		"already_working":  "leave the message to that turn; with again, this is sent all the same",
		"copy_gone":        "someone removed its copy, or another machine delivered it: if the agent does not have the message, send it again to that agent alone",
		"queued":           "do not send it again: the next message that anyone sends, or oacp doctor --fix, delivers it",
		"not_durable":      "it is done: do not repeat it",
		"not_found":        "list_inbox shows the ids of the pending messages",
		"duplicate_id":     "the id covers type, sender, receiver and content: change the content and call again",
		"ambiguous":        "give more of the id",
		"short_id":         "give the full id, as list_inbox shows it",
		"not_recipient":    "you can reply to what was sent to you: use send_message with in_reply_to",
		"not_pending":      "only a message in your own inbox can be acknowledged: list_inbox shows them",
		"invalid_message":  "nothing was sent: correct the message and call again",
		"secret":           "nothing was sent: leave the key out, or say where it is kept; with allow_secret, the message is sent all the same",
		"timeout":          "the call may have been carried out: check before you repeat it",
		"cancelled":        "the call may have been carried out: check before you repeat it",
		"permission":       "a person has to give access to this path",
		"read_only":        "a person has to give access to this path",
	}[code]
}
