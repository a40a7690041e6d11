package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

type ackOptions struct {
	workspace     command.Workspace
	ids           []string
	agent         string
	archive, json bool
}

func newAckCommand(s *command.Streams) *cli.Command {
	var o ackOptions
	return &cli.Command{
		Name:      "ack",
		Category:  command.CategoryMessages,
		Usage:     "mark messages as handled",
		ArgsUsage: "ID|FILE…",
		Description: `Removes the message from the inbox, or with --archive moves it to the agent's
archive. The sender keeps a copy in its outbox, and other recipients keep theirs.

Name a file that is not a message as oacp inbox lists it. There may be no other
copy of such a file, so look at it first, or archive it.

If one of the ids is unknown, ack does nothing.

EXAMPLES:
   oacp ack k3x9
   oacp ack notes.yaml --archive
   oacp ack k3x9 p0q2 --archive --agent codex`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "in the inbox of `AGENT` (default: $OACP_AGENT)", Destination: &o.agent},
			&cli.BoolFlag{Name: "archive", Usage: "keep the file in the archive", Destination: &o.archive},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			o.ids = command.Positionals(c)
			if len(o.ids) == 0 {
				return errNoID()
			}
			return runAck(c.Context, o, s)
		},
	}
}

// acknowledgedJSON is an acknowledged message or file.
type acknowledgedJSON struct {
	MessageID schema.ID        `json:"message_id,omitempty"`
	File      string           `json:"file"`
	Agent     schema.AgentName `json:"agent"`
	Path      string           `json:"path"`
	Archived  string           `json:"archive_path,omitempty"`
}

func runAck(ctx context.Context, o ackOptions, s *command.Streams) error {
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		agent, err := command.AgentOf(w, o.agent, s)
		if err != nil && !errors.Is(err, project.ErrNoSender) {
			return err
		}
		var entries []mailbox.Entry
		for _, id := range o.ids {
			e, err := w.Pending(ctx, id, agent)
			if err != nil {
				return err
			}
			// A message can be named twice.
			if !slices.ContainsFunc(entries, func(other mailbox.Entry) bool { return other.Path == e.Path }) {
				entries = append(entries, e)
			}
		}
		var done []acknowledgedJSON
		for _, e := range entries {
			one := acknowledgedJSON{File: e.Name, Agent: e.Agent, Path: e.Path}
			if e.Err == nil {
				one.MessageID = e.Message.ID
			}
			if o.archive {
				one.Archived, err = w.ArchiveEntry(e)
			} else {
				err = w.Acknowledge(e)
			}
			if err != nil {
				break
			}
			done = append(done, one)
		}
		if len(done) > 0 {
			err = errors.Join(o.print(done, s), err)
		}
		return err
	})
}

func (o ackOptions) print(done []acknowledgedJSON, s *command.Streams) error {
	if o.json {
		// One line, because an error may follow on another.
		return command.WriteJSONLine(s.Out, map[string]any{"acknowledged": done})
	}
	for _, one := range done {
		fmt.Fprintf(s.Out, "OK: %s\n", visible.Line(cmp.Or(string(one.MessageID), one.File)))
		if one.Archived != "" {
			fmt.Fprintf(s.Out, "  archive: %s\n", visible.Line(one.Archived))
		}
	}
	return nil
}
