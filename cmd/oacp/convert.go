package main

import (
	"errors"
	"fmt"
	"iter"
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

func newConvertCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "convert",
		Category:  command.CategoryBridge,
		Usage:     "convert messages to records and back",
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
		Flags: flagsWith(
			&cli.StringFlag{Name: "to", Usage: "make `FORM`: bridge (records of message files) or mailbox (messages of bridge logs)"}),
		Action: action(s, anyNumber, runConvert),
	}
}

func runConvert(c *call) error {
	if len(c.words) == 0 {
		if c.InTerminal {
			return failure.Usagef("needs a file, a folder, or -")
		}
		c.words = []string{"-"}
	}
	switch to := c.text("to"); {
	case to != toBridge && to != toMailbox:
		return failure.Usagef("--to: %s is neither %s nor %s", visible.Quote(to), toBridge, toMailbox).
			WithHint(spelling.DidYouMean([]string{toBridge, toMailbox}, to, "say --to bridge or --to mailbox"))
	}
	if c.text("to") == toBridge {
		return convertToBridge(c)
	}
	return c.open(convertToMailbox)
}

// convertToBridge makes records of message files.
func convertToBridge(c *call) error {
	var messages []*schema.Message
	var invalid []string
	for m, err := range validate.ReadFiles(c.words, c.In) {
		if err != nil {
			invalid = append(invalid, err.Error())
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
	for _, err := range failed {
		invalid = append(invalid, err.Error())
	}
	for _, text := range invalid {
		c.Warn(text)
	}
	return notConverted(len(invalid))
}

// notConverted returns the error that some files or records could not be converted, or nil for none.
func notConverted(count int) error {
	if count == 0 {
		return nil
	}
	return &failure.Error{Code: "invalid_message", Err: fmt.Errorf("%s could not be converted", spelling.Plural(count, "item"))}
}

// convertToMailbox delivers the records of logs.
func convertToMailbox(c *call, w *mailbox.Workspace) error {
	return eachLog(c, func(name string, records iter.Seq2[bridge.Entry, error]) error {
		report, err := mirror.Deliver(c.ctx, w, name, records)
		if err != nil {
			return err
		}
		return reportAnswer{Bridge: name, Report: report}.print(c)
	})
}

// eachLog calls use with the records of each log. A failure.ErrReported does not keep it from the next.
func eachLog(c *call, use func(name string, records iter.Seq2[bridge.Entry, error]) error) error {
	var reported error
	for _, name := range c.words {
		err := useLog(c, name, use)
		if errors.Is(err, failure.ErrReported) {
			reported = failure.ErrReported
		} else if err != nil {
			return err
		}
	}
	return reported
}

// useLog calls use with the records of one log, which is standard input for "-".
func useLog(c *call, name string, use func(name string, records iter.Seq2[bridge.Entry, error]) error) error {
	if name == "-" {
		return use("<stdin>", bridge.ReadRecords(c.In, "<stdin>"))
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close() // nothing was written
	return use(name, bridge.ReadRecords(file, name))
}
