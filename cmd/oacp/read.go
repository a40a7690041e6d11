package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/fatih/color"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
)

type readOptions struct {
	workspace command.Workspace
	id, agent string
	raw, json bool
}

func newReadCommand(s *command.Streams) *cli.Command {
	var o readOptions
	return &cli.Command{
		Name:      "read",
		Category:  command.CategoryMessages,
		Usage:     "show a message",
		ArgsUsage: "ID|FILE",
		Description: `The message may be in any mailbox: pending, sent, archived, or a dead letter.
Reading it changes nothing; oacp ack marks it as handled. ID may be the short one
that oacp inbox shows.

Of a message that is not valid, read shows what can be read and the first error.
A file in an inbox can also be named as oacp inbox lists it. On a terminal, read
escapes control characters. --raw prints the bytes of the file.

EXAMPLES:
   oacp read notes.yaml --raw
   oacp read k3x9
   oacp read k3x9 --json | jq -r .body`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "the copy of `AGENT`, if there are several", Destination: &o.agent},
			&cli.BoolFlag{Name: "raw", Usage: "print the file's bytes", Destination: &o.raw},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			var err error
			if o.id, err = oneID(command.Positionals(c)); err != nil {
				return err
			}
			if o.raw && o.json {
				return failure.Usagef("--raw and --json exclude each other")
			}
			return runRead(c.Context, o, s)
		},
	}
}

func runRead(ctx context.Context, o readOptions, s *command.Streams) error {
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		found, err := w.FindNamed(ctx, o.id, schema.AgentName(o.agent))
		if err != nil {
			return err
		}
		own := slices.IndexFunc(found, func(e mailbox.Entry) bool { return string(e.Agent) == o.agent })
		if own > 0 {
			found[0], found[own] = found[own], found[0]
		}
		switch e := found[0]; {
		case o.raw:
			data, err := w.ReadRaw(e)
			if err != nil {
				return err
			}
			_, err = s.Out.Write(data)
			return err
		case e.Message == nil:
			return failure.WithHint(fmt.Errorf("%s is not a message: %w", e.Name, e.Err), doctor.BadFileHint(e))
		case o.json:
			object, err := messageJSON(e, places(w, found), s)
			if err != nil {
				return err
			}
			return command.WriteJSON(s.Out, object)
		}
		printMessage(s, found[0], places(w, found))
		return nil
	})
}

// A place is a file that holds a message.
type place struct {
	Agent schema.AgentName `json:"agent"`
	Box   mailbox.Box      `json:"box"`
	Path  string           `json:"path"`
	// Reason says why a message is a dead letter. Output is the end of what its last turn printed.
	Reason string `json:"reason,omitempty"`
	Output string `json:"output,omitempty"`
	// Finding is what the signature of this file is worth to the agent.
	trust.Finding
	// Differs says that the file holds another message under the same id.
	Differs bool `json:"differs,omitempty"`
}

func places(w *mailbox.Workspace, found []mailbox.Entry) []place {
	list := make([]place, len(found))
	checker := trust.NewChecker(w)
	for i, e := range found {
		list[i] = place{Agent: e.Agent, Box: e.Box, Path: e.Path, Finding: checker.Check(e), Differs: !reflect.DeepEqual(e.Message, found[0].Message)}
		if e.Box != mailbox.DeadLetters {
			continue
		}
		// Other tools leave dead letters without a reason.
		if reason, err := w.Reason(e); err == nil {
			list[i].Reason, list[i].Output = reason.Reason, reason.Output
		}
	}
	return list
}

// messageJSON returns the message's fields, as far as they can be read, and the keys that oacp adds.
func messageJSON(e mailbox.Entry, found []place, s *command.Streams) (any, error) {
	m, invalid := e.Message, ""
	if e.Err != nil {
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
		text := joinNames(m.To)
		if value, _ := m.TextField(name); value != nil {
			text = *value
		} else if name != "to" {
			continue
		}
		if name == "auth" {
			continue // nobody can read it; what it is worth is said below
		}
		if name == "expires_at" && m.ExpiredAt(s.Now()) {
			text += " (expired)"
		}
		if text != "" {
			printField(s, name, text)
		}
	}
	if e.Err != nil {
		printField(s, "not valid", failure.OneLine(e.Err.Error()))
	}
	for _, p := range found {
		printField(s, string(p.Box)+" of "+string(p.Agent), p.Path)
		if p.Reason != "" {
			printField(s, "reason", p.Reason)
		}
		switch {
		case p.Differs:
			printField(s, "differs", fmt.Sprintf("it is not the message below, which is from %s", found[0].Path))
		case p.Verdict != "":
			printField(s, "signature", strings.TrimSuffix(fmt.Sprintf("%s for %s: %s", p.Verdict, p.Agent, p.Reason), ": "))
		}
	}
	if m.Auth != "" && found[0].Verdict == "" {
		printField(s, "signature", "not verified here; oacp verify FILE --receiver AGENT does that")
	}
	fmt.Fprintln(s.Out)
	printBody(s, m.Body)
	for _, p := range found {
		if p.Output != "" {
			fmt.Fprintln(s.Out, "\nThe end of the output of its last turn:")
			printIndented(s, p.Output)
		}
	}
}

// printIndented prints the output of an agent, indented to set it apart.
func printIndented(s *command.Streams, output string) {
	for line := range strings.Lines(output) {
		fmt.Fprintf(s.Out, "    %s\n", visible.Line(strings.TrimRight(line, "\r\n")))
	}
}

func printField(s *command.Streams, name, value string) {
	const width = 20
	label := paint(s, colors{color.Bold}, visible.Line(name+":"))
	fmt.Fprintf(s.Out, "%s%*s%s\n", label, max(1, width-len(name)-1), "", visible.Line(value))
}

// printBody prints a text, with control characters escaped on a terminal, or a mapping as an
// outline.
func printBody(s *command.Streams, body schema.Value) {
	switch {
	case body.Kind != schema.Text:
		printOutline(s, body, 0)
	case s.OutTerminal:
		fmt.Fprintln(s.Out, strings.TrimSuffix(visible.Lines(body.Text), "\n"))
	default:
		fmt.Fprintln(s.Out, strings.TrimSuffix(body.Text, "\n"))
	}
}

func printOutline(s *command.Streams, v schema.Value, depth int) {
	entry := func(label string, v schema.Value) {
		fmt.Fprint(s.Out, strings.Repeat("  ", depth), label)
		if len(v.Items)+len(v.Pairs) == 0 {
			fmt.Fprintln(s.Out, "", visible.Line(v.Text))
			return
		}
		fmt.Fprintln(s.Out)
		printOutline(s, v, depth+1)
	}
	for _, p := range v.Pairs {
		entry(visible.Line(p.Key)+":", p.Value)
	}
	for _, item := range v.Items {
		entry("-", item)
	}
}

func joinNames[Name ~string](names []Name) string {
	joined := make([]string, len(names))
	for i, name := range names {
		joined[i] = string(name)
	}
	return strings.Join(joined, ", ")
}
