package agent

import (
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/visible"
)

// sdkFold collects the messages of a turn and derives the result from them.
type sdkFold struct {
	said    *output
	final   *claudeMessage
	session string
	// word names the failure of the model's service that the last assistant message reports, and limit is when the limit of
	// the account ends that was reached.
	word  string
	limit time.Time
}

// add records a message and returns its readable text. It accepts nil.
func (f *sdkFold) add(m *claudeMessage) string {
	if m == nil {
		return ""
	}
	if m.SessionID != "" {
		f.session = m.SessionID
	}
	switch m.Type {
	case "assistant":
		text := m.text()
		f.word = m.Error
		if text != "" {
			f.said.add(text + "\n")
		}
		return text
	case "rate_limit_event":
		if m.RateLimit != nil && m.RateLimit.Status == "rejected" {
			f.limit = time.Unix(m.RateLimit.ResetsAt, 0)
		}
	case "result":
		f.final = m
	}
	return ""
}

// finish returns the result, and an error if the agent reports that the turn failed. The answer is the text
// of the result message or, without one, all texts of the assistant.
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
	result.Usage.Turns, result.Usage.CostUSD = m.NumTurns, m.TotalCost
	result.Refused = claudeRefusals(m.Denials, nil)
	if !m.IsError && !strings.HasPrefix(m.Subtype, "error") {
		return result, nil
	}
	if failure := m.apiError(f.word); failure != nil {
		return result, until(failure, f.limit)
	}
	reasons := append([]string{m.Subtype}, m.Errors...)
	if m.Result != "" {
		reasons = append(reasons, visible.CutBytes(m.Result, maxTail))
	}
	return result, &ReportedError{Text: strings.Join(reasons, ": ")}
}

// ReportedError is a failure that the agent itself reported.
type ReportedError struct {
	// Text is what the agent said.
	Text string
}

func (e *ReportedError) Error() string { return "the agent reported a failure: " + reason(e.Text) }

func (e *ReportedError) Explain() (code, hint string) { return "turn_failed", "" }
