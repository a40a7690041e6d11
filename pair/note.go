package pair

import (
	"fmt"
	"strings"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/visible"
)

// events notes what an agent shows during an attempt at its turn.
type events struct {
	session *Session
	agent   Agent
	retries int
}

// note notes an event. If a program asks the model's service again and again, note notes the first,
// second, fourth, eighth time and so on.
func (n *events) note(e agent.Event) error {
	content := e.Text
	for _, act := range e.Acts {
		entry := Entry{Type: EntryTool, Agent: n.agent, Content: act.Text}
		if act.Kind == agent.Retry {
			content = "" // the entry of the act says the same
			n.retries++
			if n.retries&(n.retries-1) != 0 {
				continue
			}
			entry.Type = EntryRetry
			if n.retries > 1 {
				entry.Content += fmt.Sprintf(" (%d times so far)", n.retries)
			}
		}
		if err := n.session.note(entry); err != nil {
			return err
		}
	}
	if e.Raw == nil && content == "" {
		return nil
	}
	return n.session.note(Entry{Type: EntryEvent, Agent: n.agent, Raw: e.Raw, Content: content, Stderr: e.Error})
}

// noteStart notes that this process drives the run, and the state of the run.
func (s *Session) noteStart() error {
	m := &s.manifest
	if err := s.note(Entry{Type: EntryStart, State: m.State, Content: m.Prompt}); err != nil || m.Round == nil {
		return err
	}
	return s.note(Entry{Type: EntryResume, State: m.State, Content: m.progress()})
}

// progress lists the turns of the current iteration that are repeated or done.
func (m *Manifest) progress() string {
	role := "turn"
	if m.State == Reviewing {
		role = "review"
	}
	var parts []string
	for _, turn := range m.Round.Turns {
		state := "is next"
		if turn.Answer != nil {
			state = "is done"
		} else if turn.Begun {
			state = "was cut off and is given again"
		}
		parts = append(parts, fmt.Sprintf("%s's %s %s", turn.Agent, role, state))
	}
	if m.Round.ProofMark != "" {
		parts = append(parts, "the proof was cut off and runs again")
	}
	return strings.Join(parts, ", ")
}

// verdict describes how a turn ended, with the reason for a FAIL or a missing signal.
func (m *Manifest) verdict(name Agent, answer *Answer) (entries []Entry) {
	reason := beginning(answer.Text, m.DoneSignal)
	switch answer.Signal {
	case bridge.SignalFail:
		return []Entry{{Type: EntrySignal, Agent: name, Signal: answer.Signal, Reason: reason}}
	case m.expected():
		return []Entry{{Type: EntrySignal, Agent: name, Signal: answer.Signal}}
	case "":
	default:
		entries = []Entry{{Type: EntrySignal, Agent: name, Signal: answer.Signal}}
	}
	unclear := Entry{Type: EntryUnclear, Agent: name, Reason: reason}
	switch {
	case m.State == Reviewing:
		unclear.Content = fmt.Sprintf("%s says neither PASS nor FAIL, which counts as FAIL", name)
	case len(m.settings().reviewers()) == 0:
		unclear.Content = fmt.Sprintf("%s says neither %s nor FAIL and gets another turn", name, m.DoneSignal)
	default:
		unclear.Content = fmt.Sprintf("%s says neither %s nor FAIL; its work is reviewed without the proof", name, m.DoneSignal)
	}
	return append(entries, unclear)
}

// expected returns the signal with which a turn ends if all is well.
func (m *Manifest) expected() bridge.Signal {
	if m.State == Working {
		return bridge.SignalDone
	}
	return bridge.SignalPass
}

// Bounds on the beginning of an answer.
const (
	maxReasonLines = 6
	maxReason      = 600 // bytes
)

// beginning returns the first lines of an answer that are not blank, without the signal at its end.
func beginning(text, done string) string {
	if last := lastLine(text); detect(last, done) != "" {
		text = strings.TrimSuffix(strings.TrimSpace(text), last)
	}
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \t\r\n"); line != "" {
			lines = append(lines, line)
		}
	}
	short := strings.Join(lines[:min(len(lines), maxReasonLines)], "\n")
	if len(short) > maxReason {
		return visible.ShortBytes(short, maxReason)
	}
	if len(lines) > maxReasonLines {
		return short + "\n…"
	}
	return short
}
