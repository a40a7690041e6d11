package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// A keyCall is a call of a command below key.
type keyCall struct{ *call }

func newKeyCommand(s *command.Streams) *cli.Command {
	c := keyCall{newCall(s)}
	// Keys belong to no workspace: they are in the folder that holds the projects.
	flags := func(agent string) []cli.Flag {
		return []cli.Flag{
			c.agentFlag(agent),
			&cli.StringFlag{Name: "oacp-dir", Category: command.Rare, Usage: "keys are in the folder keys of `DIR` (default $OACP_HOME, then ~/oacp)", Destination: &c.place.Home},
			c.jsonFlag(),
		}
	}
	return &cli.Command{
		Name:     "key",
		Category: command.CategorySigning,
		Usage:    "manage signing keys",
		Description: `A key belongs to one agent on this machine. The private key stays in $OACP_HOME/keys
(by default ~/oacp/keys), readable only by you; oacp trust import takes the public key.`,
		Flags:  []cli.Flag{c.jsonFlag()},
		Action: needsCommand,
		Subcommands: []*cli.Command{{
			Name:      "gen",
			Usage:     "create a key for an agent",
			ArgsUsage: "[--agent AGENT]",
			Description: `gen writes the private key and, next to it, KEY.pub.json for receivers to import. An
agent with several keys signs with all of them, so that receivers can switch to a new
key in their own time.

EXAMPLES:
   oacp key gen --agent claude
   oacp key gen --agent claude --json | jq -r .public_stub_path`,
			Flags:  flags("create the key for `AGENT` (default: $OACP_AGENT, $AGENT_NAME, or the runtime)"),
			Action: c.action(0, c.generateKey),
		}, {
			Name:      "list",
			Usage:     "list the keys on this machine",
			ArgsUsage: "[--agent AGENT]",
			Flags:     flags("list the keys of `AGENT`"),
			Action:    c.action(0, c.listKeys),
		}},
	}
}

func (c keyCall) keyStore() (signing.Store, error) {
	home, err := c.place.Place(c.Streams).HomeDir()
	return signing.NewStore(home), err
}

// keyJSON is a key in the answers of both commands.
type keyJSON struct {
	Agent     schema.AgentName `json:"agent"`
	KeyID     signing.KeyID    `json:"kid"`
	CreatedAt schema.Timestamp `json:"created_at_utc"`
	Path      string           `json:"key_path"`
}

func newKeyJSON(k *signing.Key) keyJSON { return keyJSON{k.Agent, k.ID, k.CreatedAt, k.Path} }

func (c keyCall) generateKey() error {
	agent := c.agent
	if agent == "" {
		var err error
		agent, err = project.AgentFromEnvironment(c.Getenv)
		if runtime := project.CurrentRuntime(c.Getenv); errors.Is(err, project.ErrNoSender) && runtime != "" {
			agent, err = schema.AgentName(runtime), nil
		}
		if err != nil {
			// The reference implementation does not count this as a wrong command line.
			return &failure.Error{Code: "no_agent", Err: err, Hint: "name the agent with --agent, or set OACP_AGENT"}
		}
	}
	store, err := c.keyStore()
	if err != nil {
		return err
	}
	key, err := store.Generate(agent, c.Now())
	if err != nil {
		return err
	}
	return c.answer(struct {
		keyJSON
		AgentURN string `json:"agent_urn"`
		Instance string `json:"instance_urn"`
		StubPath string `json:"public_stub_path"`
	}{newKeyJSON(key), key.AgentURN(), key.InstanceURN(), key.StubPath()}, func() {
		c.Printf("OK: %s has a new key\n", agent)
		for _, line := range [][2]string{
			{"kid", string(key.ID)}, {"agent", key.AgentURN()}, {"instance", key.InstanceURN()},
			{"private", key.Path}, {"public", key.StubPath()},
		} {
			c.Printf("  %-9s %s\n", line[0]+":", visible.Line(line[1]))
		}
		c.Note("oacp trust setup --agents A,B makes keys, and lets agents of this machine sign with them and trust each other")
	})
}

func (c keyCall) listKeys() error {
	store, err := c.keyStore()
	if err != nil {
		return err
	}
	keys, err := store.List(c.agent)
	if err != nil {
		return err
	}
	list := make([]keyJSON, len(keys))
	for i, k := range keys {
		list[i] = newKeyJSON(k)
	}
	return c.answer(list, func() {
		if len(keys) == 0 {
			c.Printf("There are no keys. oacp key gen makes one.\n")
		}
		for _, k := range keys {
			c.Printf("%s\n", visible.Line(fmt.Sprintf("%s  %s  %s  %s", k.Agent, k.ID, k.CreatedAt, k.Path)))
		}
	})
}

// A trustCall is a call of a command below trust.
type trustCall struct {
	*call
	agents                             cli.StringSlice
	catalogOnly, allReceivers, enforce bool
}

