package agent

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
)

// claudeMessage has the fields that drivers read in messages of the Claude Code SDK, which the claude
// program prints and Ash bridges pass on, and in messages of the claude program's own protocol.
type claudeMessage struct {
	Type      string `json:"type"`
	Subtype   string `json:"subtype,omitempty"`
	SessionID string `json:"session_id,omitempty"`

	// Of an assistant message. Text is a short form in the examples of the Ash protocol.
	Message *claudeContent `json:"message,omitempty"`
	Text    string         `json:"text,omitempty"`

	// Of a user message that the program repeats as an acknowledgment.
	UUID     string `json:"uuid,omitempty"`
	IsReplay bool   `json:"isReplay,omitempty"`
	// UserMessages are the messages that a message belongs to. Old releases omit them.
	UserMessages []string `json:"user_message_uuids,omitempty"`

	// Of an assistant message that reports a failure, or of a system message after which the program
	// tries again. Error is a word for the failure.
	Error       string `json:"error,omitempty"`
	ErrorStatus int    `json:"error_status,omitempty"`

	// Of the result message that ends a turn.
	IsError        bool         `json:"is_error,omitempty"`
	Result         string       `json:"result,omitempty"`
	Errors         []string     `json:"errors,omitempty"`
	DurationMS     int64        `json:"duration_ms,omitempty"`
	NumTurns       int64        `json:"num_turns,omitempty"`
	TerminalReason string       `json:"terminal_reason,omitempty"`
	APIStatus      int          `json:"api_error_status,omitempty"`
	APIError       string       `json:"api_error,omitempty"`
	StopReason     string       `json:"stop_reason,omitempty"`
	Usage          *claudeUsage `json:"usage,omitempty"`
	// TotalCost counts from the beginning of the session, ModelUsage from the result before.
	TotalCost  float64 `json:"total_cost_usd,omitempty"`
	ModelUsage map[string]struct {
		CostUSD float64 `json:"costUSD"`
	} `json:"model_usage_since_last_result,omitempty"`
	Denials []claudeDenial `json:"permission_denials,omitempty"`

	// Of a message about the limit of an account. ResetsAt is in seconds since 1970.
	RateLimit *struct {
		Status   string `json:"status"`
		ResetsAt int64  `json:"resetsAt"`
	} `json:"rate_limit_info,omitempty"`

	// Of control requests and responses.
	RequestID string          `json:"request_id,omitempty"`
	Request   *claudeRequest  `json:"request,omitempty"`
	Response  *claudeResponse `json:"response,omitempty"`
}

type claudeContent struct {
	Role    string       `json:"role"`
	Content claudeBlocks `json:"content"`
}

// claudeBlocks is the content of a message. It may be a text instead, which counts as one block.
type claudeBlocks []claudeBlock

type claudeBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
	// Name and Input are those of a tool that is called.
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

// UnmarshalJSON reads blocks. Content of another shape has none.
func (b *claudeBlocks) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		*b = claudeBlocks{{Type: "text"}}
		return json.Unmarshal(data, &(*b)[0].Text)
	}
	if json.Unmarshal(data, (*[]claudeBlock)(b)) != nil {
		*b = nil
	}
	return nil
}

