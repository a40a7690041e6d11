package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	minChoices   = 2
	maxChoices   = 9
	maxChoiceLen = 60
)

// ChoicesError says what is wrong with choices.
type ChoicesError struct{ Reason string }

func (e *ChoicesError) Error() string { return e.Reason }

func (e *ChoicesError) Explain() (code, hint string) {
	return "invalid_message", `write 2 to 9 different choices with commas between them: --choices "yes,no,later"`
}

// A NoChoiceError reports that a text names none of the choices of a message, or several.
type NoChoiceError struct {
	Message *Message
	Text    string
}

func (e *NoChoiceError) Error() string {
	if choices := e.Message.Marks.Choices; choices != nil {
		return fmt.Sprintf("%q is not one of the choices of message %s: %s", e.Text, e.Message.ID, strings.Join(choices, ", "))
	}
	return fmt.Sprintf("message %s offers no choices", e.Message.ID)
}

func (e *NoChoiceError) Explain() (code, hint string) {
	if choices := e.Message.Marks.Choices; choices != nil {
		choice := choices[0]
		if strings.ContainsFunc(choice, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			choice = "'" + strings.ReplaceAll(choice, "'", `'\''`) + "'"
		}
		return "no_choice", "oacp reply " + e.Message.ID.Short() + " --choose " + choice
	}
	return "no_choice", "oacp reply " + e.Message.ID.Short() + " --body TEXT answers in words"
}

// checkChoices returns a *ChoicesError unless these can be the choices of a message.
func checkChoices(choices []string) error {
	if len(choices) < minChoices || len(choices) > maxChoices {
		return &ChoicesError{fmt.Sprintf("want %d to %d choices, not %d", minChoices, maxChoices, len(choices))}
	}
	for i, c := range choices {
		if err := checkChoice(c); err != nil {
			return err
		}
		if number, err := strconv.Atoi(c); err == nil && number >= 1 && number <= len(choices) && number != i+1 {
			return &ChoicesError{fmt.Sprintf("choice %q reads like the number of another one", c)}
		}
		for _, before := range choices[:i] {
			if strings.EqualFold(before, c) {
				return &ChoicesError{fmt.Sprintf("choice %q is there twice", c)}
			}
		}
	}
	return nil
}

func checkChoice(c string) error {
	switch {
	case c == "" || c != strings.TrimSpace(c):
		return &ChoicesError{"a choice is empty, or begins or ends with a space"}
	case utf8.RuneCountInString(c) > maxChoiceLen:
		return &ChoicesError{fmt.Sprintf("a choice has at most %d characters, not %d", maxChoiceLen, utf8.RuneCountInString(c))}
	case !utf8.ValidString(c):
		return &ChoicesError{fmt.Sprintf("choice %q is not UTF-8", c)}
	case strings.ContainsFunc(c, func(r rune) bool { return r == ',' || unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }):
		return &ChoicesError{fmt.Sprintf("choice %q contains a comma, a line break or another control character", c)}
	}
	return nil
}

// ParseChoices returns the choices in a text that has commas between them.
func ParseChoices(text string) ([]string, error) {
	choices := strings.Split(text, ",")
	for i, c := range choices {
		choices[i] = strings.Trim(c, " ")
	}
	return choices, checkChoices(choices)
}

// Offer makes the message offer choices.
func (m *Message) Offer(choices []string) error {
	m.Marks.Choices = choices
	return checkChoices(choices)
}

// Choose answers a request with one of its choices, which becomes the first line of the body. The text is the choice, its
// number, or a beginning that no other choice has.
func (m *Message) Choose(request *Message, text string) error {
	choice, err := request.FindChoice(text)
	if err != nil {
		return err
	}
	if m.Body.Kind == Absent {
		m.Body = TextValue("")
	}
	if m.Body.Kind != Text {
		return errors.New("body: a choice needs a body that is a text")
	}
	if m.Body.Text = strings.TrimLeft(m.Body.Text, "\r\n"); m.Body.Text != "" {
		m.Body.Text = "\n\n" + m.Body.Text
	}
	m.Body.Text = choice + m.Body.Text
	m.Marks.Choice = choice
	return nil
}

// FindChoice returns the choice of the message that a text names, as for Choose.
func (m *Message) FindChoice(text string) (found string, err error) {
	choices, text := m.Marks.Choices, strings.TrimSpace(text)
	if number, err := strconv.Atoi(text); err == nil && number >= 1 && number <= len(choices) {
		return choices[number-1], nil
	}
	several := false
	for _, c := range choices {
		if strings.EqualFold(c, text) {
			return c, nil
		}
		if text != "" && strings.HasPrefix(strings.ToLower(c), strings.ToLower(text)) {
			several = found != ""
			found = c
		}
	}
	if found == "" || several {
		return "", &NoChoiceError{m, text}
	}
	return found, nil
}
