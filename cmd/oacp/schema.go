package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/ash"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

type schemaOptions struct {
	workspace  command.Workspace
	name       string
	list, json bool
}

func newSchemaCommand(s *command.Streams) *cli.Command {
	var o schemaOptions
	return &cli.Command{
		Name:      "schema",
		Category:  command.CategoryFiles,
		Usage:     "print a JSON Schema",
		ArgsUsage: "[SCHEMA]",
		Description: `schema prints a JSON Schema (draft 2020-12): that of a message, or the one named
SCHEMA. SCHEMA is a message type with a typed body (handoff), bridge-record,
ash-command, ash-event, or one of the workspace's own schemas, for a message type
(question) or a channel (channel-findings). If a schema of the workspace has the name
of a built-in one, use its file name: handoff.schema.json.

An editor with a YAML language server checks a message file that starts with this line:

   # yaml-language-server: $schema=message.schema.json

EXAMPLES:
   oacp schema > message.schema.json
   oacp schema --list
   oacp schema channel-findings`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "list", Usage: "list the names of the schemas", Destination: &o.list},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			most := 1
			if o.list {
				most = 0
			}
			args, err := command.AtMost(c, most)
			if err != nil {
				return err
			}
			o.name = append(args, schema.MessageDocument)[0]
			return runSchema(o, s)
		},
	}
}

func runSchema(o schemaOptions, s *command.Streams) error {
	names := schemaNames()
	if !o.list && slices.Contains(names, o.name) {
		document, err := schemaDocument(o.name)
		if err == nil {
			_, err = s.Out.Write(document)
		}
		return err
	}
	return withSchemas(o.workspace, s, func(root *os.Root, dir string) error {
		own, err := contract.Names(root, dir)
		if err != nil {
			return err
		}
		for i, name := range own {
			if slices.Contains(names, name) {
				own[i] += contract.Suffix
			}
		}
		names = append(names, own...)
		if o.list {
			return s.Answer(o.json, names, func() { fmt.Fprintln(s.Out, strings.Join(names, "\n")) })
		}
		name := strings.TrimSuffix(o.name, contract.Suffix)
		if !slices.Contains(own, name) && !slices.Contains(own, o.name) {
			return failure.Usagef("there is no schema %s", visible.Quote(o.name)).
				WithHint(spelling.DidYouMean(names, o.name, "the schemas are "+strings.Join(names, ", ")))
		}
		schemas, err := contract.Load(root, dir, func(other string) bool { return other == name })
		if err == nil {
			err = schemas.Err()
		}
		if err == nil {
			_, err = fmt.Fprintln(s.Out, strings.TrimRight(schemas.Text(name), "\n"))
		}
		return err
	})
}

// withSchemas calls use with the workspace, or with a nil root if there is none here.
func withSchemas(o command.Workspace, s *command.Streams, use func(root *os.Root, dir string) error) error {
	err := o.With(s, nil, func(w *mailbox.Workspace) error { return use(w.Root(), w.Dir()) })
	if errors.Is(err, mailbox.ErrNoWorkspace) && o == (command.Workspace{}) {
		return use(nil, "")
	}
	return err
}

// lineSchemas are the schemas of lines of JSON.
var lineSchemas = map[string]func() []byte{
	"bridge-record": bridge.RecordSchema,
	"ash-command":   ash.CommandSchema,
	"ash-event":     ash.EventSchema,
}

func schemaNames() []string {
	return append(schema.DocumentNames(), slices.Sorted(maps.Keys(lineSchemas))...)
}

func schemaDocument(name string) ([]byte, error) {
	if document, ok := lineSchemas[name]; ok {
		return document(), nil
	}
	return schema.Document(name)
}
