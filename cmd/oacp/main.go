// Command oacp sends, checks, lists, reads and answers the messages that
// coding agents leave each other in a shared folder.
//
// Each command is one file with three parts: newXCommand says how it is
// called, xOptions holds what the command line said, and runX does it. A
// command parses and prints; what it knows of messages and mailboxes is in
// the packages.
package main

import (
	"context"
	"os"

	"github.com/urfave/cli/v2"
)

func main() {
	status, first, err := runAsFirst()
	switch {
	case err != nil:
		failure := newFailure(err)
		status = failure.report(processStreams(), false)
	case !first:
		status = run(context.Background(), os.Args[1:], processStreams())
	}
	os.Exit(status)
}

// run carries out a command line and returns the exit status. Every error of
// every command ends here.
func run(ctx context.Context, args []string, s *streams) int {
	err := execute(ctx, args, s)
	if flushErr := s.out.Flush(); err == nil {
		err = flushErr
	}
	if err == nil {
		return exitDone
	}
	failure := newFailure(err)
	return failure.report(s, wantsJSON(args))
}

func execute(ctx context.Context, args []string, s *streams) error {
	app := newApp(s)
	call, err := parseArguments(app, args)
	if err != nil {
		return err
	}
	if call.help {
		return showHelp(s, app, call.command)
	}
	err = app.RunContext(ctx, call.args)
	if err != nil && call.command != nil {
		return &commandError{command: call.name(), err: err}
	}
	return err
}

// newApp lists the commands in the order of the help text.
func newApp(s *streams) *cli.App {
	app := &cli.App{
		Name:     "oacp",
		HelpName: "oacp",
		Usage:    "messages between coding agents, as files in a shared folder",
		Commands: []*cli.Command{
			newSendCommand(s),
			newReplyCommand(s),
			newInboxCommand(s),
			newReadCommand(s),
			newThreadCommand(s),
			newAckCommand(s),
			newMCPCommand(s),
			newValidateCommand(s),
			newSchemaCommand(s),
			newWatchCommand(s),
			newRunCommand(s),
			newPairCommand(s),
			newDashboardCommand(s),
			newStatusCommand(s),
			newAshCommand(s),
			newInitCommand(s),
			newAddAgentCommand(s),
			newBridgeCommand(s),
			newMirrorCommand(s),
			newConvertCommand(s),
			newDoctorCommand(s),
			newDemoCommand(s),
			newCompletionCommand(s),
			newCompleteCommand(s),
			newHelpCommand(),
			newVersionCommand(s),
		},
		Action: func(c *cli.Context) error {
			return usageErrorf("no command is given").withHint("see oacp help")
		},
		Writer:    s.out,
		ErrWriter: s.err,
		// Help is ours, so that help, -h and --help say the same everywhere.
		HideHelp: true,
		// Without this, the library exits by itself on some errors.
		ExitErrHandler: func(*cli.Context, error) {},
	}
	prepare(app.Commands, app.HelpName)
	return app
}

// prepare sets what all commands have in common.
func prepare(commands []*cli.Command, parent string) {
	for _, c := range commands {
		if parent != "oacp" {
			// The library itself names only the first level.
			c.HelpName = parent + " " + c.Name
		}
		c.HideHelp = true
		for _, f := range c.Flags {
			if f, ok := f.(*cli.BoolFlag); ok {
				// "default: false" would stand behind every one of them.
				f.DisableDefaultText = true
			}
		}
		c.OnUsageError = func(_ *cli.Context, err error, _ bool) error {
			return usageErrorf("%w", err).withHint("see " + parent + " help " + c.Name)
		}
		prepare(c.Subcommands, parent+" "+c.Name)
	}
}
