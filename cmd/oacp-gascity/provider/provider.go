// Package provider carries out the operations of Gas City's mail on a workspace, one in each process. It speaks the
// protocol of providers that Gas City executes: arguments and standard input say what to do, and JSON is the answer.
package provider

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// A provider works on the mail of one workspace.
type provider struct {
	*command.Streams
	ctx  context.Context
	w    *mailbox.Workspace
	news map[schema.AgentName]*track.News
}

// An operation gets its operand, a recipient or an id, and returns what to print as JSON. Nothing is printed for nil
// and for an empty list.
type operation func(p *provider, operand string) (any, error)

var operations = map[string]operation{
	"send": (*provider).send, "reply": (*provider).reply,
	"inbox": (*provider).unread, "check": (*provider).unread, "all": (*provider).all, "count": (*provider).count,
	"get": (*provider).get, "thread": (*provider).thread,
	"read": (*provider).read, "mark-read": (*provider).read, "mark-unread": (*provider).markUnread,
	"archive": (*provider).archive, "delete": (*provider).archive,
	"ensure-running": nil, // Gas City calls it first, without an operand
}

// Main runs a command line and returns the exit status. Gas City takes status 2 as "unknown operation" and goes on as
// if that had succeeded, so no other error of an operation has it.
func Main(args []string, s *command.Streams) int {
	p := &command.Program{Commands: []command.Entry{{Name: "gascity", New: NewCommand}, {Name: "version", New: command.NewVersionCommand}}}
	isOperation := false
	if len(args) > 0 {
		_, isOperation = operations[args[0]]
	}
	switch {
	case isOperation:
		args = append([]string{"gascity", "--"}, args...) // no operand is a flag
	case len(args) == 0 || args[0] != "--version" && args[0] != "-V":
		args = append([]string{"gascity"}, args...)
	}
	status := p.Run(context.Background(), args, s)
	if isOperation && status == failure.ExitUsage {
		return failure.ExitFailed
	}
	return status
}

// NewCommand returns the command that carries out one operation.
func NewCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "gascity",
		Category:  command.CategoryBridge,
		Usage:     "be the mail of a Gas City",
		ArgsUsage: "OPERATION [RECIPIENT|ID|THREAD]",
		Description: `Gas City runs this program for each operation on its mail if GC_MAIL, or
provider in [mail] of city.toml, is exec:oacp-gascity. The workspace is the one that
OACP_WORKSPACE names, else the nearest one at or above the city, else at or above the
current folder. Mailboxes are made when they are first used.

   send RECIPIENT, reply ID                        standard input is JSON
   inbox, check, all, count RECIPIENT              "" is every recipient
   get, read, mark-read, mark-unread, archive, delete ID
   thread THREAD, ensure-running

An ID of a message with several recipients ends in @RECIPIENT.

EXAMPLES:
   GC_MAIL=exec:oacp-gascity gc mail send mayor -s Hello -m "…"`,
		Action: func(c *cli.Context) error {
			before, words := command.PositionalsAndRest(c)
			return run(c.Context, append(before, words...), s)
		},
	}
}

func run(ctx context.Context, words []string, s *command.Streams) (err error) {
	if len(words) == 0 {
		return failure.Usagef("no operation is given").WithHint("see oacp-gascity --help")
	}
	do, isKnown := operations[words[0]]
	switch {
	case !isKnown:
		return failure.Usagef("there is no operation %s", visible.Quote(words[0])).WithHint("see oacp-gascity --help")
	case do != nil && len(words) != 2:
		return failure.Usagef("%s needs one argument, not %d", words[0], len(words)-1).WithHint("see oacp-gascity --help")
	}
	place := command.Workspace{}.Place(s)
	if city := s.Getenv("GC_CITY"); filepath.IsAbs(city) { // the current folder is that of an agent, perhaps elsewhere
		place.WorkingDir = city
	}
	w, err := client.OpenWorkspace(place, nil, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if do == nil {
		return nil
	}
	if agent := agentOf(cmp.Or(s.Getenv("GC_ALIAS"), s.Getenv("GC_SESSION_ID"), s.Getenv("GC_AGENT"))); agent.Valid() {
		w.ViewAs(agent)
	}
	p := &provider{Streams: s, ctx: ctx, w: w, news: make(map[schema.AgentName]*track.News)}
	answer, err := do(p, words[1])
	if mails, isList := answer.([]mail); err != nil || answer == nil || isList && len(mails) == 0 {
		return err
	}
	return command.WriteJSONLine(s.Out, answer)
}
