package main

import (
	"os"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/pair"
)

// reachOptions say how the agents of a pair are reached, and what they may do.
type reachOptions struct {
	allow  string
	claude string
	codex  string
}

func (o *reachOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "allow", Usage: "let agents do what the `PERMISSION` says without asking: " + permissionSummary, Value: string(agent.PermitEdits), Destination: &o.allow},
		&cli.StringFlag{Name: "claude-command", Usage: "run `COMMAND` for each turn of claude: the prompt is its input, the answer its output", Destination: &o.claude},
		&cli.StringFlag{Name: "codex-command", Usage: "run `COMMAND` for each turn of codex", Destination: &o.codex},
	}
}

// drivers returns what makes the drivers. The agents are given the tools of
// oacp mcp for the bridge log.
func (o reachOptions) drivers(bridgePath func() string) (func(pair.Agent, string, string) agent.Driver, error) {
	permission, err := agent.ParsePermission(o.allow)
	if err != nil {
		return nil, failure.Usagef("--allow: %w", err)
	}
	commands := make(map[pair.Agent][]string)
	for name, text := range map[pair.Agent]string{pair.Claude: o.claude, pair.Codex: o.codex} {
		words, err := pair.ParseCommands(text)
		if err != nil {
			return nil, failure.Usagef("--%s-command: %w", name, err)
		}
		if len(words) > 1 {
			return nil, failure.Usagef("--%s-command: there is more than one command in %s", name, visible.Quote(text))
		}
		if len(words) == 1 {
			commands[name] = words[0]
		}
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	kinds := make(map[pair.Agent]agent.Kind)
	for _, name := range []pair.Agent{pair.Claude, pair.Codex} {
		kind := string(name)
		if commands[name] != nil {
			kind = "exec"
		}
		if kinds[name], err = agent.FindKind(kind); err != nil {
			return nil, err
		}
	}
	return func(name pair.Agent, dir, session string) agent.Driver {
		return kinds[name].New(agent.Options{
			Command: commands[name], Dir: dir, Session: session, Allow: permission,
			MCP: oacpTools(program, "--agent", string(name), "--bridge", bridgePath()),
		})
	}, nil
}
