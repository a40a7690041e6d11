package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/ash"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
)

type schemaOptions struct {
	name string
	list bool
	json bool
}

func newSchemaCommand(s *streams) *cli.Command {
	var o schemaOptions
	return &cli.Command{
		Name:      "schema",
		Category:  categoryMessages,
		Usage:     "print a JSON Schema",
		ArgsUsage: "[SCHEMA]",
		Description: `Prints the JSON Schema (draft 2020-12) of a message, or the one with the name
SCHEMA: of the body that a type of message has, of a record of the bridge log
(bridge-record), of a line of the Ash protocol (ash-command, ash-event).

An editor with a YAML language server uses it to help while one types, when the
file begins with this line:

   # yaml-language-server: $schema=message.schema.json

EXAMPLES:
   oacp schema > message.schema.json
   oacp schema --list`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "list", Usage: "list the names of the schemas", Destination: &o.list},
			jsonFlag(&o.json),
		},
		Action: func(c *cli.Context) error {
			args := positionals(c)
			if len(args) > 1 || o.list && len(args) > 0 {
				return usageErrorf("unexpected argument %s", quote(args[len(args)-1]))
			}
			o.name = schema.MessageDocument
			if len(args) == 1 {
				o.name = args[0]
			}
			return runSchema(o, s)
		},
	}
}

func runSchema(o schemaOptions, s *streams) error {
	names := schemaNames()
	switch {
	case o.list && o.json:
		return writeJSON(s.out, names)
	case o.list:
		fmt.Fprintln(s.out, strings.Join(names, "\n"))
		return nil
	case !slices.Contains(names, o.name):
		return usageErrorf("there is no schema %s", quote(o.name)).
			withHint(didYouMean(names, o.name, "the schemas are "+strings.Join(names, ", ")))
	}
	document, err := schemaDocument(o.name)
	if err != nil {
		return err
	}
	_, err = s.out.Write(document)
	return err
}

// lineSchemas are the schemas of what is a line of JSON.
var lineSchemas = []struct {
	name     string
	document func() []byte
}{
	{"bridge-record", bridge.RecordSchema},
	{"ash-command", ash.CommandSchema},
	{"ash-event", ash.EventSchema},
}

func schemaNames() []string {
	names := schema.DocumentNames()
	for _, one := range lineSchemas {
		names = append(names, one.name)
	}
	return names
}

func schemaDocument(name string) ([]byte, error) {
	for _, one := range lineSchemas {
		if one.name == name {
			return one.document(), nil
		}
	}
	return schema.Document(name)
}
