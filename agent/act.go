package agent

import (
	"encoding/json"
	"strings"

	"github.com/oacp-go/oacp/internal/visible"
)

// Act is something that an agent does during a turn, besides talking.
type Act struct {
	Kind ActKind `json:"kind"`
	// Text describes the act on one line: a tool with its main argument, or the failure after which
	// the program tries again.
	Text string `json:"text"`
}

// An ActKind says what an Act is.
type ActKind string

// The kinds of acts. Only the drivers of claude, codex and acp report them.
const (
	// ToolCall: the agent calls a tool.
	ToolCall ActKind = "tool"
	// Retry: the model's service failed, and the program asks it again.
	Retry ActKind = "retry"
	// NewSession: the program cannot continue the agent's session, and begins a new one.
	NewSession ActKind = "new_session"
)

// maxArgument bounds the main argument of a tool, in bytes.
const maxArgument = 200

// describeTool returns the name of a tool with its main argument.
func describeTool(name, argument string) string {
	name = safeText(name)
	argument = strings.Join(strings.Fields(safeText(argument)), " ")
	argument = visible.ShortBytes(argument, maxArgument)
	if argument == "" {
		return name
	}
	return name + ": " + argument
}

// mainArguments are the members of a tool's input that describe a call best, in this order.
var mainArguments = []string{
	"command", "file_path", "notebook_path", "path", "pattern", "query", "url", "skill", "subject", "content", "description", "prompt",
}

// mainArgument returns the member of a tool's input that describes the call best.
func mainArgument(input json.RawMessage) string {
	var members map[string]any
	if json.Unmarshal(input, &members) == nil {
		for _, name := range mainArguments {
			if text, ok := members[name].(string); ok && text != "" {
				return text
			}
		}
	}
	if text := string(input); text != "{}" && text != "null" {
		return text
	}
	return ""
}
