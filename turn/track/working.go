package track

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/internal/secrets"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// Working is what a recipient says about its work on a message.
type Working struct {
	At   time.Time `json:"at"`
	Text string    `json:"text,omitempty"`
	// Finished reports whether the recipient has said since then that it works on no message any more.
	Finished bool `json:"finished,omitempty"`
	// Process is the process of the agent, if it is known. Progress leaves it out.
	Process process.Process `json:"process,omitzero"`
	System  string          `json:"system,omitempty"`
}

func (by *Working) holder() Holder { return Holder{Process: by.Process, System: by.System} }

// Said returns the time and the text in words, which follow those about the message.
func (by Working) Said(now time.Time) string {
	text := fmt.Sprintf(", said %s ago", spelling.Age(by.At, now))
	if by.Finished {
		text += " and finished since"
	}
	if by.Text != "" {
		text += ": " + strconv.Quote(by.Text)
	}
	return text
}

// maxWorking is the greatest length of the text of a Working, in characters.
const maxWorking = 200

// ErrWorkingText reports a text that a Working cannot have.
var ErrWorkingText = errors.New("not a line about the work")

// NoteWorking durably records in the journal of an agent that it works on a message, and how far it is. Thereby the agent
// has also noticed the message, in that process. NoteWorking does not read the journal.
func NoteWorking(w *mailbox.Workspace, agent schema.AgentName, message Key, text string, by Holder) error {
	if err := cmp.Or(checkWorking(text), w.CheckAgent(agent)); err != nil {
		return err
	}
	f := working.by(by, message)
	f.Text = text
	return appendFacts(w, agent, f)
}

func checkWorking(text string) error {
	switch {
	case utf8.RuneCountInString(text) > maxWorking:
		return fmt.Errorf("%w: it has %d characters, and may have %d", ErrWorkingText, utf8.RuneCountInString(text), maxWorking)
	case !utf8.ValidString(text), strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }):
		return fmt.Errorf("%w: it has a line break or another control character", ErrWorkingText)
	}
	if err := secrets.Check("text", text); err != nil {
		return fmt.Errorf("%w: %w", ErrWorkingText, err)
	}
	return nil
}

// Task is what the status file of an agent says of its work on a message, such as "ljc0 Implement kv: half done". Other
// machines read it there, because the journal stays on this one.
func Task(m *schema.Message, text string) string {
	task := m.ID.Short() + " " + m.Subject
	if text != "" {
		task += ": " + text
	}
	return task
}

// workingBy returns what the status file of a busy agent says of its work on a message, or nil.
func workingBy(word project.Word, m *schema.Message) *Working {
	after, isIts := strings.CutPrefix(word.Task, Task(m, ""))
	text := strings.TrimPrefix(after, ": ")
	if word.At.IsZero() || !isIts || text == after && after != "" || checkWorking(text) != nil {
		return nil
	}
	return &Working{At: word.At, Text: text}
}

// NoteFinished durably records that an agent works on none of its messages any more.
func NoteFinished(w *mailbox.Workspace, agent schema.AgentName) error {
	if err := w.CheckAgent(agent); err != nil {
		return err
	}
	return appendFacts(w, agent, Fact{Kind: finished})
}

// saysWorking reports whether the recipient has said that it works on the message since its last turn.
func (rec *Record) saysWorking() bool {
	return rec.Working != nil && !rec.Working.Finished && rec.Working.At.After(rec.Started) && rec.Working.At.After(rec.Ended)
}
