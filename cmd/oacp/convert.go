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
	"strings"

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
		Description: `PATH is a file, a folder with everything below it, or - for standard input (the
default).

--to bridge reads message files and prints records, one per line; oacp mirror writes
them into a log. --to mailbox reads bridge logs (in folders, the files named
bridge.jsonl) and delivers their records to the workspace, each once. Anything that is
not a message or record, or cannot be delivered, is reported on standard error; the
rest is converted.

EXAMPLES:
   oacp convert --to bridge agents/claude/outbox > claude.jsonl
   oacp convert --to mailbox ~/.agentpair/runs
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
	return &failure.Error{Code: "invalid_message", Err: fmt.Errorf("%s could not be converted", spelling.Count(count, "item"))}
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

// eachLog calls use with the records of each log that the paths name. A failure.ErrReported does not keep it from the
// next log.
func eachLog(c *call, use func(name string, records iter.Seq2[bridge.Entry, error]) error) error {
	var reported error
	for _, path := range c.words {
		logs := []string{path}
		if path != "-" {
			var err error
			if logs, err = bridge.FindLogs(path); err != nil {
				return err
			}
		}
		for _, name := range logs {
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

func newMirrorCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "mirror",
		Category:  command.CategoryBridge,
		Usage:     "synchronize mailboxes with a bridge log",
		ArgsUsage: "[PROJECT] [--follow] [--direction WAY]",
		Description: logHelp + ` If the repository has no run, mirror creates run 1.

mirror copies sent messages to the log and records to the mailboxes, each exactly once,
even if it is run repeatedly or killed midway.

The log of a run gets the messages sent since the run began. A repository's first run
and a log without a manifest get all messages. Messages from another log are left out.
--since and --all also record messages that would be left out.

A record that cannot be delivered becomes a dead letter with the reason; mirror copies
the rest, and fails.

With --follow, mirror prints a line for each copy until a signal stops it, and then
exits with status 0.

EXAMPLES:
   oacp mirror
   oacp mirror --run-id 1 --direction out
   oacp mirror --run-id 2 --since 2h
   oacp mirror my-project --bridge bridge.jsonl --follow`,
		Flags: flagsWith(append([]cli.Flag{
			&cli.StringFlag{Name: "direction", Usage: "copy `WAY`: out (to the log), in (to the mailboxes), or both", Value: string(mirror.Both)},
			&cli.StringFlag{Name: "since", Usage: "record messages since `TIME`: an age such as 2h, or YYYY-MM-DDTHH:MM:SSZ", DefaultText: "when the run began"},
			&cli.BoolFlag{Name: "all", Usage: "record everything in the outboxes, including older messages and messages from other logs"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep running and copy new messages until stopped"},
			new(command.Sync).Flag(command.Rare),
			&cli.BoolFlag{Name: "no-sync", Category: command.Rare, Usage: "do not wait for the disk: a power cut may lose copies"},
		}, new(command.BridgeLog).WritingFlags()...)...),
		Action: ofProject(s, runMirror),
	}
}

func runMirror(c *call) error {
	selected, err := bridgeLog(c.flags)
	if err != nil {
		return err
	}
	m := &mirror.Mirror{All: c.isOn("all")}
	if m.Direction, err = mirror.ParseDirection(c.text("direction")); err != nil {
		return failure.Usagef("--direction: %w", err)
	}
	if since := c.text("since"); since != "" {
		if m.All {
			return failure.Usagef("--since and --all are mutually exclusive")
		}
		if m.Since, err = parseSince(since, c.Now()); err != nil {
			return err
		}
	}
	return c.place.With(c.Streams, &mailbox.Options{NoSync: c.isOn("no-sync")}, func(w *mailbox.Workspace) error {
		synchronizer, err := c.synchronizer(w)
		if err != nil {
			return err
		}
		return selected.With(c.Streams, bridge.Options{NoSync: c.isOn("no-sync")}, func(log *bridge.Log) error {
			m.Workspace, m.Log = w, log
			defer c.catchSignals()()
			if c.isOn("follow") {
				return synchronizer.Around(c.ctx, false, func() error { return followMirror(c, m) })
			}
			var report mirror.Report
			synchronizer.Once(c.ctx)
			err := synchronizer.Around(c.ctx, false, func() (err error) {
				report, err = m.Run(c.ctx)
				return err
			})
			err = cmp.Or(context.Cause(c.ctx), err)
			// What was done before an error is done.
			printErr := reportAnswer{Bridge: log.Path(), Report: report, asText: err != nil}.print(c)
			return cmp.Or(err, printErr)
		})
	})
}

// followMirror prints a line whenever something was carried, until a signal ends it. That is not a failure.
func followMirror(c *call, m *mirror.Mirror) error {
	var printErr error
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	err := m.Follow(ctx, func(report mirror.Report, passErr error) {
		answer := reportAnswer{Bridge: m.Log.Path(), Report: report}
		if passErr != nil {
			answer.Error = strings.ReplaceAll(passErr.Error(), "\n", "; ")
			c.Warn(answer.Error)
		}
		err := answer.print(c)
		if errors.Is(err, failure.ErrReported) {
			err = nil
		}
		if err = errors.Join(err, c.Out.Flush()); err != nil {
			printErr = err
			cancel()
		}
	})
	return errors.Join(err, printErr)
}

// reportAnswer is what mirror and convert did, as JSON.
type reportAnswer struct {
	Bridge string `json:"bridge_path,omitempty"`
	mirror.Report
	// Error is what stopped the work; it will be tried again.
	Error string `json:"error,omitempty"`

	// asText prints text even with --json: JSON of an error follows.
	asText bool
}

// print says what was done and, on standard error, what was not. It returns failure.ErrReported if
// something is undeliverable.
func (a reportAnswer) print(c *call) error {
	var warnings []string
	for _, line := range a.Skipped {
		warnings = append(warnings, fmt.Sprintf("%s:%d: skipped: %s", a.Bridge, line.Line, line.Reason))
	}
	warnings = append(warnings, a.Warnings...)
	if a.MoreWarnings > 0 {
		warnings = append(warnings, fmt.Sprintf("and %d more", a.MoreWarnings))
	}
	for _, letter := range a.DeadLetters {
		warnings = append(warnings, fmt.Sprintf("undeliverable: %s (now %s)", letter.Reason, letter.Path))
	}
	for _, text := range warnings {
		c.Warn(text)
	}
	var err error
	if c.json() && !a.asText {
		err = command.WriteJSONLine(c.Out, a)
	} else {
		_, err = fmt.Fprintln(c.Out, a.summary())
	}
	if err == nil && len(a.DeadLetters) > 0 {
		err = failure.ErrReported
	}
	return err
}

// summary says in one line what was done.
func (a reportAnswer) summary() string {
	parts := []string{fmt.Sprintf("%d recorded", a.Recorded), fmt.Sprintf("%d delivered", a.Delivered)}
	already := a.AlreadyRecorded + a.AlreadyDelivered
	if a.Recorded+a.Delivered > 0 {
		already = 0 // the second direction also finds what the first one just did
	}
	for _, more := range []struct {
		count int
		what  string
	}{
		{already, "there already"},
		{len(a.DeadLetters), "undeliverable"},
		{a.LeftOut, "left out"},
		{len(a.Skipped), "skipped"},
	} {
		if more.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", more.count, more.what))
		}
	}
	return strings.Join(parts, ", ") + ": " + visible.Line(a.Bridge)
}
