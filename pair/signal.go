package pair

import (
	"strings"

	"github.com/oacp-go/oacp/bridge"
)

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
