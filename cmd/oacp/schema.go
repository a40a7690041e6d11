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

func newSchemaCommand(s *command.Streams) *cli.Command {
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
		Flags:  flagsWith(&cli.BoolFlag{Name: "list", Usage: "list the names of the schemas"}),
		Action: action(s, 1, runSchema),
	}
}

func runSchema(c *call) error {
	if c.isOn("list") && len(c.words) > 0 {
		return failure.Usagef("unexpected argument %s", visible.Quote(c.words[0]))
	}
	asked, names := append(c.words, schema.MessageDocument)[0], schemaNames()
	if !c.isOn("list") && slices.Contains(names, asked) {
		document, err := schemaDocument(asked)
		if err == nil {
			_, err = c.Out.Write(document)
		}
		return err
	}
	return withSchemas(c.place, c.Streams, func(root *os.Root, dir string) error {
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
		if c.isOn("list") {
			return c.answer(names, func() { c.printf("%s\n", strings.Join(names, "\n")) })
		}
		name := strings.TrimSuffix(asked, contract.Suffix)
		if !slices.Contains(own, name) && !slices.Contains(own, asked) {
			return failure.Usagef("there is no schema %s", visible.Quote(asked)).
				WithHint(spelling.DidYouMean(names, asked, "the schemas are "+strings.Join(names, ", ")))
		}
		schemas, err := contract.Load(root, dir, func(other string) bool { return other == name })
		if err == nil {
			err = schemas.Err()
		}
		if err == nil {
			_, err = fmt.Fprintln(c.Out, strings.TrimRight(schemas.Text(name), "\n"))
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

// printTemplate prints a body to fill in, for a type of message that has one or for a schema of the
// workspace. Types that oacp knows need no workspace.
func printTemplate(c *call) error {
	name := c.text("template")
	return withSchemas(c.place, c.Streams, func(root *os.Root, dir string) error {
		text, err := bodyTemplate(name, root, dir)
		if errors.Is(err, contract.ErrNoTemplate) {
			own, err := contract.Names(root, dir)
			if err != nil {
				return err
			}
			names := contract.TemplateNames(own)
			return failure.Usagef("--template: there is no template for %s", visible.Quote(name)).
				WithHint(spelling.DidYouMean(names, name, "any text is a valid body; there are templates for "+strings.Join(names, ", ")))
		}
		if err != nil {
			return err
		}
		return c.answer(map[string]string{"template": name, "yaml": string(text)}, func() { c.printf("%s", text) })
	})
}

// bodyTemplate returns a body to fill in.
func bodyTemplate(name string, root *os.Root, dir string) ([]byte, error) {
	schemas, err := contract.Load(root, dir, func(other string) bool { return other == name })
	if err == nil {
		err = schemas.Err()
	}
	if err != nil {
		return nil, err
	}
	return schemas.Template(name)
}