// text returns what an assistant message says.
func (m *claudeMessage) text() string {
	if m.Message == nil {
		return m.Text
	}
	var texts []string
	for _, block := range m.Message.Content {
		if block.Type == "text" {
			texts = append(texts, block.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// calls returns the tools that an assistant message calls.
func (m *claudeMessage) calls() (calls []Act) {
	if m.Type != "assistant" || m.Message == nil {
		return nil
	}
	for _, block := range m.Message.Content {
		if block.Type == "tool_use" {
			calls = append(calls, Act{ToolCall, describeTool(block.Name, mainArgument(block.Input))})
		}
	}
	return calls
}

type claudeUsage struct {
	InputTokens              int64 `json:"input_tokens"`
	OutputTokens             int64 `json:"output_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens,omitempty"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens,omitempty"`
}

// usage returns the usage with all kinds of input added up. It accepts nil.
func (u *claudeUsage) usage() Usage {
	if u == nil {
		return Usage{}
	}
	return Usage{InputTokens: u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens, OutputTokens: u.OutputTokens}
}

// claudeRequest asks the driver for something, such as to decide about the use of a tool.
type claudeRequest struct {
	claudeDenial
	Subtype string          `json:"subtype"`
	Input   json.RawMessage `json:"input,omitempty"`
}

type claudeResponse struct {
	Subtype   string          `json:"subtype"`
	RequestID string          `json:"request_id"`
	Error     string          `json:"error,omitempty"`
	Response  json.RawMessage `json:"response,omitempty"`
}

// claudeHello is the answer to the initialize request.
type claudeHello struct {
	Account *struct {
		TokenSource  string `json:"tokenSource"`
		APIKeySource string `json:"apiKeySource"`
		APIProvider  string `json:"apiProvider"`
	} `json:"account"`
}

// loggedOut reports whether the program has no login.
func (h *claudeHello) loggedOut() bool {
	a := h.Account
	return a != nil && a.APIProvider == "firstParty" && a.TokenSource == "none" && a.APIKeySource == ""
}

// readClaude reads a line. It returns nil if the line is not a message.
func readClaude(line []byte) *claudeMessage {
	var m claudeMessage
	err := json.Unmarshal(line, &m)
	if _, other := err.(*json.UnmarshalTypeError); other {
		err = nil // in another type of message, a field may have another shape
	}
	if err != nil || m.Type == "" {
		return nil
	}
	return &m
}

// isRefusal reports whether the message is a result without a turn, which says why the program
// ends.
func (m *claudeMessage) isRefusal() bool {
	return m.Type == "result" && m.IsError && len(m.Errors) > 0 && m.NumTurns == 0 && len(m.UserMessages) == 0
}

// outwardMention matches mentions of files that may be outside the working folder.
var outwardMention = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`@(["'/~\\]|\S*\.\.|[A-Za-z]:)`)
})

// plainPrompt makes sure that the program takes a prompt, which may come from a stranger, as text only.
// To the program, a leading slash means a command, and it reads a file that is mentioned without asking.
// Mentions of files in the working folder stay, because it may read them anyway.
func plainPrompt(prompt string) string {
	if strings.HasPrefix(prompt, "/") {
		prompt = " " + prompt
	}
	return outwardMention().ReplaceAllString(prompt, "@ $1")
}

func claudeReply(response claudeResponse) []byte {
	return jsonLine(map[string]any{"type": "control_response", "response": response})
}

// retried returns the failure after which the program asks the model's service again, nil if the
// message does not report one.
func (m *claudeMessage) retried() *APIError {
	if m.Type != "system" || m.Subtype != "api_retry" {
		return nil
	}
	return newAPIError(cmp.Or(kindOf(m.ErrorStatus, m.APIError, m.Error), Failing), m.ErrorStatus, m.Error, claudeRelease.login)
}

// cost returns the cost since the previous result. Before is the cost of the session up to that result.
func (m *claudeMessage) cost(before float64) float64 {
	if m.ModelUsage == nil {
		return max(0, m.TotalCost-before)
	}
	var sum float64
	for _, usage := range m.ModelUsage {
		sum += usage.CostUSD
	}
	return sum
}

// apiError returns the failure of the model's service that the result reports, or nil. Word is that of
// the last assistant message.
func (m *claudeMessage) apiError(word string) *APIError {
	kind := kindOf(m.APIStatus, m.APIError, word, m.Subtype, m.StopReason)
	if kind == "" && word == "" && m.TerminalReason != "api_error" {
		return nil
	}
	text := cmp.Or(m.Result, strings.Join(m.Errors, "; "))
	return newAPIError(cmp.Or(kind, Failing), m.APIStatus, text, claudeRelease.login)
}
