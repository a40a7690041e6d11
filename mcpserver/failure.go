package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// A failure is an error made ready for a model: a code that stays the same, what is wrong, and what to do.
type failure struct {
	code  string
	lines []string
	hint  string
}

// hintedError is an error that knows its code and what to do about it.
type hintedError struct {
	code string
	err  error
	hint string
}

func (e *hintedError) Error() string { return e.err.Error() }
func (e *hintedError) Unwrap() error { return e.err }

// failed is the result of a call that could not do what it was asked for.
func failed(err error) *mcp.CallToolResult {
	f := newFailure(err)
	text := f.code + ": " + strings.Join(f.lines, "\n")
	if f.hint != "" {
		text += "\nhint: " + f.hint
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// newFailure is the one place that turns errors into codes and advice. The codes are those of the command line.
func newFailure(err error) failure {
	f := failure{code: "failed", lines: []string{err.Error()}}
	var (
		hinted    *hintedError
		arguments *argumentError
		invalid   *validate.InvalidError
		agent     *mailbox.UnknownAgentError
		missing   *mailbox.NotFoundError
		ambiguous *mailbox.AmbiguousError
		queued    *mailbox.QueuedError
		undurable *mailbox.NotDurableError
		gone      *mailbox.NotPendingError
	)
	switch {
	case errors.As(err, &hinted):
		f.code, f.hint = hinted.code, hinted.hint
	case errors.As(err, &arguments):
		f.code, f.lines = "usage", arguments.problems
	case errors.As(err, &queued):
		f.code, f.hint = "queued", "do not send it again: the next message that anyone sends, or oacp doctor --fix, delivers it"
	case errors.As(err, &undurable):
		f.code, f.hint = "not_durable", "it is delivered: do not send it again"
	case errors.As(err, &agent):
		f.code, f.hint = "unknown_agent", agentHint(agent)
	case errors.As(err, &missing):
		f.code, f.hint = "not_found", "list_inbox shows the ids of what waits for you"
	case errors.As(err, &ambiguous):
		f.code, f.hint = "ambiguous", "give more of the id"
	case errors.As(err, &gone):
		f.code, f.hint = "not_pending", "only a message in your own inbox can be acknowledged: list_inbox shows them"
	case errors.As(err, &invalid):
		f.code, f.lines = "invalid_message", findingLines(invalid)
		f.hint = "nothing was sent: mend the message and call again"
	case errors.Is(err, bridge.ErrNotSynced):
		f.code, f.hint = "not_durable", "the record is in the log: do not send it again"
	case errors.Is(err, context.DeadlineExceeded):
		f.code, f.hint = "timeout", "it is not known how far the call got: look before you repeat it"
	case errors.Is(err, context.Canceled):
		f.code, f.hint = "cancelled", "the call was given up; it is not known how far it got: look before you repeat it"
	case errors.Is(err, fs.ErrPermission):
		f.code, f.hint = "permission", "a person has to give access to this path"
	}
	return f
}

// agentHint names the agent that was probably meant, or all of them.
func agentHint(e *mailbox.UnknownAgentError) string {
	if near := spelling.Nearest(string(e.Agent), e.Known); near != "" {
		return fmt.Sprintf("did you mean %s? There are %s", near, listOf(e.Known))
	}
	return "there are " + listOf(e.Known)
}

// findingLines are the findings that make a message invalid, with what to do about each.
func findingLines(e *validate.InvalidError) []string {
	var lines []string
	for _, d := range e.Diagnostics {
		if d.Severity != validate.Error {
			continue
		}
		line := d.String()
		if d.Fix != "" {
			line += ": " + d.Fix
		}
		lines = append(lines, line)
	}
	return lines
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
