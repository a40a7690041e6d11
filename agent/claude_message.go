package agent

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// claudeMessage holds the fields that the driver reads of a line from the claude program.
// sdkMessage has those about the result of a turn.
type claudeMessage struct {
	Type      string `json:"type"`
	Subtype   string `json:"subtype"`
	SessionID string `json:"session_id"`
	// Of a user message that the program repeats to acknowledge it.
	UUID     string `json:"uuid"`
	IsReplay bool   `json:"isReplay"`
	// UserMessages are the messages that a message belongs to. Old releases omit them.
	UserMessages []string `json:"user_message_uuids"`

	// A word, of an assistant message that reports a failure, or of a system message about one that
	// the program handles.
	Error       json.RawMessage `json:"error"`
	ErrorStatus int             `json:"error_status"`

	// Of a result message.
	IsError        bool      `json:"is_error"`
	Result         string    `json:"result"`
	Errors         []string  `json:"errors"`
	NumTurns       int64     `json:"num_turns"`
	TerminalReason string    `json:"terminal_reason"`
	APIStatus      int       `json:"api_error_status"`
	APIError       string    `json:"api_error"`
	Usage          *sdkUsage `json:"usage"`
	// TotalCost counts from the beginning of the session, ModelUsage from the result before.
	TotalCost  float64 `json:"total_cost_usd"`
	ModelUsage map[string]struct {
		CostUSD float64 `json:"costUSD"`
	} `json:"model_usage_since_last_result"`

	// Of control requests and responses.
	RequestID string          `json:"request_id"`
	Request   json.RawMessage `json:"request"`
	Response  *claudeResponse `json:"response"`

	Denials []claudeDenial `json:"permission_denials"`

	// used is what a result adds to the usage of the previous one.
	used Usage
}

type claudeResponse struct {
	Subtype   string          `json:"subtype"`
	RequestID string          `json:"request_id"`
	Error     string          `json:"error,omitempty"`
	Response  json.RawMessage `json:"response,omitempty"`
}

// claudeHello is the answer to the initialize request.
type claudeHello struct {
	Version string `json:"claude_code_version"`
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
		err = nil // a message of a type that has fields of other shapes
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

// isPartial reports whether the message is a piece of one that is still being written.
func (m *claudeMessage) isPartial() bool { return m.Type == "stream_event" }

// claudeLine returns the message as a line to send.
func claudeLine(message map[string]any) []byte { return append(mustJSON(message), '\n') }

// outwardMention matches mentions of files that may be outside the working folder.
var outwardMention = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`@(["'/~\\]|\S*\.\.|[A-Za-z]:)`)
})

// plainPrompt makes sure that the program reads a prompt, which may come from a stranger, as text
// only. To the program, a leading slash is a command, and a mention of a file reads the file
// without asking. It may read files in the working folder anyway.
func plainPrompt(prompt string) string {
	if strings.HasPrefix(prompt, "/") {
		prompt = " " + prompt
	}
	return outwardMention().ReplaceAllString(prompt, "@ $1")
}

func claudePrompt(id, prompt string) []byte {
	return claudeLine(map[string]any{
		"type": "user", "uuid": id,
		"message": map[string]any{"role": "user", "content": plainPrompt(prompt)},
	})
}

func claudeAsk(id, subtype string) []byte {
	return claudeLine(map[string]any{
		"type": "control_request", "request_id": id,
		"request": map[string]any{"subtype": subtype},
	})
}

func claudeReply(response claudeResponse) []byte {
	return claudeLine(map[string]any{"type": "control_response", "response": response})
}

// failureWord returns the word for the failure that the message reports.
func (m *claudeMessage) failureWord() string {
	var word string
	_ = json.Unmarshal(m.Error, &word) // absent, or of another shape: none
	return word
}

// retried returns the failure after which the program asks the model's service again, nil if the
// message does not report one.
func (m *claudeMessage) retried() *APIError {
	if m.Type != "system" || m.Subtype != "api_retry" {
		return nil
	}
	word := m.failureWord()
	return newAPIError(m.apiErrorKind(word, m.ErrorStatus), m.ErrorStatus, word, claudeRelease.login)
}

// cost returns what the session cost since the previous result, up to which it had cost before.
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

// apiError returns the failure of the model's service that the result reports, or nil. The word is
// that of the last assistant message.
func (m *claudeMessage) apiError(word string) *APIError {
	status := m.APIStatus
	if rest, ok := strings.CutPrefix(m.Result, "API Error: "); ok && status == 0 {
		status, _ = strconv.Atoi(rest[:min(3, len(rest))]) // old releases say it only here
	}
	if status == 0 && word == "" && m.TerminalReason != "api_error" {
		return nil
	}
	text := cmp.Or(m.Result, strings.Join(m.Errors, "; "))
	return newAPIError(m.apiErrorKind(word, status), status, text, claudeRelease.login)
}

func (m *claudeMessage) apiErrorKind(word string, status int) APIErrorKind {
	switch m.APIError {
	case "connection_failed", "network_edge_blocked", "tls_untrusted_ca", "tls_cert_signature_failure":
		return Unreachable
	case "api_key_auth_disabled", "org_disabled_credential", "invalid_credential_header", "provider_credentials",
		"gateway_signin_required", "gateway_session_expired", "stored_login_refused", "consent_unanswered":
		return NotLoggedIn
	case "usage_limit_reached", "model_requires_usage_credits", "long_context_credits_required":
		return RateLimited
	case "claude_code_version_too_old", "effort_requires_thinking", "advisor_incompatible":
		return Misconfigured
	}
	switch word {
	case "authentication_failed", "oauth_org_not_allowed", "account_on_hold", "verification_required", "cloud_credential_error":
		return NotLoggedIn
	case "rate_limit", "billing_error":
		return RateLimited
	case "overloaded":
		return Overloaded
	case "model_not_found":
		return UnknownModel
	case "invalid_request", "max_output_tokens":
		if status == 0 {
			return Refused
		}
	}
	return kindOfStatus(status)
}
