package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// keyOptions are the flags of the commands for keys. Keys belong to no workspace: they are in the
// folder that holds the projects.
type keyOptions struct {
	agent, home string
	json        bool
}

func (o *keyOptions) flags(agent string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "agent", Usage: agent, Destination: &o.agent},
		&cli.StringFlag{Name: "oacp-dir", Category: command.Rare, Usage: "keys are in the folder keys of `DIR` (default $OACP_HOME, then ~/oacp)", Destination: &o.home},
		command.JSONFlag(&o.json),
	}
}

func (o *keyOptions) store(s *command.Streams) (signing.Store, error) {
	home, err := project.Place{Home: o.home, WorkingDir: s.Dir, Getenv: s.Getenv}.HomeDir()
	return signing.NewStore(home), err
}

func newKeyCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:     "key",
		Category: command.CategorySigning,
		Usage:    "manage signing keys",
		Description: `A key belongs to one agent on this machine. The private key stays in $OACP_HOME/keys
(by default ~/oacp/keys), readable only by you; oacp trust import takes the public key.`,
		Subcommands: []*cli.Command{newKeyGenCommand(s), newKeyListCommand(s)},
		Flags:       []cli.Flag{command.JSONFlag(new(bool))},
		Action: func(c *cli.Context) error {
			return needsCommand(c, "key", "gen", "list")
		},
	}
}

// needsCommand is the error of a command that was called without the name of one below it.
func needsCommand(c *cli.Context, parent string, names ...string) error {
	if rest := command.Positionals(c); len(rest) > 0 {
		return command.UnknownCommand(names, rest[0], "oacp "+parent)
	}
	return failure.Usagef("%s needs a command of its own: %s", parent, joinNames(names)).WithHint("see oacp help " + parent)
}

func newKeyGenCommand(s *command.Streams) *cli.Command {
	var o keyOptions
	return &cli.Command{
		Name:      "gen",
		Usage:     "create a key for an agent",
		ArgsUsage: "[--agent AGENT]",
		Description: `gen writes the private key and, next to it, KEY.pub.json for receivers to import. An
agent with several keys signs with all of them, so that receivers can switch to a new
key in their own time.

EXAMPLES:
   oacp key gen --agent claude
   oacp key gen --agent claude --json | jq -r .public_stub_path`,
		Flags: o.flags("create the key for `AGENT` (default: $OACP_AGENT, $AGENT_NAME, or the runtime)"),
		Action: func(c *cli.Context) error {
			if err := command.NoPositionals(c); err != nil {
				return err
			}
			return runKeyGen(o, s)
		},
	}
}

func runKeyGen(o keyOptions, s *command.Streams) error {
	agent := schema.AgentName(o.agent)
	if agent == "" {
		var err error
		agent, err = project.AgentFromEnvironment(s.Getenv)
		if runtime := project.CurrentRuntime(s.Getenv); errors.Is(err, project.ErrNoSender) && runtime != "" {
			agent, err = schema.AgentName(runtime), nil
		}
		if err != nil {
			// The reference implementation does not count this as a wrong command line.
			return &failure.Error{Code: "no_agent", Err: err, Hint: "name the agent with --agent, or set OACP_AGENT"}
		}
	}
	store, err := o.store(s)
	if err != nil {
		return err
	}
	key, err := store.Generate(agent, s.Now())
	if err != nil {
		return err
	}
	return s.Answer(o.json, struct {
		keyJSON
		AgentURN string `json:"agent_urn"`
		Instance string `json:"instance_urn"`
		StubPath string `json:"public_stub_path"`
	}{newKeyJSON(key), key.AgentURN(), key.InstanceURN(), key.StubPath()}, func() {
		fmt.Fprintf(s.Out, "OK: %s has a new key\n", agent)
		for _, line := range [][2]string{
			{"kid", string(key.ID)}, {"agent", key.AgentURN()}, {"instance", key.InstanceURN()},
			{"private", key.Path}, {"public", key.StubPath()},
		} {
			fmt.Fprintf(s.Out, "  %-9s %s\n", line[0]+":", visible.Line(line[1]))
		}
	})
}

// keyJSON is what both commands say about a key.
type keyJSON struct {
	Agent     schema.AgentName `json:"agent"`
	KeyID     signing.KeyID    `json:"kid"`
	CreatedAt schema.Timestamp `json:"created_at_utc"`
	Path      string           `json:"key_path"`
}

func newKeyJSON(k *signing.Key) keyJSON { return keyJSON{k.Agent, k.ID, k.CreatedAt, k.Path} }

func newKeyListCommand(s *command.Streams) *cli.Command {
	var o keyOptions
	return &cli.Command{
		Name:      "list",
		Usage:     "list the keys on this machine",
		ArgsUsage: "[--agent AGENT]",
		Flags:     o.flags("list the keys of `AGENT`"),
		Action: func(c *cli.Context) error {
			if err := command.NoPositionals(c); err != nil {
				return err
			}
			return runKeyList(o, s)
		},
	}
}

func runKeyList(o keyOptions, s *command.Streams) error {
	store, err := o.store(s)
	if err != nil {
		return err
	}
	keys, err := store.List(schema.AgentName(o.agent))
	if err != nil {
		return err
	}
	list := make([]keyJSON, len(keys))
	for i, k := range keys {
		list[i] = newKeyJSON(k)
	}
	return s.Answer(o.json, list, func() {
		if len(keys) == 0 {
			fmt.Fprintln(s.Out, "There are no keys. oacp key gen makes one.")
		}
		for _, k := range keys {
			fmt.Fprintln(s.Out, visible.Line(fmt.Sprintf("%s  %s  %s  %s", k.Agent, k.ID, k.CreatedAt, k.Path)))
		}
	})
}
