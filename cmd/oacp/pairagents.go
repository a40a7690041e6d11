package main

import (
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/pair"
)

// leaves are what agents may do without asking; nobody is there to be asked.
var leaves = []string{"none", "edits", "all"}

// reachOptions say how the agents of a pair are reached, and what they may do.
type reachOptions struct {
	allow  string
	claude string
	codex  string
}

func (o *reachOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "allow", Usage: "let agents do `WHAT` without asking: none (what their own settings say), edits (of files in their folder), or all", Value: "edits", Destination: &o.allow},
		&cli.StringFlag{Name: "claude-command", Usage: "run `COMMAND` for each turn of claude: the prompt is its input, the answer its output", Destination: &o.claude},
		&cli.StringFlag{Name: "codex-command", Usage: "run `COMMAND` for each turn of codex", Destination: &o.codex},
	}
}

// drivers returns what makes the drivers. The agents are given the tools of
// oacp mcp for the bridge log.
func (o reachOptions) drivers(bridgePath func() string) (func(pair.Agent, string, string) agent.Driver, error) {
	if !slices.Contains(leaves, o.allow) {
		return nil, usageErrorf("--allow: there is no %s", quote(o.allow)).withHint("there are " + strings.Join(leaves, ", "))
	}
	commands := make(map[pair.Agent][]string)
	for name, text := range map[pair.Agent]string{pair.Claude: o.claude, pair.Codex: o.codex} {
		words, err := pair.ParseProof(text)
		if err != nil {
			return nil, usageErrorf("--%s-command: %w", name, err)
		}
		if len(words) > 1 {
			return nil, usageErrorf("--%s-command: there is more than one command in %s", name, quote(text))
		}
		if len(words) == 1 {
			commands[name] = words[0]
		}
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return func(name pair.Agent, dir, session string) agent.Driver {
		if command := commands[name]; command != nil {
			return agent.NewExec(command, &agent.ExecOptions{Dir: dir})
		}
		tools := map[string]agent.MCPServer{
			"oacp": {Command: []string{program, "mcp", "--agent", string(name), "--bridge", bridgePath()}},
		}
		if name == pair.Claude {
			return o.newClaude(dir, session, tools)
		}
		return o.newCodex(dir, session, tools)
	}, nil
}

func (o reachOptions) newClaude(dir, session string, tools map[string]agent.MCPServer) agent.Driver {
	options := &agent.ClaudeOptions{Dir: dir, Session: session, MCP: tools}
	switch o.allow {
	case "edits":
		options.PermissionMode = "acceptEdits"
	case "all":
		options.Approve = agent.AllowAll
	}
	return agent.NewClaude(options)
}

func (o reachOptions) newCodex(dir, session string, tools map[string]agent.MCPServer) agent.Driver {
	options := &agent.CodexOptions{Dir: dir, Session: session, MCP: tools}
	switch o.allow {
	case "edits":
		options.Sandbox = "workspace-write"
	case "all":
		options.Sandbox, options.Approve = "danger-full-access", agent.AllowAll
	}
	return agent.NewCodex(options)
}
