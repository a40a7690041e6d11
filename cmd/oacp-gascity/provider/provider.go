// Package provider carries out the operations of Gas City's mail on a workspace, one in each process. It speaks the
// protocol of providers that Gas City executes: arguments and standard input say what to do, and JSON is the answer.
package provider

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
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

// An operation gets its operand, a recipient or an id, and returns what to print as JSON. It returns nil to print
// nothing, which is also how the protocol writes an empty list.
type operation func(p *provider, operand string) (any, error)

var operations = map[string]operation{
	"send": (*provider).send, "reply": (*provider).reply,
	"inbox": (*provider).unread, "check": (*provider).unread, "all": (*provider).all, "count": (*provider).count,
	"get": (*provider).get, "thread": (*provider).thread,
	"read": (*provider).read, "mark-read": (*provider).markRead, "mark-unread": (*provider).markUnread,
	"archive": (*provider).archive, "delete": (*provider).archive,
}

// ensureRunning is the operation that Gas City calls first. It has no operand, and fails if there is no workspace.
const ensureRunning = "ensure-running"

// Main runs a command line and returns the exit status. Gas City takes status 2 as "unknown operation" and goes on as
// if that had succeeded, so no other error has it.
func Main(args []string, s *command.Streams) int {
	p := &command.Program{Commands: []command.Entry{{Name: "gascity", New: NewCommand}, {Name: "version", New: command.NewVersionCommand}}}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		if !slices.Equal(args, []string{"--version"}) && !slices.Equal(args, []string{"-V"}) {
			args = append([]string{"gascity"}, args...)
		}
		return p.Run(context.Background(), args, s)
	}
	status := p.Run(context.Background(), append([]string{"gascity", "--"}, args...), s) // no operand is a flag
	if status == failure.ExitUsage && (operations[args[0]] != nil || args[0] == ensureRunning) {
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
   thread THREAD
   ensure-running

An ID of a message with several recipients ends in @RECIPIENT.

EXAMPLES:
   GC_MAIL=exec:oacp-gascity gc mail send mayor -s Hello -m "…"
   oacp-gascity inbox mayor`,
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
	name := words[0]
	do := operations[name]
	switch {
	case name == ensureRunning:
		do, words = func(*provider, string) (any, error) { return nil, nil }, []string{name, ""}
	case do == nil:
		return failure.Usagef("there is no operation %s", visible.Quote(name)).WithHint("see oacp-gascity --help")
	case len(words) != 2:
		return failure.Usagef("%s needs one argument, not %d", name, len(words)-1).WithHint("see oacp-gascity --help")
	}
	w, err := command.Open(place(s), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	p := &provider{Streams: s, ctx: ctx, w: w, news: make(map[schema.AgentName]*track.News)}
	answer, err := do(p, words[1])
	if err != nil || answer == nil {
		return err
	}
	return command.WriteJSONLine(s.Out, answer)
}

// place says where the workspace is: Gas City starts the provider in the folder of an agent, which may be outside of
// the city.
func place(s *command.Streams) project.Place {
	place := command.Workspace{}.Place(s)
	for _, name := range []string{"GC_CITY", "GC_CITY_PATH"} {
		if city := s.Getenv(name); filepath.IsAbs(city) {
			place.WorkingDir = city
			break
		}
	}
	return place
}
