package mcpserver

import (
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// failed is the result of a call that failed: the code of the error, what is wrong, and what to do.
func failed(err error) *mcp.CallToolResult {
	f := failure.Of(err)
	lines := f.Lines()
	if arguments, ok := errors.AsType[*argumentError](err); ok {
		f.Code, lines = failure.CodeUsage, arguments.problems
	}
	text := f.Code + ": " + strings.Join(lines, "\n")
	if hint := hintFor(err, f.Code); hint != "" {
		text += "\nhint: " + hint
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// hintFor returns what a model can do about an error. The hints of the command line name commands
// and flags, which a model does not have.
func hintFor(err error, code string) string {
	if explained, ok := errors.AsType[*failure.Error](err); ok {
		return explained.Hint
	}
	if agent, ok := errors.AsType[*mailbox.UnknownAgentError](err); ok {
		known := "there are " + listOf(agent.Known)
		if near := spelling.Nearest(string(agent.Agent), agent.Known); near != "" {
			return fmt.Sprintf("did you mean %s? There are %s", near, listOf(agent.Known))
		}
		return known
	}
	return map[string]string{
		"queued":          "do not send it again: the next message that anyone sends, or oacp doctor --fix, delivers it",
		"not_durable":     "it is sent: do not send it again",
		"not_found":       "list_inbox shows the ids of the pending messages",
		"duplicate_id":    "the id covers type, sender, receiver and content: change the content and call again",
		"ambiguous":       "give more of the id",
		"not_pending":     "only a message in your own inbox can be acknowledged: list_inbox shows them",
		"invalid_message": "nothing was sent: correct the message and call again",
		"timeout":         "the call may have been carried out: check before you repeat it",
		"cancelled":       "the call may have been carried out: check before you repeat it",
		"permission":      "a person has to give access to this path",
	}[code]
}

// listOf writes names in a sentence.
func listOf(names []schema.AgentName) string {
	if len(names) == 0 {
		return "none"
	}
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, ", ")
}
