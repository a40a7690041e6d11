package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
)

// messageJSON returns the message's fields, as far as they can be read, and the keys that oacp adds. A
// file that is not a message has only these keys.
func messageJSON(e mailbox.Entry, found []place, s *command.Streams) (any, error) {
	m, invalid := e.Message, ""
	switch {
	case m == nil:
		return map[string]any{"file": e.Name, "load_error": e.Err.Error(), "places": found}, nil
	case e.Err != nil:
		invalid = e.Err.Error()
	}
	return withKeys(m, struct {
		MessageID schema.ID `json:"message_id"`
		Expired   bool      `json:"expired"`
		Error     string    `json:"error,omitempty"`
		trust.Finding
		Places []place `json:"places"`
	}{m.ID, m.ExpiredAt(s.Now()), invalid, found[0].Finding, found})
}

// printMessage prints the fields of a message, as far as they can be read, then the body.
func printMessage(s *command.Streams, e mailbox.Entry, found []place) {
	m := e.Message
	for _, name := range schema.FieldNames() {
		text := spelling.Join(m.To)
		if value, _ := m.TextField(name); value != nil {
			text = *value
		} else if name != "to" {
			continue
		}
		if name == "auth" {
			continue // people cannot read it; the field signature, below, is for them
		}
		if name == "expires_at" && text != "" {
			text += " (" + expiry(m, s.Now()) + ")"
		}
		if text != "" {
			printField(s, name, text)
		}
	}
	if offered := m.Marks.Choices; offered != nil {
		printField(s, "choices", strings.Join(offered, ", ")+" (oacp reply "+m.ID.Short()+" --choose CHOICE --ack)")
	}
	if m.Marks.Choice != "" {
		printField(s, "choice", m.Marks.Choice)
	}
	if e.Err != nil {
		printField(s, "not valid", failure.OneLine(e.Err.Error()))
	}
	for _, p := range found {
		printField(s, string(p.Box)+" of "+string(p.Agent), p.name())
		if p.Reason != "" {
			printField(s, "reason", p.Reason)
		}
		if p.Reply != "" {
			printField(s, replyMark(p.Answered, p.asked), "by "+string(p.Agent)+" with "+string(p.Reply))
		}
		switch {
		case p.Differs:
			printField(s, "differs", fmt.Sprintf("it is not the message below, which is from %s", found[0].name()))
		case p.Verdict != "":
			printField(s, "signature", strings.TrimSuffix(fmt.Sprintf("%s for %s: %s", p.Verdict, p.Agent, p.Reason), ": "))
		}
	}
	if m.Auth != "" && found[0].Verdict == "" {
		printField(s, "signature", "not verified here; oacp verify FILE --receiver AGENT does that")
	}
	s.Printf("\n")
	printBody(s, m)
	for _, p := range found {
		if p.Output != "" {
			s.Printf("\nThe end of the output of its last turn:\n")
			printIndented(s, p.Output)
		}
	}
}

// expiry says when a message expires.
func expiry(m *schema.Message, now time.Time) string {
	if m.ExpiredAt(now) {
		return "expired"
	}
	return "expires in " + spelling.Age(now, m.ExpiresAt.Time())
}

func replyMark(answered, asked bool) string {
	switch {
	case answered:
		return "answered"
	case asked:
		return "asked"
	}
	return "replied"
}

// printBody prints the body of a message. Outside a terminal a model may read it, so the body is marked as
// data: a line names the sender, and each line of the body has a mark.
func printBody(s *command.Streams, m *schema.Message) {
	text := m.BodyText()
	if s.OutTerminal && !s.InAgent() {
		s.Printf("%s\n", strings.TrimSuffix(visible.Lines(text), "\n"))
		return
	}
	fmt.Fprint(s.Out, visible.Model(visible.Provenance(m.ID.Short(), string(m.From)), text))
}
