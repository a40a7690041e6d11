package agent

import (
	"encoding/json"
	"strings"

	"github.com/oacp-go/oacp/ash"
)

// sdkMessage holds the fields that drivers read of the Claude Code SDK's messages, which Ash
// bridges pass on and the claude program prints.
type sdkMessage struct {
	Type      string `json:"type"`
	Subtype   string `json:"subtype,omitempty"`
	SessionID string `json:"session_id,omitempty"`

	// Of an assistant message. Text is a short form in the examples of the Ash protocol.
	Message *sdkContent `json:"message,omitempty"`
	Text    string      `json:"text,omitempty"`

	// Of the result message that ends a turn.
	IsError      bool      `json:"is_error,omitempty"`
	Result       string    `json:"result,omitempty"`
	Errors       []string  `json:"errors,omitempty"`
	DurationMS   int64     `json:"duration_ms,omitempty"`
	TotalCostUSD float64   `json:"total_cost_usd,omitempty"`
	Usage        *sdkUsage `json:"usage,omitempty"`
	NumTurns     int64     `json:"num_turns,omitempty"`

	Denials []claudeDenial `json:"permission_denials,omitempty"`
}

type sdkContent struct {
	Role string `json:"role"`
	// Content is a text or a list of sdkBlock.
	Content json.RawMessage `json:"content"`
}

type sdkBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
	// Name and Input are those of a tool that is called.
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

// toolCalls returns the tools that an assistant message calls.
func toolCalls(raw json.RawMessage) (calls []Act) {
	var m sdkMessage
	var blocks []sdkBlock
	if json.Unmarshal(raw, &m) != nil || m.Type != "assistant" || m.Message == nil || json.Unmarshal(m.Message.Content, &blocks) != nil {
		return nil
	}
	for _, block := range blocks {
		if block.Type == "tool_use" {
			calls = append(calls, Act{ToolCall, describeTool(block.Name, mainArgument(block.Input))})
		}
	}
	return calls
}

type sdkUsage struct {
	InputTokens              int64 `json:"input_tokens"`
	OutputTokens             int64 `json:"output_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens,omitempty"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens,omitempty"`
}

// usage adds up all kinds of input. It accepts nil.
func (u *sdkUsage) usage() Usage {
	if u == nil {
		return Usage{}
	}
	return Usage{InputTokens: u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens, OutputTokens: u.OutputTokens}
}

// sdkFold derives the result of a turn from its messages.
type sdkFold struct {
	said    *output
	final   *sdkMessage
	session string
}

func newSDKFold() *sdkFold { return &sdkFold{said: newOutput(nil)} }

// add records a message and returns its readable text. A message of another shape has none.
func (f *sdkFold) add(raw json.RawMessage) string {
	var m sdkMessage
	if json.Unmarshal(raw, &m) != nil {
		return ""
	}
	if m.SessionID != "" {
		f.session = m.SessionID
	}
	switch m.Type {
	case "assistant":
		text := m.assistantText()
		f.said.add(text + "\n")
		return text
	case "result":
		f.final = &m
	}
	return ""
}

func (m *sdkMessage) assistantText() string {
	if m.Message == nil {
		return m.Text
	}
	var text string
	if json.Unmarshal(m.Message.Content, &text) == nil {
		return text
	}
	var blocks []sdkBlock
	if json.Unmarshal(m.Message.Content, &blocks) != nil {
		return ""
	}
	var texts []string
	for _, block := range blocks {
		if block.Type == "text" {
			texts = append(texts, block.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// finish returns the result, and an error if the agent says that the turn failed. The answer is the
// text of the result message or, without one, all that the assistant said.
func (f *sdkFold) finish() (Result, error) {
	result := f.said.result()
	result.SessionID = f.session
	m := f.final
	if m == nil {
		return result, nil
	}
	if m.Result != "" {
		result.setAnswer(m.Result)
	}
	result.Usage = m.Usage.usage()
	result.Usage.Turns, result.Usage.CostUSD = m.NumTurns, m.TotalCostUSD
	result.Refused = claudeRefusals(m.Denials, nil)
	if !m.IsError && !strings.HasPrefix(m.Subtype, "error") {
		return result, nil
	}
	reasons := append([]string{m.Subtype}, m.Errors...)
	if m.Result != "" {
		reasons = append(reasons, cutText(m.Result, maxTail))
	}
	return result, &ReportedError{Text: strings.Join(reasons, ": ")}
}

// ReportedError is a failure that the agent itself reported.
type ReportedError struct {
	// Text is what the agent said.
	Text string
}

// Error returns what the agent said.
func (e *ReportedError) Error() string { return "the agent reported a failure: " + reason(e.Text) }

// maxUnsent bounds an unfinished line that is kept back, in bytes.
const maxUnsent = 64 << 10

// sdkRelay sends the events of one turn to the host.
type sdkRelay struct {
	// session is the host's name for the session.
	session string
	driver  Driver
	send    ash.Send
	// sdk reports that raw events are messages of the SDK, which claude prints and an Ash bridge
	// passes on, and raw that there were some.
	sdk, raw bool
	// unsent is an unfinished line: hosts show each message on lines of its own.
	unsent string
	err    error
}

func newSDKRelay(session string, driver Driver, send ash.Send) *sdkRelay {
	r := &sdkRelay{session: session, driver: driver, send: send}
	switch driver.(type) {
	case *claude, *Ash:
		r.sdk = true
	}
	return r
}

func (r *sdkRelay) event(e Event) {
	switch {
	case r.err != nil:
	case r.sdk && e.Raw != nil:
		r.raw = true
		r.err = r.send(e.Raw)
	case e.Error || e.Text == "":
	default:
		r.unsent += e.Text
		if e.Raw != nil { // a whole message, not a piece of output
			r.unsent += "\n"
		}
		r.say(strings.LastIndexByte(r.unsent, '\n') + 1)
		if len(r.unsent) > maxUnsent {
			r.say(len(r.unsent))
		}
	}
}

// say sends the first bytes of what is unsent.
func (r *sdkRelay) say(length int) {
	if r.err != nil || length == 0 {
		return
	}
	text := r.unsent[:length]
	r.unsent = r.unsent[length:]
	r.err = r.message(sdkMessage{
		Type:    "assistant",
		Message: &sdkContent{Role: "assistant", Content: mustJSON([]sdkBlock{{Type: "text", Text: text}})},
	})
}

// message sends a message with the id that continues the agent's session, so that the host may
// continue it through another bridge.
func (r *sdkRelay) message(m sdkMessage) error {
	if m.SessionID = r.driver.SessionID(); m.SessionID == "" {
		m.SessionID = r.session
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return r.send(data)
}

// finish sends a result message if the agent sent no messages of its own.
func (r *sdkRelay) finish(result Result) error {
	if r.err != nil || r.raw {
		return r.err
	}
	m := sdkMessage{
		Type: "result", Subtype: "success",
		Result: result.Text, DurationMS: result.Duration.Milliseconds(), TotalCostUSD: result.Usage.CostUSD,
	}
	if u := result.Usage; u.InputTokens != 0 || u.OutputTokens != 0 {
		m.Usage = &sdkUsage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens}
	}
	return r.message(m)
}
