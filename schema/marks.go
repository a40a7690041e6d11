package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// Marks are what oacp says about a message to its own programs. In the file they are the last line of context_keys, after the
// text of Message.ContextKeys:
//
//	oacp: {"final":true,"hops":1}
type Marks struct {
	// Final reports whether the sender calls the message its whole answer, whatever its type.
	Final bool `json:"final,omitempty"`
	// Declined reports whether the message, which is final, declines what another one asks for. Its body is the reason.
	Declined bool `json:"declined,omitempty"`
	// Choices are the answers that the message offers to its recipients, Choice is the one that it takes.
	Choices []string `json:"choices,omitempty"`
	Choice  string   `json:"choice,omitempty"`
	// Hops is how many turns in a row led to the message, each on a message that the one before sent. It is 0 for a message
	// that no turn sent, or that does not say.
	Hops int `json:"hops,omitempty"`
	// Ended says in a word how the turn on its parent ended of which an automatic message tells: silent, declined, unsendable, or
	// dead for a dead letter.
	Ended string `json:"ended,omitempty"`
	// AllowSecret lets the message have what looks like a key.
	AllowSecret bool `json:"allow_secret,omitempty"`
}

// marksPrefix begins the line of the marks.
const marksPrefix = "oacp: "

// markNames are the keys of marks.
var markNames = []string{"final", "declined", "choices", "choice", "hops", "ended", "allow_secret"}

// Check returns an error for marks that nobody can read back: a *ChoicesError for choices.
func (k *Marks) Check() error {
	switch {
	case k.Hops < 0:
		return errors.New("hops: negative")
	case k.Declined && !k.Final:
		return errors.New("declined: the message is not final")
	case k.Choice != "" && checkChoice(k.Choice) != nil:
		return checkChoice(k.Choice)
	case k.Choices != nil:
		return checkChoices(k.Choices)
	}
	return nil
}

// SetContext sets ContextKeys and Marks to what context_keys of a file says. A line that cannot be read is text.
func (m *Message) SetContext(text string) {
	m.ContextKeys, m.Marks = text, Marks{}
	before, line := lastLine(text)
	data, found := strings.CutPrefix(line, marksPrefix)
	if !found {
		m.Marks = oldMarks(text)
		return
	}
	var marks Marks
	if strings.HasPrefix(data, "{") && json.Unmarshal([]byte(data), &marks) == nil && marks.Check() == nil {
		m.ContextKeys, m.Marks = before, marks
	}
}

// context returns the context_keys of which SetContext makes the same text and marks.
func (m *Message) context() string {
	marks := m.marksJSON()
	switch {
	case marks == "":
		return m.ContextKeys
	case m.ContextKeys == "":
		return marksPrefix + marks + "\n"
	}
	return m.ContextKeys + "\n" + marksPrefix + marks + "\n"
}

// marksJSON returns the marks as a JSON object. It is empty for no marks, unless the text would be read as some: then they
// say so.
func (m *Message) marksJSON() string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(&m.Marks) // they can be encoded
	if text := strings.TrimSuffix(out.String(), "\n"); text != "{}" {
		return text
	}
	var read Message
	read.SetContext(m.ContextKeys)
	if read.ContextKeys == m.ContextKeys && reflect.ValueOf(read.Marks).IsZero() {
		return ""
	}
	return `{"final":false}`
}

// oldMarks returns what lines of their own say at the end of context_keys, as earlier versions wrote them. The lines stay
// text. Only what tells which requests are answered, and with what, is read.
func oldMarks(text string) (m Marks) {
	for {
		before, line := lastLine(text)
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), ": "); {
		case key == "final" && value == "true":
			m.Final = true
		case key == "declined" && value == "true":
			m.Declined = true
		case key == "choices":
			if choices, err := ParseChoices(value); err == nil {
				m.Choices = choices
			}
		case key != "choice" && key != "hops" && key != "allow_secret":
			if m.Check() != nil {
				m = Marks{}
			}
			return m
		}
		text = before
	}
}

// lastLine returns the last line of a text that is not empty, and what is before it.
func lastLine(text string) (before, line string) {
	text = strings.TrimRight(text, "\r\n")
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		return text[:i], text[i+1:]
	}
	return "", text
}
