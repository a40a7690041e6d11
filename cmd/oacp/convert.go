package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/convert"
	"github.com/oacp-go/oacp/convert/mirror"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// What convert converts to.
const (
	toBridge  = "bridge"
	toMailbox = "mailbox"
)

// A convertCall is a call of convert.
type convertCall struct {
	*call
	to string
}

func newConvertCommand(s *command.Streams) *cli.Command {
	c := &convertCall{call: newCall(s)}
	return &cli.Command{
		Name:      "convert",
		Category:  command.CategoryBridge,
		Usage:     "convert messages",
		ArgsUsage: "PATH… --to FORM",
		Description: `PATH is a file, a folder of messages with everything below it, or - for standard input
(the default).

--to bridge reads message files and prints records, one per line; oacp mirror writes
them into a log. --to mailbox reads bridge logs and delivers their records to the
workspace, each once. Anything that is not a message or record, or cannot be delivered,
is reported on standard error; the rest is converted.

EXAMPLES:
   oacp convert --to bridge agents/claude/outbox > claude.jsonl
   oacp convert --to mailbox bridge.jsonl
   ssh build cat bridge.jsonl | oacp convert --to mailbox -`,
		Flags: c.flagsWith(
			&cli.StringFlag{Name: "to", Usage: "make `FORM`: bridge (records of message files) or mailbox (messages of bridge logs)", Destination: &c.to}),
		Action: c.action(anyNumber, c.run),
	}
}

func (c *convertCall) run() error {
	if len(c.words) == 0 {
		if c.InTerminal {
			return failure.Usagef("needs a file, a folder, or -")
		}
		c.words = []string{"-"}
	}
	switch c.to {
	case toBridge:
		return c.convertToBridge()
	case toMailbox:
		return c.with(nil, c.convertToMailbox)
	default:
		return failure.Usagef("--to: %s is neither %s nor %s", visible.Quote(c.to), toBridge, toMailbox).
			WithHint(spelling.DidYouMean([]string{toBridge, toMailbox}, c.to, "say --to bridge or --to mailbox"))
	}
}

// convertToBridge makes records of message files.
func (c *convertCall) convertToBridge() error {
	var messages []*schema.Message
	var problems []error
	for m, err := range validate.ReadFiles(c.words, c.In) {
		if err != nil {
			problems = append(problems, err)
			continue
		}
		messages = append(messages, m)
	}
	records, failed := convert.Records(messages)
	for _, r := range records {
		if err := printRecord(r, c.Streams); err != nil {
			return err
		}
	}
	problems = append(problems, failed...)
	for _, err := range problems {
		c.Warn(err.Error())
	}
	if len(problems) == 0 {
		return c.Out.Flush()
	}
	return &failure.Error{Code: "invalid_message", Err: fmt.Errorf("%s could not be converted", spelling.Plural(len(problems), "item"))}
}

// convertToMailbox delivers the records of logs. If some cannot be delivered, it goes on with the next log.
func (c *convertCall) convertToMailbox(w *mailbox.Workspace) error {
	var reported error
	for _, name := range c.words {
		err := c.deliverLog(w, name)
		if errors.Is(err, failure.ErrReported) {
			reported = failure.ErrReported
		} else if err != nil {
			return err
		}
	}
	return reported
}

// deliverLog delivers the records of a log, or of standard input for "-".
func (c *convertCall) deliverLog(w *mailbox.Workspace, name string) error {
	input := c.In
	if name == "-" {
		name = "<stdin>"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close() // nothing was written
		input = file
	}
	report, err := mirror.Deliver(c.ctx, w, name, bridge.ReadRecords(input, name))
	if err != nil {
		return err
	}
	return reportAnswer{Bridge: name, Report: report}.print(c.call)
}
