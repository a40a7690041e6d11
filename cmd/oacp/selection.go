package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A selection chooses messages by type and sender. The zero value chooses all.
type selection struct {
	typeFlag, fromFlag cli.StringSlice
	types              []schema.Type
	senders            []schema.AgentName
}

// flags returns --type and --from. Their usage starts with the given text.
func (o *selection) flags(usage string) []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "type", Aliases: []string{"t"}, Usage: usage + " messages of a `TYPE`[,TYPE…]", Destination: &o.typeFlag},
		&cli.StringSliceFlag{Name: "from", Usage: usage + " messages from an `AGENT`[,AGENT…]", Destination: &o.fromFlag},
	}
}

// parse takes the values of the flags.
func (o *selection) parse() error {
	for _, name := range o.typeFlag.Value() {
		t, err := parseType(strings.TrimSpace(name))
		if err != nil {
			return err
		}
		o.types = append(o.types, t)
	}
	for _, name := range o.fromFlag.Value() {
		from, err := schema.ParseAgentName(strings.TrimSpace(name))
		if err != nil {
			return failure.Usagef("--from: %w", err)
		}
		o.senders = append(o.senders, from)
	}
	return nil
}

// warn says which senders the workspace does not know.
func (o *selection) warn(w *mailbox.Workspace, s *command.Streams) {
	for _, from := range o.senders {
		if !w.Knows(from) {
			s.Warn("the workspace has no agent " + string(from))
		}
	}
}

func (o *selection) matches(m *schema.Message) bool {
	return (len(o.types) == 0 || slices.Contains(o.types, m.Type)) &&
		(len(o.senders) == 0 || slices.Contains(o.senders, m.From))
}

// String says which messages match, as in "question from claude or gemini".
func (o *selection) String() string {
	text := "message"
	if len(o.types) > 0 {
		text = strings.ReplaceAll(joinNames(o.types), ", ", " or ")
	}
	if len(o.senders) > 0 {
		text += " from " + strings.ReplaceAll(joinNames(o.senders), ", ", " or ")
	}
	return text
}