func newTrustCommand(s *command.Streams) *cli.Command {
	c := &trustCall{call: newCall(s)}
	flags := func(agent string, more ...cli.Flag) []cli.Flag {
		return c.flagsWith(append([]cli.Flag{c.agentFlag(agent)}, more...)...)
	}
	return &cli.Command{
		Name:     "trust",
		Category: command.CategorySigning,
		Usage:    "trust keys",
		Description: `Each agent pins the keys that it trusts in agents/AGENT/trust/allowed_signers.yaml;
only these pins decide which signatures it accepts. The catalog, trust/catalog.yaml,
lists known keys and grants nothing. In config.yaml, signing: verify_mode: enforce makes
an agent read only verified messages.`,
		Flags:  []cli.Flag{c.jsonFlag()},
		Action: needsCommand,
		Subcommands: []*cli.Command{{
			Name:      "import",
			Usage:     "let an agent trust a key",
			ArgsUsage: "FILE --agent AGENT",
			Description: `FILE is a KEY.pub.json that oacp key gen wrote. import adds the key to the catalog of
the workspace and to the pins of AGENT. Make sure that you know where FILE comes from:
the holder of the private key can sign for the agent that FILE names. A key that AGENT
has revoked stays revoked.

EXAMPLES:
   oacp trust import /mnt/stick/KEY.pub.json --agent codex
   oacp trust import KEY.pub.json --project my-project --catalog-only`,
			Flags: flags("let `AGENT` trust the key",
				&cli.BoolFlag{Name: "catalog-only", Usage: "only add the key to the catalog, which grants nothing", Destination: &c.catalogOnly}),
			Action: c.inWorkspace(1, c.importKey),
		}, {
			Name:        "list",
			Usage:       "list the catalog, and the keys that agents trust",
			ArgsUsage:   "[PROJECT] [--agent AGENT]",
			Description: "EXAMPLES:\n   oacp trust list --project my-project",
			Flags:       flags("list the pins of `AGENT` only"),
			Action:      c.inProject(c.list),
		}, {
			Name:      "revoke",
			Usage:     "revoke trust in a key",
			ArgsUsage: "KEY (--agent AGENT | --all-receivers)",
			Description: `KEY is a key id, as oacp trust list shows it. A revoked key verifies nothing, not even
messages that it signed earlier. Importing the key again does not undo this. Sync
carries no pins: run revoke on each machine.

EXAMPLES:
   oacp trust revoke BVUs4Do-_4da3XUlteJz7dV_YdOAtK3sQp185l2j-MY --agent codex
   oacp trust revoke BVUs4Do-_4da3XUlteJz7dV_YdOAtK3sQp185l2j-MY --all-receivers`,
			Flags: flags("revoke the key for `AGENT`",
				&cli.BoolFlag{Name: "all-receivers", Usage: "revoke the key for every agent that trusts it", Destination: &c.allReceivers}),
			Action: c.inWorkspace(1, c.revoke),
		}, {
			Name:      "setup",
			Usage:     "make agents of this machine sign and trust each other",
			ArgsUsage: "--agents AGENT,AGENT… [--enforce]",
			Description: `setup makes the keys that are missing, lets each agent trust those of the others, and
writes sign_messages: true into their config.yaml. With --enforce they read only
verified messages. Then each agent sends a message that the others verify.

EXAMPLES:
   oacp trust setup --agents claude,codex --enforce`,
			Flags: c.flagsWith(&cli.StringSliceFlag{Name: "agents", Usage: "set up `AGENT`,AGENT…", Destination: &c.agents},
				&cli.BoolFlag{Name: "enforce", Usage: "let them read only verified messages", Destination: &c.enforce}),
			Action: c.inWorkspace(0, c.setUp),
		}, {
			Name:      "sign-policy",
			Usage:     "sign the settings and the pins of an agent",
			ArgsUsage: "[PROJECT] --agent AGENT",
			Description: `sign-policy signs config.yaml and trust/allowed_signers.yaml of AGENT with its keys.
From then on they count on this machine only with a good signature: run it again after
each change of config.yaml. trust import, revoke and setup sign what they change.

EXAMPLES:
   oacp trust sign-policy --agent codex`,
			Flags:  flags("sign the files of `AGENT`"),
			Action: c.inProject(c.signPolicy),
		}},
	}
}

func (c *trustCall) importKey(w *mailbox.Workspace) error {
	file, err := c.only(failure.Usagef("needs the FILE of a public key"))
	agent := c.agent
	switch {
	case err != nil:
		return err
	case c.catalogOnly:
		agent = ""
	case agent == "":
		return failure.Usagef("needs --agent, the agent to trust the key, or --catalog-only")
	}
	text, err := readInput(file, c.Streams)
	var stub signing.PublicStub
	if err == nil {
		if stub, err = signing.ParsePublicStub([]byte(text)); err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		}
	}
	if err != nil {
		return failure.WithHint(err, "import the KEY.pub.json that oacp key gen wrote, unchanged")
	}
	done, err := trust.Import(c.ctx, w, stub, agent)
	if err != nil {
		return err
	}
	return c.answer(done, func() {
		c.Printf("OK: imported %s (%s)\n  catalog: %-9s %s\n", done.KeyID, done.Agent, done.Catalog, visible.Line(done.CatalogPath))
		if done.Receiver == "" {
			c.Printf("  pins:    skipped; the catalog alone grants no trust\n")
		} else {
			c.Printf("  pins:    %-9s %s\n", done.Pins, visible.Line(done.PinsPath))
		}
		if n := len(done.Others); n > 0 {
			c.Printf("  %s now trusts %s of %s: whoever has one of them can sign for it\n", done.Receiver, spelling.Plural(n+1, "key"), done.Agent)
		}
	})
}

