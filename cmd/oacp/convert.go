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

type convertOptions struct {
	workspace command.Workspace
	log       command.BridgeLog
	to        string
	paths     []string
	dryRun    bool
	json      bool
}

// What convert converts to.
const (
	toBridge  = "bridge"
	toMailbox = "mailbox"
)

func newConvertCommand(s *command.Streams) *cli.Command {
	var o convertOptions
	flags := []cli.Flag{
		&cli.StringFlag{Name: "to", Usage: "make `FORM`: bridge (records of message files) or mailbox (messages of bridge logs)", Destination: &o.to},
		&cli.BoolFlag{Name: "dry-run", Usage: "print the messages and deliver nothing", Destination: &o.dryRun},
		command.JSONFlag(&o.json),
	}
	return &cli.Command{
		Name:      "convert",
		Category:  command.CategoryBridge,
		Usage:     "convert messages to records and back",
		ArgsUsage: "PATH… --to FORM",
		Description: `PATH is a file, a folder with everything below it, or - for standard input (the
default).

--to bridge reads message files and prints records, one per line; with --bridge or
--run-id it appends them to that log. --to mailbox reads bridge logs (in folders,
the files named bridge.jsonl) and delivers their records to the workspace. Neither
ever converts the same item twice. Anything that is not a message or record, or cannot
be delivered, is reported on standard error; the rest is converted.

EXAMPLES:
   oacp convert --to bridge agents/claude/outbox > claude.jsonl
   oacp convert --to bridge agents/claude/outbox --run-id 1
   oacp convert --to mailbox ~/.agentpair/runs
   ssh build cat bridge.jsonl | oacp convert --to mailbox -`,
		Flags: append(append(flags, o.log.WritingFlags()...), o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			o.paths = command.Positionals(c)
			if err := o.check(c, s); err != nil {
				return err
			}
			return runConvert(c.Context, o, s)
		},
	}
}

func (o *convertOptions) check(c *cli.Context, s *command.Streams) error {
	if len(o.paths) == 0 {
		if s.InTerminal {
			return failure.Usagef("needs a file, a folder, or -")
		}
		o.paths = []string{"-"}
	}
	switch {
	case o.to != toBridge && o.to != toMailbox:
		return failure.Usagef("--to: %s is neither %s nor %s", visible.Quote(o.to), toBridge, toMailbox).
			WithHint(spelling.DidYouMean([]string{toBridge, toMailbox}, o.to, "say --to bridge or --to mailbox"))
	case o.to == toMailbox && o.log.Given():
		return failure.Usagef("--to mailbox reads the logs that are named as PATH").WithHint("oacp mirror --direction in delivers the log of a run")
	case o.to == toBridge && o.dryRun:
		return failure.Usagef("--dry-run requires --to mailbox").WithHint("without a log, --to bridge only prints")
	}
	return o.log.Check(c)
}

func runConvert(ctx context.Context, o convertOptions, s *command.Streams) error {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	run := o.toMailbox
	switch {
	case o.to == toBridge:
		run = o.toBridge
	case o.dryRun:
		run = o.showMessages
	}
	err := run(ctx, s)
	return cmp.Or(context.Cause(ctx), err)
}

// toBridge makes records of message files.
func (o convertOptions) toBridge(ctx context.Context, s *command.Streams) error {
	in := s.In
	if slices.Contains(o.paths, "-") {
		reading := startReading(ctx, "-", s)
		defer reading.Close() // it never fails
		in = reading
	}
	var messages []*schema.Message
	var invalid []string
	for m, err := range validate.ReadFiles(o.paths, in) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			invalid = append(invalid, err.Error())
			continue
		}
		messages = append(messages, m)
	}
	if o.log.Given() {
		return o.log.With(s, bridge.Options{}, func(log *bridge.Log) error {
			report, err := mirror.Append(ctx, log, messages)
			if err != nil {
				return err
			}
			return reportAnswer{Bridge: log.Path(), Report: report, Invalid: invalid}.print(o.json, s)
		})
	}
	records, failed := convert.Records(messages)
	for _, r := range records {
		if err := printRecord(r, s); err != nil {
			return err
		}
	}
	for _, err := range failed {
		invalid = append(invalid, err.Error())
	}
	for _, text := range invalid {
		s.Warn(text)
	}
	return notConverted(len(invalid))
}

