package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
)

type bridgeSendOptions struct {
	log     command.BridgeLog
	from    string
	to      string
	typ     string
	signal  string
	content string
	noSync  bool
	json    bool
}

func newBridgeSendCommand(s *command.Streams) *cli.Command {
	var o bridgeSendOptions
	flags := append(o.log.WritingFlags(),
		&cli.StringFlag{Name: "from", Usage: "the sender is `AGENT` (default: $OACP_AGENT, then $AGENT_NAME)", Destination: &o.from},
		&cli.StringFlag{Name: "to", Usage: "the receiver is `AGENT` (default: everybody)", Destination: &o.to},
		&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "the record is a `KIND`: " + nameList(bridge.Types()), Destination: &o.typ},
		&cli.StringFlag{Name: "signal", Usage: "the control signal is `SIGNAL`: " + nameList(bridge.Signals()) + "; makes the type signal", Destination: &o.signal},
		&cli.StringFlag{Name: "content", Usage: "the record says `TEXT`, - for standard input", Destination: &o.content},
		&cli.BoolFlag{Name: "no-sync", Category: command.Rare, Usage: "do not wait for the disk: a power cut may lose the record", Destination: &o.noSync},
		command.JSONFlag(&o.json))
	return &cli.Command{
		Name:      "send",
		Usage:     "append a record to the log, once",
		ArgsUsage: "--from AGENT [--to AGENT] --type KIND",
		Description: logHelp + ` If the repository has no run, send creates run 1.

If the log already holds the record, send writes nothing, prints the record's position
and succeeds, so you can repeat it. The id covers only type, sender, receiver and
content. If a different record has the same id, such as a FAIL with the content of
this PASS, send fails: use other words.

EXAMPLES:
   oacp bridge send --from claude --to codex --type task --content "Add a login"
   git diff | oacp bridge send --from codex -t result --content -
   oacp bridge send --from claude --signal PASS --content Approved`,
		Flags: flags,
		Action: func(c *cli.Context) error {
			if err := errors.Join(command.NoPositionals(c), o.log.Check(c)); err != nil {
				return err
			}
			return o.run(c.Context, s)
		},
	}
}

func (o bridgeSendOptions) run(ctx context.Context, s *command.Streams) error {
	record, err := o.record(s)
	if err != nil {
		return err
	}
	return o.log.With(s, bridge.Options{NoSync: o.noSync}, func(log *bridge.Log) error {
		receipt, err := log.Send(ctx, record)
		if err == nil {
			err = receipt.Conflict(record)
		}
		if err != nil {
			return err
		}
		return o.print(log, receipt, s)
	})
}

// record returns the record that the command line describes.
func (o bridgeSendOptions) record(s *command.Streams) (r bridge.Record, err error) {
	if o.typ == "" && o.signal != "" {
		o.typ = string(bridge.TypeSignal)
	}
	r = bridge.Record{Type: bridge.Type(o.typ), To: o.to, Signal: bridge.Signal(strings.ToUpper(o.signal))}
	switch {
	case o.typ == "":
		return r, failure.Usagef("needs --type").WithHint("the types are " + nameList(bridge.Types()))
	case !r.Type.Known():
		return r, unknownName("type", o.typ, bridge.Types())
	case o.signal != "" && !r.Signal.Known():
		return r, unknownName("signal", o.signal, bridge.Signals())
	case (r.Type == bridge.TypeSignal) != (r.Signal != ""):
		return r, failure.Usagef("--type signal and --signal go together").WithHint("the signals are " + nameList(bridge.Signals()))
	}
	if r.From, err = agentOrEnvironment(o.from, s); err != nil {
		return r, err
	}
	if r.To == r.From {
		return r, failure.Usagef("--to: %s is the sender", visible.Quote(r.To)).WithHint("leave --to out to send to everybody else")
	}
	r.Content, err = o.readContent(s)
	return r, err
}

func unknownName[Name ~string](flag, name string, known []Name) error {
	return failure.Usagef("--%s: there is no %s %s", flag, flag, visible.Quote(name)).
		WithHint(spelling.DidYouMean(known, name, "the "+flag+"s are "+nameList(known)))
}

// readContent returns the text given, or what is piped in. A signal needs none.
func (o bridgeSendOptions) readContent(s *command.Streams) (string, error) {
	if o.content != "" && o.content != "-" || o.content == "" && o.signal != "" {
		return o.content, nil
	}
	text, err := "", error(nil)
	if o.content == "-" || !s.InTerminal {
		if text, err = readInput("-", s); err != nil {
			return "", fmt.Errorf("content: %w", err)
		}
	}
	if strings.TrimSpace(text) == "" {
		return "", failure.Usagef("content: missing: there is no --content, and standard input is empty").WithHint("use --content TEXT, or a pipe")
	}
	return text, nil
}

func (o bridgeSendOptions) print(log *bridge.Log, receipt bridge.Receipt, s *command.Streams) error {
	object, err := withKeys(receipt.Record, struct {
		Duplicate bool   `json:"duplicate"`
		Line      int    `json:"line"`
		Bridge    string `json:"bridge_path"`
	}{receipt.Duplicate, receipt.Line, log.Path()})
	if err != nil {
		return err
	}
	return s.Answer(o.json, object, func() {
		if receipt.Duplicate {
			fmt.Fprintf(s.Out, "duplicate: %s\n  sent:   %s\n", visible.Line(receipt.ID), visible.Line(receipt.Timestamp))
		} else {
			fmt.Fprintf(s.Out, "OK: %s\n", visible.Line(receipt.ID))
		}
		fmt.Fprintf(s.Out, "  bridge: %s, line %d\n", visible.Line(log.Path()), receipt.Line)
	})
}

// nameList joins words for a sentence.
func nameList[Name ~string](names []Name) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(names), " ", ", "), "[]")
}
