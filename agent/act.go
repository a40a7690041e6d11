package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// Act is something that an agent does during a turn, besides talking.
type Act struct {
	Kind ActKind `json:"kind"`
	// Text describes the act on one line: a tool with its main argument, or why the program asks the
	// service again.
	Text string `json:"text"`
}

// An ActKind says what an Act is.
type ActKind string

// The kinds of acts. Only the drivers of claude and codex report them.
const (
	// ToolCall: the agent calls a tool.
	ToolCall ActKind = "tool"
	// Retry: the model's service failed, and the program asks it again.
	Retry ActKind = "retry"
)

// maxArgument bounds the main argument of a tool, in bytes.
const maxArgument = 200

// describeTool returns the name of a tool with its main argument.
func describeTool(name, argument string) string {
	name = safeText(name)
	argument = strings.Join(strings.Fields(safeText(argument)), " ")
	if short := cutText(argument, maxArgument); short != argument {
		argument = short + "…"
	}
	if argument == "" {
		return name
	}
	return name + ": " + argument
}

// mainArguments are the members of a tool's input that say most about a call, the best first.
var mainArguments = []string{
	"command", "file_path", "notebook_path", "path", "pattern", "query", "url", "skill", "subject", "content", "description", "prompt",
}

// mainArgument returns what says most about the input of a tool.
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

// serviceRetries counts the failures of the model's service that a program answers by asking again.
type serviceRetries struct {
	program string
	// rejected counts how often in a row the service rejected the login.
	rejected int
	// failing is the last failure, nil once the agent goes on.
	failing error
}

// next returns the act. The error is the failure if the program must not go on: a program renews a
// login that has expired, so the first rejection may be the last, but after the second nobody is
// there to log in.
func (r *serviceRetries) next(failure *APIError) (Act, error) {
	r.failing = failure
	if failure.Kind != NotLoggedIn {
		r.rejected = 0
	} else if r.rejected++; r.rejected > 1 {
		return Act{}, failure
	}
	what := cmp.Or(firstLine(failure.Text), string(failure.Kind))
	if failure.Status != 0 && !strings.Contains(what, fmt.Sprint(failure.Status)) {
		what += fmt.Sprintf(", status %d", failure.Status)
	}
	return Act{Kind: Retry, Text: fmt.Sprintf("the model's service failed (%s); %s tries again", what, r.program)}, nil
}

// firstLine returns the first line of a text that is not blank.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return cutText(strings.TrimSpace(line), maxArgument)
}
