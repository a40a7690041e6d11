package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/ash"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/sibling"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
	"github.com/oacp-go/oacp/validate/change"
)

// A validateCall is a call of validate.
type validateCall struct {
	*call
	changed, format string
}

func newValidateCommand(s *command.Streams) *cli.Command {
	c := &validateCall{call: newCall(s), format: "text"}
	return &cli.Command{
		Name:      "validate",
		Category:  command.CategoryFiles,
		Usage:     "check message files",
		ArgsUsage: "[PATH…] | --changed REF [PATH…]",
		Description: `PATH is a file, a folder with everything below it, or - for standard input; without
one, it is the workspace. validate
reports every problem with its position, its rule and, if known, the fix, and also
reports messages that share an id. Errors cause exit status 1, warnings do not. A link
in a folder is reported and not followed, unless PATH itself is the link.

--changed checks the messages that a change adds: those in HEAD and the git index but
not in the merge base of HEAD and REF, in all workspaces or those below PATH. The
change may not edit existing messages, and a copy must match the one in its sender's
outbox. In a pre-commit hook, REF is HEAD.

EXAMPLES:
   oacp validate
   oacp validate agents
   oacp validate --changed origin/main --format github
   oacp send … --dry-run | oacp validate -`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "changed", Usage: "check the messages added since `REF`, a commit or branch", Destination: &c.changed},
			&cli.GenericFlag{Name: "format", Usage: "print `FORMAT`: text, json, or github (annotations)", Value: command.OneOf(&c.format, "format", "text", "json", "github")},
			&cli.BoolFlag{Name: "json", Usage: "the same as --format json", Destination: &c.asJSON},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print only problems", Destination: &c.quiet},
		},
		Action: c.action(anyNumber, c.run),
	}
}

func (c *validateCall) run() error {
	isChange := c.given(&c.changed)
	if c.asJSON {
		c.format = "json"
	}
	switch {
	case isChange && slices.Contains(c.words, "-"):
		return failure.Usagef("--changed checks files in git, not standard input")
	case isChange && c.changed == "":
		return failure.Usagef("--changed: the commit is missing").WithHint("origin/main, for example; HEAD checks what is staged")
	}
	paths, err := c.paths()
	if err != nil {
		return err
	}
	defer c.catchSignals()()
	defer lessGarbageCollection()()
	contracts := &contract.Workspaces{Program: func() string { return sibling.Find("contract") }}
	files := &validate.FilesOptions{Stdin: c.In, Contract: contracts.CheckOf}
	var result *validate.Result
	if isChange {
		result, err = change.Check(c.ctx, change.Options{Dir: c.Dir, Base: c.changed, Paths: c.words, Files: files})
	} else {
		result, err = validate.Files(c.ctx, paths, files)
	}
	contracts.Close()
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	result.Files = append(result.Files, contracts.Problems()...)
	switch c.format {
	case "json":
		err = result.WriteJSON(c.Out)
	case "github":
		err = result.WriteGitHub(c.Out)
	default:
		err = result.WriteText(c.Out, c.quiet)
	}
	if err == nil && result.HasErrors() {
		err = failure.ErrReported
	}
	return err
}

// paths returns the paths that the command names, or else the mailboxes of the workspace, relative to the working
// folder if they are below it. With --changed, git names the files.
func (c *validateCall) paths() ([]string, error) {
	if len(c.words) > 0 || c.given(&c.changed) {
		return c.words, nil
	}
	dir, err := command.Workspace{}.Place(c.Streams).Find()
	if errors.Is(err, mailbox.ErrNoWorkspace) {
		return nil, failure.Usagef("needs a file, a folder, or -")
	}
	agents := filepath.Join(dir, schema.AgentsName)
	if below, relErr := filepath.Rel(c.Dir, agents); relErr == nil && filepath.IsLocal(below) {
		agents = below
	}
	return []string{agents}, err
}

// A schemaCall is a call of schema.
type schemaCall struct {
	*call
	list bool
}

func newSchemaCommand(s *command.Streams) *cli.Command {
	c := &schemaCall{call: newCall(s)}
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
		Flags:  c.flagsWith(&cli.BoolFlag{Name: "list", Usage: "list the names of the schemas", Destination: &c.list}),
		Action: c.action(1, c.run),
	}
}

