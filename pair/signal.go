package pair

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/oacp-go/oacp/bridge"
)

// answer returns the answer of a turn with its signal: the last one that the agent sent through the
// bridge or, without one, the one that it said. Signals from a mailbox do not count: they may belong
// to any turn.
func (s *Session) answer(ctx context.Context, a *attempt) (*Answer, error) {
	var sent, said bridge.Signal
	err := s.eachRecord(ctx, a.turn.Since, func(entry bridge.Entry) {
		if entry.Type == bridge.TypeSignal && entry.From == string(a.turn.Agent) && !isMail(entry.Record) {
			sent = entry.Signal
		}
	})
	if err != nil {
		return nil, err
	}
	if !a.result.Truncated { // otherwise the last line is unknown
		said = detect(a.result.Text, s.manifest.DoneSignal)
	}
	answer := &Answer{Text: a.result.Text, Truncated: a.result.Truncated, Signal: cmp.Or(sent, said)}
	if said == bridge.SignalFail && s.manifest.State == Reviewing {
		answer.Signal = said // a review that contradicts itself has not passed
	}
	answer.InBridge = answer.Signal != "" && answer.Signal == sent
	return answer, nil
}

// isMail reports whether a record was a message in a mailbox before, according to its metadata.
func isMail(r bridge.Record) bool {
	var metadata map[string]json.RawMessage
	return json.Unmarshal(r.Metadata, &metadata) == nil && metadata["oacp"] != nil
}

// detect returns the signal in an agent's answer, or "". The last line that is not blank must consist of
// DONE, PASS or FAIL; it may also have white space, Markdown emphasis around the word and a final full
// stop. Case matters. The word done replaces DONE.
func detect(answer, done string) bridge.Signal {
	line := lastLine(answer)
	for _, text := range []string{line, trimEmphasis(line)} {
		switch text {
		case done:
			return bridge.SignalDone
		case string(bridge.SignalPass):
			return bridge.SignalPass
		case string(bridge.SignalFail):
			return bridge.SignalFail
		}
	}
	return ""
}

// lastLine returns the last line that is not blank, without outer white space.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	if at := strings.LastIndexAny(text, "\n\r\u0085\u2028\u2029"); at >= 0 {
		text = text[at:]
	}
	return strings.TrimSpace(text)
}

// trimEmphasis removes paired Markdown emphasis and one full stop from a word.
func trimEmphasis(word string) string {
	stopped := false
	for {
		switch {
		case !stopped && strings.HasSuffix(word, "."):
			word, stopped = strings.TrimSuffix(word, "."), true
		case len(word) > 1 && strings.ContainsRune("*_`", rune(word[0])) && word[0] == word[len(word)-1]:
			word = word[1 : len(word)-1]
		default:
			return word
		}
	}
}
