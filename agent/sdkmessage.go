package agent

import (
	"encoding/json"
	"strings"

	"github.com/oacp-go/oacp/ash"
)

// sdkFold derives the result of a turn from its messages.
type sdkFold struct {
	said    *output
	final   *claudeMessage
	session string
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
		if text != "" {
			f.said.add(text + "\n")
		}
		return text
	case "result":
		f.final = m
	}
	return ""
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
	result.Usage.Turns, result.Usage.CostUSD = m.NumTurns, m.TotalCost
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
	// sdk reports that raw events are messages of the SDK, which claude prints, and raw that there were
	// some.
	sdk, raw bool
	// unsent is an unfinished line: hosts show each message on lines of its own.
	unsent string
	err    error
}

func newSDKRelay(session string, driver Driver, send ash.Send) *sdkRelay {
	r, ok := driver.(*resident)
	return &sdkRelay{session: session, driver: driver, send: send, sdk: ok && r.release.program == claudeRelease.program}
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
	r.err = r.message(claudeMessage{
		Type:    "assistant",
		Message: &claudeContent{Role: "assistant", Content: claudeBlocks{{Type: "text", Text: text}}},
	})
}

// message sends a message with the id that continues the agent's session, so that the host may
// continue it through another bridge.
func (r *sdkRelay) message(m claudeMessage) error {
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
	m := claudeMessage{
		Type: "result", Subtype: "success",
		Result: result.Text, DurationMS: result.Duration.Milliseconds(), TotalCost: result.Usage.CostUSD,
	}
	if u := result.Usage; u.InputTokens != 0 || u.OutputTokens != 0 {
		m.Usage = &claudeUsage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens}
	}
	return r.message(m)
}