func (c *trustCall) list(w *mailbox.Workspace) error {
	list := struct {
		Catalog []trust.Entry                      `json:"catalog"`
		Pins    map[schema.AgentName][]trust.Entry `json:"pins"`
	}{[]trust.Entry{}, make(map[schema.AgentName][]trust.Entry)}
	agents := []schema.AgentName{c.agent}
	var err error
	if c.agent == "" {
		agents, err = w.Agents()
	} else if _, err = schema.ParseAgentName(string(c.agent)); err != nil {
		err = failure.Usagef("--agent: %w", err)
	}
	if err != nil {
		return err
	}
	listed, err := trust.Catalog(w)
	if err != nil {
		return err
	}
	list.Catalog = append(list.Catalog, listed...)
	for _, agent := range agents {
		pins, err := trust.Pins(w, agent)
		if err != nil {
			return err
		}
		if pins != nil {
			list.Pins[agent] = pins
		}
	}
	return c.answer(list, func() {
		c.Printf("Catalog: %s\n", spelling.Plural(len(listed), "key"))
		for _, l := range listed {
			c.Printf("  %s  %s\n", l.KeyID, l.Agent)
		}
		switch {
		case len(list.Pins) > 0:
		case c.agent != "":
			c.Printf("Pins of %s: none\n", c.agent)
		default:
			c.Printf("Pins: no agent has any, so no signature is trusted\n")
		}
		for _, agent := range slices.Sorted(maps.Keys(list.Pins)) {
			c.Printf("Pins of %s: %s\n", agent, spelling.Plural(len(list.Pins[agent]), "key"))
			for _, p := range list.Pins[agent] {
				c.Printf("  %s  %s  %s\n", p.KeyID, p.Status, p.Agent)
			}
		}
	})
}

func (c *trustCall) revoke(w *mailbox.Workspace) error {
	text, err := c.only(failure.Usagef("needs the id of a KEY"))
	switch {
	case err != nil:
		return err
	case (c.agent == "") != c.allReceivers:
		return failure.Usagef("needs either --agent or --all-receivers")
	}
	id, err := signing.ParseKeyID(text)
	if err != nil {
		return failure.WithHint(err, "oacp trust list shows the ids of keys")
	}
	done, failed := trust.Revoke(c.ctx, w, id, c.agent)
	if failed != nil && len(done.Receivers)+len(done.Failed) == 0 {
		return failed
	}
	var machines []string
	if _, err := w.Root().Lstat(".git"); err == nil {
		machines = trust.OtherMachines(w, slices.Collect(maps.Keys(done.Receivers)))
	}
	err = c.answer(struct {
		trust.Revocation
		Machines []string `json:"other_machines,omitempty"`
	}{done, machines}, func() {
		if len(done.Receivers) > 0 {
			c.Printf("OK: revoked %s\n", done.KeyID)
		}
		for _, agent := range slices.Sorted(maps.Keys(done.Receivers)) {
			c.Printf("  %s: %s\n", agent, done.Receivers[agent])
		}
		for _, machine := range machines {
			c.Printf("  not yet: %s, where sync brings no pins: run oacp trust revoke there, too\n", visible.Line(machine))
		}
	})
	if failed != nil {
		failed = fmt.Errorf("not revoked everywhere: %w", failed)
	}
	return errors.Join(err, failed)
}

func (c *trustCall) setUp(w *mailbox.Workspace) error {
	var agents []schema.AgentName
	for _, name := range c.agents.Value() {
		if agent := schema.AgentName(name); !slices.Contains(agents, agent) {
			agents = append(agents, agent)
		}
	}
	if len(agents) < 2 || len(agents) > schema.MaxRecipients {
		return failure.Usagef("--agents names 2 to %d agents", schema.MaxRecipients)
	}
	done, err := trust.SetUp(c.ctx, w, agents, c.enforce, c.Now())
	if err != nil {
		return err
	}
	return c.answer(done, func() {
		for _, one := range done {
			key := "its key"
			if one.Made {
				key = "a new key"
			}
			c.Printf("OK: %s signs with %s, %s; verify_mode: %s\n", one.Agent, key, one.KeyID, one.Mode)
		}
		c.Printf("OK: each has verified a message of the others: %s, …\n", done[0].Proof.Short())
	})
}

func (c *trustCall) signPolicy(w *mailbox.Workspace) error {
	if c.agent == "" {
		return failure.Usagef("needs --agent, the agent whose files are to be signed")
	}
	paths, err := trust.SignPolicy(c.ctx, w, c.agent, c.Now())
	if err != nil {
		return err
	}
	return c.answer(map[string]any{"agent": c.agent, "paths": paths}, func() {
		for _, path := range paths {
			c.Printf("OK: signed %s\n", visible.Line(path))
		}
	})
}
