package agent

import (
	"encoding/json"
	"strings"

	"github.com/oacp-go/oacp/ash"
)

// tellsSDKMessages reports whether the raw events of a driver are messages of the Claude Code SDK:
// what claude prints, and what an Ash bridge passes on.
func tellsSDKMessages(driver Driver) bool {
	switch driver.(type) {
	case *claude, *Ash:
		return true
	}
	return false
}

// maxUnsent bounds an unfinished line that is kept back, in bytes.
const maxUnsent = 64 << 10

// sdkRelay sends the events of one turn to the host.
type sdkRelay struct {
	// session is the host's name for the session.
	session string
	driver  Driver
	send    ash.Send
	// sdk reports that raw events are SDK messages, and raw that there were some.
	sdk, raw bool
	// unsent is an unfinished line: hosts show each message on lines of its own.
	unsent string
	err    error
}

func newSDKRelay(session string, driver Driver, send ash.Send) *sdkRelay {
	return &sdkRelay{session: session, driver: driver, send: send, sdk: tellsSDKMessages(driver)}
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
		Message: &sdkContent{Role: "assistant", Content: textContent(text)},
	})
}

func textContent(text string) json.RawMessage {
	content, err := json.Marshal([]sdkBlock{{Type: "text", Text: text}})
	if err != nil {
		panic(err) // strings always have a JSON form
	}
	return content
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
