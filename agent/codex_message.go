package agent

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oacp-go/oacp/internal/visible"
)

// codexNotice holds the parameters of a notification of the app server.
type codexNotice struct {
	ThreadID string     `json:"threadId"`
	TurnID   string     `json:"turnId"`
	Turn     *codexTurn `json:"turn"`
	Item     *codexItem `json:"item"`
	// Error is a failure after which the program tries again, or that ends the turn.
	Error     *codexFailure `json:"error"`
	WillRetry bool          `json:"willRetry"`
	// TokenUsage is that of the session; Last is the part of the model's last answer.
	TokenUsage *struct {
		Total codexTokens `json:"total"`
		Last  codexTokens `json:"last"`
	} `json:"tokenUsage"`
}

// codexLimits are the parameters of the notification about the limits of an account. ResetsAt is in seconds since 1970.
type codexLimits struct {
	RateLimits struct {
		Primary   codexWindow `json:"primary"`
		Secondary codexWindow `json:"secondary"`
	} `json:"rateLimits"`
}

type codexWindow struct {
	Used     float64 `json:"usedPercent"`
	ResetsAt int64   `json:"resetsAt"`
}

// end returns when the limits end that are reached, zero if none is.
func (l *codexLimits) end() (at time.Time) {
	for _, w := range []codexWindow{l.RateLimits.Primary, l.RateLimits.Secondary} {
		if end := time.Unix(w.ResetsAt, 0); w.Used >= 100 && end.After(at) {
			at = end
		}
	}
	return at
}

// codexTurn is a turn that began or ended.
type codexTurn struct {
	ID     string        `json:"id"`
	Status string        `json:"status"`
	Error  *codexFailure `json:"error"`
}

// err returns nil if the turn ended well.
func (d *codexTurn) err() error {
	switch {
	case d.Error != nil:
		return d.Error.err()
	case d.Status != "completed":
		return &ReportedError{Text: "the turn ended with status " + d.Status}
	}
	return nil
}

// codexItem is something that the agent says or does.
type codexItem struct {
	Type string `json:"type"`
	Text string `json:"text"`
	// Status is "declined" for a command, or a change of files, that was not permitted.
	Status  string        `json:"status"`
	Command string        `json:"command"`
	Actions []codexAction `json:"commandActions"`
	Changes []struct {
		Path string `json:"path"`
	} `json:"changes"`
	// Of a call of an MCP server's tool.
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	// Of a search of the web.
	Query string `json:"query"`
}

// codexAction is one action of a command as the server parses it. An action of type unknown has the whole
// command line; others omit parts of it.
type codexAction struct {
	Type    string `json:"type"`
	Command string `json:"command"`
}

// codexCommand returns the exact text that the shell gets, "" if the actions omit parts of it.
func codexCommand(actions []codexAction) string {
	if len(actions) != 1 || actions[0].Type != "unknown" {
		return ""
	}
	return actions[0].Command
}

// calls returns the call of a tool if the item is one.
func (i *codexItem) calls() []Act {
	var what string
	switch i.Type {
	case "commandExecution":
		what = describeTool("command", cmp.Or(codexCommand(i.Actions), i.Command))
	case "fileChange":
		var paths []string
		for _, change := range i.Changes {
			paths = append(paths, change.Path)
		}
		what = describeTool("edit", strings.Join(paths, ", "))
	case "mcpToolCall":
		what = describeTool(i.Server+"."+i.Tool, mainArgument(i.Arguments))
	case "webSearch":
		what = describeTool("web search", i.Query)
	default:
		return nil
	}
	return []Act{{ToolCall, what}}
}

// refusal returns the action that was not permitted, if the item is a refusal.
func (i *codexItem) refusal() (r Refusal, ok bool) {
	r = Refusal{Count: 1, Allow: PermitAll}
	switch {
	case i.Status != "declined":
		return r, false
	case i.Type == "fileChange" && len(i.Changes) > 0:
		r.Tool, r.What = "file change", i.Changes[0].Path
	case i.Type == "commandExecution":
		r.Tool, r.What = "command", cmp.Or(codexCommand(i.Actions), i.Command)
	default:
		r.Tool = visible.CutBytes(i.Type, maxQuote)
	}
	return r, true
}

type codexTokens struct {
	Input  int64 `json:"inputTokens"`
	Output int64 `json:"outputTokens"`
}

// codexFailure is why a turn failed.
type codexFailure struct {
	Message string `json:"message"`
	// Info is a word, or an object whose only member has the word as its name and details as its value.
	Info json.RawMessage `json:"codexErrorInfo"`
	// Details describes the failure if Message only announces another try.
	Details string `json:"additionalDetails"`
}

// retried returns the failure after which the program asks the model's service again.
func (f *codexFailure) retried() *APIError {
	kind, status := f.kind()
	return newAPIError(cmp.Or(kind, Failing), status, cmp.Or(f.Details, f.Message), codexRelease.login)
}

// err returns the failure as an error.
func (f *codexFailure) err() error {
	kind, status := f.kind()
	if kind == "" {
		return &ReportedError{Text: visible.CutBytes(f.text(), maxTail)}
	}
	return newAPIError(kind, status, f.text(), codexRelease.login)
}

// text returns what the program says. If that is an answer of the service in JSON, text returns the
// message in it.
func (f *codexFailure) text() string {
	var answer struct {
		Detail string `json:"detail"`
		Error  struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal([]byte(f.Message), &answer) // most messages are not JSON
	return cmp.Or(answer.Error.Message, answer.Detail, f.Message)
}

// statusPattern matches an HTTP status in what codex says of a failure.
var statusPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\bstatus:? (\d{3})\b`)
})

// kind returns the kind of a failure of the model's service, "" for other failures, and the HTTP
// status, 0 if unknown. Some messages have the status only in their text.
func (f *codexFailure) kind() (kind APIErrorKind, status int) {
	var word string
	var details map[string]struct {
		Status int `json:"httpStatusCode"`
	}
	if json.Unmarshal(f.Info, &word) != nil && json.Unmarshal(f.Info, &details) == nil {
		for name, detail := range details { // there is one
			word, status = name, detail.Status
		}
	}
	if match := statusPattern().FindStringSubmatch(f.Message); match != nil && status == 0 {
		status, _ = strconv.Atoi(match[1]) // three digits
	}
	return cmp.Or(kindOf(status, word), kindOfText(f.Message)), status
}
