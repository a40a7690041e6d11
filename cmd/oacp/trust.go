package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

func newTrustCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:     "trust",
		Category: command.CategorySigning,
		Usage:    "manage the keys that agents trust",
		Description: `Each agent pins the keys that it trusts in agents/AGENT/trust/allowed_signers.yaml;
only these pins decide which signatures it accepts. The catalog, trust/catalog.yaml,
lists known keys and grants nothing. sign-policy protects the pins and config.yaml, in
which signing: verify_mode: enforce makes AGENT read only verified messages.`,
		Subcommands: []*cli.Command{newTrustImportCommand(s), newTrustListCommand(s), newTrustRevokeCommand(s), newTrustSignPolicyCommand(s)},
		Flags:       []cli.Flag{command.JSONFlag(new(bool))},
		Action: func(c *cli.Context) error {
			return needsCommand(c, "trust", "import", "list", "revoke", "sign-policy")
		},
	}
}

// trustOptions are the flags of the commands for trust.
type trustOptions struct {
	workspace   command.Workspace
	agent       string
	key         string
	catalogOnly bool
	all         bool
	json        bool
}

func (o *trustOptions) flags(agent string, more ...cli.Flag) []cli.Flag {
	return slices.Concat([]cli.Flag{&cli.StringFlag{Name: "agent", Usage: agent, Destination: &o.agent}}, more,
		[]cli.Flag{command.JSONFlag(&o.json)}, o.workspace.Flags())
}

// onlyArgument returns the only argument of a command, or the error that it is missing.
func onlyArgument(c *cli.Context, missing error) (string, error) {
	args, err := command.AtMost(c, 1)
	if err != nil {
		return "", err
	}
	if len(args) == 0 || args[0] == "" {
		return "", missing
	}
	return args[0], nil
}

func newTrustImportCommand(s *command.Streams) *cli.Command {
	var o trustOptions
	return &cli.Command{
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
		Flags: o.flags("let `AGENT` trust the key",
			&cli.BoolFlag{Name: "catalog-only", Usage: "only add the key to the catalog, which grants nothing", Destination: &o.catalogOnly}),
		Action: func(c *cli.Context) error {
			file, err := onlyArgument(c, failure.Usagef("needs the FILE of a public key"))
			if err != nil {
				return err
			}
			if o.catalogOnly {
				o.agent = ""
			} else if o.agent == "" {
				return failure.Usagef("needs --agent, the agent to trust the key, or --catalog-only")
			}
			return runTrustImport(c.Context, o, file, s)
		},
	}
}

func runTrustImport(ctx context.Context, o trustOptions, file string, s *command.Streams) error {
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		const hint = "import the KEY.pub.json that oacp key gen wrote, unchanged"
		text, err := readInput(file, s)
		if err != nil {
			return failure.WithHint(err, hint)
		}
		stub, err := signing.ParsePublicStub([]byte(text))
		if err != nil {
			return failure.WithHint(fmt.Errorf("%s: %w", file, err), hint)
		}
		done, err := trust.Import(ctx, w, stub, schema.AgentName(o.agent))
		if err != nil {
			return err
		}
		return s.Answer(o.json, done, func() {
			fmt.Fprintf(s.Out, "OK: imported %s (%s)\n", done.KeyID, done.Agent)
			fmt.Fprintf(s.Out, "  catalog: %-9s %s\n", done.Catalog, visible.Line(done.CatalogPath))
			if done.Receiver == "" {
				fmt.Fprintln(s.Out, "  pins:    skipped; nobody trusts it because of this")
			} else {
				fmt.Fprintf(s.Out, "  pins:    %-9s %s\n", done.Pins, visible.Line(done.PinsPath))
			}
		})
	})
}

func newTrustListCommand(s *command.Streams) *cli.Command {
	var o trustOptions
	return &cli.Command{
		Name:        "list",
		Usage:       "list the catalog, and the keys that agents trust",
		ArgsUsage:   "[PROJECT] [--agent AGENT]",
		Description: "EXAMPLES:\n   oacp trust list --project my-project",
		Flags:       o.flags("list the pins of `AGENT` only"),
		Action: o.workspace.OfProject(func(c *cli.Context) error {
			if _, err := schema.ParseAgentName(o.agent); o.agent != "" && err != nil {
				return failure.Usagef("--agent: %w", err)
			}
			return runTrustList(o, s)
		}),
	}
}

