package client

import (
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/schema"
)

// An Option is one of the answers that a message can have.
type Option struct {
	// Key names it, as Answer.Choose does. Label says it to a person. Choice is the choice of the message that it is, if it is one.
	Key, Label, Choice string
	// Type is the type of the answer. It is empty for an acknowledgement, which sends nothing.
	Type schema.Type
	// NeedsText reports whether the answer needs a text of its own. Else the label is its text.
	NeedsText bool
	// Final reports whether it is the whole answer whatever its type, Acknowledges whether the message leaves the inbox with it,
	// and Declines whether it declines.
	Final, Acknowledges, Declines bool
	// Default reports whether a text alone is this answer.
	Default bool
}

// OptionsOf returns the answers that a message can have: what it offers, what its type has, and what all requests have.
func OptionsOf(m *schema.Message) (options []Option) {
	add := func(o Option) { options = append(options, o) }
	done := func(key, label string, t schema.Type) {
		add(Option{Key: key, Label: label, Type: t, Final: true, Acknowledges: true})
	}
	text := func(key, label string, t schema.Type) {
		add(Option{Key: key, Label: label, Type: t, NeedsText: true, Final: m.Type.IsRequest(), Acknowledges: true, Default: true})
	}
	for _, choice := range m.Marks.Choices {
		add(Option{Key: choice, Label: choice, Choice: choice, Type: schema.Notification, Final: m.Type.IsRequest(), Acknowledges: true})
	}
	switch m.Type {
	case schema.ReviewRequest, schema.ReviewAddressed:
		done("approve", "Approve", schema.ReviewLGTM)
		text("changes", "Ask for changes", schema.ReviewFeedback)
	case schema.ReviewFeedback:
		text("addressed", "Changed", schema.ReviewAddressed)
	case schema.Handoff, schema.TaskRequest:
		add(Option{Key: "accept", Label: "Accept", Type: schema.Notification})
		text("done", "Done", schema.Notification)
	case schema.BrainstormRequest, schema.BrainstormFollowup:
		text("answer", "Answer", schema.BrainstormFollowup)
	default:
		text("answer", "Answer", schema.Notification)
	}
	if m.Type.IsRequest() {
		add(Option{Key: "ask", Label: "Ask back", Type: schema.Question, NeedsText: true})
		add(Option{Key: "decline", Label: "Decline", Type: schema.Notification, NeedsText: true, Final: true, Acknowledges: true, Declines: true})
	}
	add(Option{Key: "acknowledge", Label: "Done without an answer", Acknowledges: true})
	return options
}

// DefaultOption returns the answer to a message that a text alone is.
func DefaultOption(m *schema.Message) Option {
	options := OptionsOf(m)
	return options[slices.IndexFunc(options, func(o Option) bool { return o.Default })]
}

// FindOption returns the answer that a text names: a choice of the message, as schema.Message.Choose finds it, or a key. The
// error is a *schema.NoChoiceError.
func FindOption(m *schema.Message, text string) (Option, error) {
	choice, err := m.FindChoice(text)
	for _, o := range OptionsOf(m) {
		if err == nil && o.Choice == choice || err != nil && o.Type != "" && strings.EqualFold(o.Key, text) {
			return o, nil
		}
	}
	return Option{}, err
}

// Take makes the answer one of the options of the message.
func (a *Answer) Take(request *schema.Message, o Option) error {
	a.Choose, a.taken = "", true
	a.Final, a.Decline = a.Final || o.Final, o.Declines
	isEmpty := strings.TrimSpace(a.BodyText()) == ""
	switch {
	case a.Acknowledge && !o.Acknowledges:
		return failure.New(failure.CodeUsage, o.Key+" leaves the message in the inbox", "acknowledge it with the answer")
	case o.Choice != "":
		if a.Type == schema.HandoffComplete { // its body has fields
			a.Type = o.Type
		}
		return a.Message.Choose(request, o.Choice)
	case isEmpty && o.NeedsText:
		return failure.New("invalid_message", "body: there is no text", o.Key+" needs one")
	case isEmpty:
		a.Body = schema.TextValue(o.Label + ".")
	}
	a.Type = o.Type
	return nil
}
