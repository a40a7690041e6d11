package pair

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
)

// answer finds the signal that a turn ended in. Began is the end of the log
// when the attempt began that the result is of.
func (s *Session) answer(ctx context.Context, result agent.Result, began bridge.Cursor) (*Answer, error) {
	turn := s.manifest.Turn
	before, during, err := s.sent(ctx, turn, began)
	if err != nil {
		return nil, err
	}
	said := bridge.Signal("")
	if !result.Truncated { // the last line of a cut answer is not the last it had
		said = Detect(result.Text, s.manifest.DoneSignal)
	}
	answer := &Answer{Text: result.Text, Truncated: result.Truncated}
	switch {
	case during != "" && said == bridge.SignalFail && s.manifest.State == Reviewing:
		answer.Signal = said // a review that contradicts itself has not passed
	case during != "":
		answer.Signal = during
	case said != "":
		answer.Signal = said
	default:
		answer.Signal = before
	}
	last := during
	if last == "" {
		last = before
	}
	answer.InBridge = answer.Signal != "" && answer.Signal == last
	return answer, nil
}

// sent returns the signals that the agent itself sent through the bridge in
// its turn: the last one before the place, and the last one behind it. What
// came out of a mailbox is of another matter: nothing tells which turn it was
// sent in.
func (s *Session) sent(ctx context.Context, turn *Turn, began bridge.Cursor) (before, during bridge.Signal, err error) {
	for entry, err := range s.log.Records(ctx, turn.Since) {
		var bad *bridge.LineError
		switch {
		case errors.As(err, &bad): // a foreign writer's; oacp bridge shows it
		case err != nil:
			return "", "", fmt.Errorf("reading the bridge for signals: %w", err)
		case entry.Type != bridge.TypeSignal || entry.From != string(turn.Agent) || isMail(entry.Record):
		case entry.Line > began.Line():
			during = entry.Signal
		default:
			before = entry.Signal
		}
	}
	return before, during, nil
}

// isMail reports whether a record was a message in a mailbox before: then its
// metadata hold that.
func isMail(r bridge.Record) bool {
	var metadata map[string]json.RawMessage
	return json.Unmarshal(r.Metadata, &metadata) == nil && metadata["oacp"] != nil
}

// Detect returns the signal that an agent's answer ends in, or none. It is the
// last line that is not blank, if that line is a signal's word and nothing
// else but white space, Markdown emphasis around it and a final full stop: a
// word within a sentence is no signal, and neither is one in another case.
// Done is the word for DONE and takes its place; empty means DONE itself.
func Detect(answer, done string) bridge.Signal {
	line := lastLine(answer)
	if done == "" {
		done = string(bridge.SignalDone)
	}
	for _, text := range []string{line, bare(line)} {
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

// lastLine returns the last line that is not blank, without the white space
// around it.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	if at := strings.LastIndexAny(text, "\n\r\u0085\u2028\u2029"); at >= 0 {
		text = text[at:]
	}
	return strings.TrimSpace(text)
}

// bare takes Markdown emphasis, in pairs, and one full stop off a word.
func bare(word string) string {
	stop := 0
	for {
		switch {
		case stop == 0 && strings.HasSuffix(word, "."):
			word, stop = strings.TrimSuffix(word, "."), 1
		case len(word) > 1 && strings.ContainsRune("*_`", rune(word[0])) && word[0] == word[len(word)-1]:
			word = word[1 : len(word)-1]
		default:
			return word
		}
	}
}