// notConverted returns the error that some files or records could not be converted, or nil for none.
func notConverted(count int) error {
	if count == 0 {
		return nil
	}
	return &failure.Error{Code: "invalid_message", Err: fmt.Errorf("%s could not be converted", spelling.Count(count, "item"))}
}

// toMailbox delivers the records of logs.
func (o convertOptions) toMailbox(ctx context.Context, s *command.Streams) error {
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		return o.eachLog(ctx, s, func(name string, records iter.Seq2[bridge.Entry, error]) error {
			report, err := mirror.Deliver(ctx, w, name, records)
			if err != nil {
				return err
			}
			return reportAnswer{Bridge: name, Report: report}.print(o.json, s)
		})
	})
}

// showMessages prints the messages that records become. Broadcasts go to the agents of the workspace, if there is one.
func (o convertOptions) showMessages(ctx context.Context, s *command.Streams) error {
	var agents []schema.AgentName
	err := o.workspace.With(s, nil, func(w *mailbox.Workspace) (err error) {
		agents, err = w.Agents()
		return err
	})
	if err != nil && !errors.Is(err, mailbox.ErrNoWorkspace) {
		return err
	}
	shown, failed := make(map[schema.ID]bool), 0
	err = o.eachLog(ctx, s, func(name string, records iter.Seq2[bridge.Entry, error]) error {
		for e, err := range records {
			var skipped *bridge.LineError
			if errors.As(err, &skipped) {
				s.Warn("skipped " + skipped.Error())
				continue
			}
			if err != nil {
				return err
			}
			m, err := convert.FromBridge(e.Record, agents)
			if err != nil {
				failed++
				s.Warn(fmt.Sprintf("%s:%d: undeliverable: %v", name, e.Line, err))
				continue
			}
			if shown[m.ID] { // a record of the same message to another recipient
				continue
			}
			shown[m.ID] = true
			if err := o.showMessage(m, s); err != nil {
				return fmt.Errorf("%s:%d: %w", name, e.Line, err)
			}
		}
		return nil
	})
	return cmp.Or(err, notConverted(failed))
}

// showMessage prints a message as a YAML document, or as JSON.
func (o convertOptions) showMessage(m *schema.Message, s *command.Streams) error {
	if o.json {
		return command.WriteJSONLine(s.Out, m)
	}
	data, err := schema.Encode(m)
	if err != nil {
		return err
	}
	if s.OutTerminal {
		data = []byte(visible.Lines(string(data)))
	}
	_, err = fmt.Fprintf(s.Out, "---\n%s", data)
	return err
}

// eachLog calls use with the records of each log that the paths name. A failure.ErrReported does not keep it from the
// next log.
func (o convertOptions) eachLog(ctx context.Context, s *command.Streams, use func(name string, records iter.Seq2[bridge.Entry, error]) error) error {
	var reported error
	for _, path := range o.paths {
		logs := []string{path}
		if path != "-" {
			var err error
			if logs, err = bridge.FindLogs(path); err != nil {
				return err
			}
		}
		for _, name := range logs {
			in := startReading(ctx, name, s)
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
	}
	return reported
}

// startReading opens and reads a file or, if the path is -, standard input. Either may take forever if it is a pipe:
// when the context ends, the returned reader fails, and an open or read that goes on is left to the end of the process.
func startReading(ctx context.Context, path string, s *command.Streams) io.ReadCloser {
	read, write := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = write.CloseWithError(context.Cause(ctx)) }) // it never fails
	file := io.NopCloser(s.In)
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