func (c *schemaCall) run() error {
	if c.list && len(c.words) > 0 {
		return failure.Usagef("unexpected argument %s", visible.Quote(c.words[0]))
	}
	asked := schema.MessageDocument
	names := append(schema.DocumentNames(), slices.Sorted(maps.Keys(lineSchemas))...)
	if len(c.words) > 0 {
		asked = c.words[0]
	}
	if !c.list && slices.Contains(names, asked) {
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
		if c.list {
			return c.answer(names, func() { c.Printf("%s\n", strings.Join(names, "\n")) })
		}
		name := strings.TrimSuffix(asked, contract.Suffix)
		if !slices.Contains(own, name) && !slices.Contains(own, asked) {
			return failure.Usagef("there is no schema %s", visible.Quote(asked)).
				WithHint(spelling.DidYouMean(names, asked, "the schemas are "+strings.Join(names, ", ")))
		}
		schemas, err := loadSchema(root, dir, name)
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

// loadSchema loads the workspace's schema with the name, if there is one.
func loadSchema(root *os.Root, dir, name string) (*contract.Schemas, error) {
	schemas, err := contract.Load(root, dir, func(other string) bool { return other == name })
	if err != nil {
		return nil, err
	}
	return schemas, schemas.Err()
}

// lineSchemas are the schemas of lines of JSON.
var lineSchemas = map[string]func() []byte{
	"bridge-record": bridge.RecordSchema,
	"ash-command":   ash.CommandSchema,
	"ash-event":     ash.EventSchema,
}

func schemaDocument(name string) ([]byte, error) {
	if document, ok := lineSchemas[name]; ok {
		return document(), nil
	}
	return schema.Document(name)
}

// knownFields returns the fields of a template that follow from the flags: who hands over to whom, and in a
// handoff_complete the criteria of the handoff that --in-reply-to names, without answers.
func (d *delivery) knownFields(template string) (known schema.Value, err error) {
	known.Kind = schema.Mapping
	add := func(key string, value schema.Value) {
		known.Pairs = append(known.Pairs, schema.Pair{Key: key, Value: value})
	}
	switch schema.Type(template) {
	case schema.Handoff:
		if from := cmp.Or(string(d.from), d.Getenv("OACP_AGENT")); from != "" {
			add("source_agent", schema.TextValue(from))
		}
		if to := d.to.Value(); len(to) == 1 {
			add("target_agent", schema.TextValue(to[0]))
		}
	case schema.HandoffComplete:
		if d.inReplyTo == "" {
			return known, nil
		}
		err = d.with(nil, func(w *mailbox.Workspace) error {
			found, err := w.Find(d.ctx, d.inReplyTo)
			if _, err = mailbox.SplitUnreadable(err); err != nil {
				return fmt.Errorf("--in-reply-to: %w", err)
			}
			if m := found[0].Message; m.Type == schema.Handoff {
				body, _, _ := validate.BodyFields(m)
				add("definition_of_done", unanswered(body.Get("definition_of_done")))
			}
			return nil
		})
	}
	return known, err
}

// unanswered returns the criteria of a handoff with empty answers.
func unanswered(criteria schema.Value) schema.Value {
	if criteria.Kind == schema.Text { // one criterion, which should be a list
		criteria.Items = []schema.Value{schema.TextValue(criteria.Text)}
	}
	var answers schema.Value
	for _, criterion := range criteria.Items {
		answers.Kind = schema.List
		answers.Items = append(answers.Items, schema.Value{Kind: schema.Mapping, Pairs: []schema.Pair{
			{Key: "criterion", Value: criterion}, {Key: "answer", Value: schema.TextValue("")},
		}})
	}
	return answers
}

// printTemplate prints a body to fill in, for a type of message that has one or for a schema of the
// workspace. The built-in templates need no workspace.
func (d *delivery) printTemplate() error {
	name := d.template
	return withSchemas(d.place, d.Streams, func(root *os.Root, dir string) error {
		schemas, err := loadSchema(root, dir, name)
		if err != nil {
			return err
		}
		known, err := d.knownFields(name)
		if err != nil {
			return err
		}
		text, err := schemas.Template(name, known)
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
		return d.answer(map[string]string{"template": name, "yaml": string(text)}, func() { d.Printf("%s", text) })
	})
}
