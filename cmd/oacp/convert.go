package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

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
			&cli.StringFlag{Name: "to", Usage: "make `FORM`: bridge (records of message files) or mailbox (messages of bridge logs)"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print the messages and deliver nothing"}),
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
	case to == toBridge && c.isOn("dry-run"):
		return failure.Usagef("--dry-run requires --to mailbox").WithHint("--to bridge only prints")
	}
	defer c.catchSignals()()
	var err error
	switch {
	case c.text("to") == toBridge:
		err = convertToBridge(c)
	case c.isOn("dry-run"):
		err = showConverted(c)
	default:
		err = c.open(convertToMailbox)
	}
	return cmp.Or(context.Cause(c.ctx), err)
}

// convertToBridge makes records of message files.
func convertToBridge(c *call) error {
	in := c.In
	if slices.Contains(c.words, "-") {
		reading := startReading(c, "-")
		defer reading.Close() // it never fails
		in = reading
	}
	var messages []*schema.Message
	var invalid []string
	for m, err := range validate.ReadFiles(c.words, in) {
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
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

// showConverted prints the messages that records become. Broadcasts go to the agents of the workspace, if there is one.
func showConverted(c *call) error {
	var agents []schema.AgentName
	err := c.open(func(_ *call, w *mailbox.Workspace) (err error) {
		agents, err = w.Agents()
		return err
	})
	if err != nil && !errors.Is(err, mailbox.ErrNoWorkspace) {
		return err
	}
	shown, failed := make(map[schema.ID]bool), 0
	err = eachLog(c, func(name string, records iter.Seq2[bridge.Entry, error]) error {
		for e, err := range records {
			if skipped, ok := errors.AsType[*bridge.LineError](err); ok {
				c.Warn("skipped " + skipped.Error())
				continue
			}
			if err != nil {
				return err
			}
			m, err := convert.FromBridge(e.Record, agents)
			if err != nil {
				failed++
				c.Warn(fmt.Sprintf("%s:%d: undeliverable: %v", name, e.Line, err))
				continue
			}
			if shown[m.ID] { // a record of the same message to another recipient
				continue
			}
			shown[m.ID] = true
			if err := showMessage(c, m); err != nil {
				return fmt.Errorf("%s:%d: %w", name, e.Line, err)
			}
		}
		return nil
	})
	return cmp.Or(err, notConverted(failed))
}

// showMessage prints a message as a YAML document, or as JSON.
func showMessage(c *call, m *schema.Message) error {
	if c.json() {
		return command.WriteJSONLine(c.Out, m)
	}
	data, err := schema.Encode(m)
	if err != nil {
		return err
	}
	if c.OutTerminal {
		data = []byte(visible.Lines(string(data)))
	}
	c.printf("---\n%s", data)
	return nil
}

// eachLog calls use with the records of each log. A failure.ErrReported does not keep it from the next.
func eachLog(c *call, use func(name string, records iter.Seq2[bridge.Entry, error]) error) error {
	var reported error
	for _, name := range c.words {
		in := startReading(c, name)
		if name == "-" {
			name = "<stdin>"
		}
		err := errors.Join(use(name, bridge.ReadRecords(in, name)), in.Close())
		if errors.Is(err, failure.ErrReported) {
			reported = failure.ErrReported
		} else if err != nil {
			return err
		}
	}
	return reported
}

// startReading opens and reads a file or, if the path is -, standard input. Either may take forever if it is a pipe:
// when the context ends, the returned reader fails, and an open or read that goes on is left to the end of the process.
func startReading(c *call, path string) io.ReadCloser {
	read, write := io.Pipe()
	stop := context.AfterFunc(c.ctx, func() { _ = write.CloseWithError(context.Cause(c.ctx)) }) // it never fails
	file := io.NopCloser(c.In)
	go func() {
		defer stop()
		var err error
		if path != "-" {
			file, err = os.Open(path)
		}
		if err == nil {
			_, err = io.Copy(write, file)
			err = errors.Join(err, file.Close())
		}
		_ = write.CloseWithError(err) // it never fails
	}()
	return read
}