func runTrustList(o trustOptions, s *command.Streams) error {
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		list := struct {
			Catalog []trust.Entry                      `json:"catalog"`
			Pins    map[schema.AgentName][]trust.Entry `json:"pins"`
		}{[]trust.Entry{}, make(map[schema.AgentName][]trust.Entry)}
		listed, err := trust.Catalog(w)
		if err != nil {
			return err
		}
		list.Catalog = append(list.Catalog, listed...)
		agents := []schema.AgentName{schema.AgentName(o.agent)}
		if o.agent == "" {
			if agents, err = w.Agents(); err != nil {
				return err
			}
		}
		for _, agent := range agents {
			pins, err := trust.Pins(w, agent)
			if err != nil {
				return err
			}
			if pins != nil {
				list.Pins[agent] = pins
			}
		}
		return s.Answer(o.json, list, func() {
			fmt.Fprintf(s.Out, "Catalog: %s\n", spelling.Count(len(listed), "key"))
			for _, l := range listed {
				fmt.Fprintf(s.Out, "  %s  %s\n", l.KeyID, l.Agent)
			}
			if len(list.Pins) == 0 {
				fmt.Fprintln(s.Out, "Pins: nobody has any, so no signature is trusted")
			}
			for _, agent := range slices.Sorted(maps.Keys(list.Pins)) {
				fmt.Fprintf(s.Out, "Pins of %s: %s\n", agent, spelling.Count(len(list.Pins[agent]), "key"))
				for _, p := range list.Pins[agent] {
					fmt.Fprintf(s.Out, "  %s  %s  %s\n", p.KeyID, p.Status, p.Agent)
				}
			}
		})
	})
}

func newTrustRevokeCommand(s *command.Streams) *cli.Command {
	var o trustOptions
	return &cli.Command{
		Name:      "revoke",
		Usage:     "revoke trust in a key",
		ArgsUsage: "KEY (--agent AGENT | --all-receivers)",
		Description: `KEY is a key id, as oacp trust list shows it. A revoked key verifies nothing, not even
messages that it signed earlier. Importing the key again does not undo this.

EXAMPLES:
   oacp trust revoke BVUs4Do-_4da3XUlteJz7dV_YdOAtK3sQp185l2j-MY --agent codex
   oacp trust revoke BVUs4Do-_4da3XUlteJz7dV_YdOAtK3sQp185l2j-MY --all-receivers`,
		Flags: o.flags("revoke the key for `AGENT`",
			&cli.BoolFlag{Name: "all-receivers", Usage: "revoke the key for every agent that trusts it", Destination: &o.all}),
		Action: func(c *cli.Context) error {
			text, err := onlyArgument(c, failure.Usagef("needs the id of a KEY"))
			if err != nil {
				return err
			}
			if (o.agent == "") != o.all {
				return failure.Usagef("needs either --agent or --all-receivers")
			}
			return runTrustRevoke(c.Context, o, text, s)
		},
	}
}

func runTrustRevoke(ctx context.Context, o trustOptions, text string, s *command.Streams) error {
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		id, err := signing.ParseKeyID(text)
		if err != nil {
			return failure.WithHint(err, "oacp trust list shows the ids of keys")
		}
		done, err := trust.Revoke(ctx, w, id, schema.AgentName(o.agent))
		if err != nil {
			return err
		}
		return s.Answer(o.json, done, func() {
			fmt.Fprintf(s.Out, "OK: revoked %s\n", done.KeyID)
			for _, agent := range slices.Sorted(maps.Keys(done.Receivers)) {
				fmt.Fprintf(s.Out, "  %s: %s\n", agent, done.Receivers[agent])
			}
		})
	})
}

func newTrustSignPolicyCommand(s *command.Streams) *cli.Command {
	var o trustOptions
	return &cli.Command{
		Name:      "sign-policy",
		Usage:     "sign the files that say what an agent trusts",
		ArgsUsage: "[PROJECT] --agent AGENT",
		Description: `sign-policy signs config.yaml and trust/allowed_signers.yaml of AGENT with its own
key. From then on, on this machine, they count only with a good signature: run it
again after each change to config.yaml. trust import and revoke sign the file that
they change. If config.yaml has no good signature, AGENT reads only verified messages,
and oacp run does not start.

EXAMPLES:
   oacp trust sign-policy --project my-project --agent codex`,
		Flags: o.flags("sign the files of `AGENT`",
			&cli.StringFlag{Name: "kid", Category: command.Rare, Usage: "sign with the key `KEY` only (default: all keys of AGENT)", Destination: &o.key}),
		Action: o.workspace.OfProject(func(c *cli.Context) error {
			if _, err := schema.ParseAgentName(o.agent); o.agent == "" || err != nil {
				return failure.Usagef("needs --agent, the agent whose files are to be signed")
			}
			return runTrustSignPolicy(c.Context, o, s)
		}),
	}
}

func runTrustSignPolicy(ctx context.Context, o trustOptions, s *command.Streams) error {
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		done, err := trust.SignPolicy(ctx, w, schema.AgentName(o.agent), signing.KeyID(o.key), s.Now())
		if err != nil {
			return err
		}
		return s.Answer(o.json, done, func() {
			for _, one := range done {
				verb := "signed"
				if one.Again {
					verb = "re-signed"
				}
				fmt.Fprintf(s.Out, "OK: %s %s\n", verb, visible.Line(one.Path))
				for _, id := range one.KeyIDs {
					fmt.Fprintf(s.Out, "  kid: %s\n", id)
				}
			}
		})
	})
}
