package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// Approval is something that an agent asks leave for in the middle of a turn.
type Approval struct {
	// Tool is what the agent wants to use, in its own words: for claude the
	// name of a tool such as Bash or Edit, for codex the method of the request
	// such as item/commandExecution/requestApproval.
	Tool string
	// Detail is what a person would want to know of it, such as the command
	// line or the path, if the agent tells.
	Detail string
	// Raw is the agent's whole request.
	Raw json.RawMessage
}

// Decision answers an Approval. The zero value denies.
type Decision struct {
	Allow bool
	// Reason tells the agent why it may not, so that it can do without.
	Reason string
}

// Approver answers what an agent asks for. The agent waits meanwhile, but may
// ask for something else. The context ends when no answer is wanted any more:
// with the turn, when the turn is interrupted, or when the agent takes its
// question back. The turn does not end before the Approver has returned.
type Approver func(context.Context, Approval) Decision

// DenyAll is the Approver of drivers that are given none: nobody is there to
// be asked. What an agent may do without asking is its own configuration's to
// say.
func DenyAll(context.Context, Approval) Decision {
	return Decision{Reason: "nobody is there to allow this: the session runs unattended, and only what its permissions allow beforehand can be done"}
}

// AllowAll is an Approver for agents that are shut in by other means.
func AllowAll(context.Context, Approval) Decision { return Decision{Allow: true} }

// approve asks the approver, or denies if there is none or no turn to ask for.
func approve(ctx context.Context, approver Approver, approval Approval) Decision {
	if approver == nil {
		approver = DenyAll
	}
	var decision Decision
	if ctx.Err() == nil {
		decision = approver(ctx, approval)
	}
	if ctx.Err() != nil {
		return Decision{Reason: "the turn is being ended"}
	}
	if !decision.Allow && decision.Reason == "" {
		decision.Reason = "this is not allowed here"
	}
	return decision
}

// MCPServer is a Model Context Protocol server that an agent starts for
// itself and talks to over standard input and output. What an agent is given
// so, it may use without asking. Its name is made of letters, digits, - and
// single underscores.
type MCPServer struct {
	// Command is the server as a program and its arguments.
	Command []string
	// Env are variables of the form NAME=value for it. They do not stand among
	// the agent's arguments, which everybody can read; codex has them in its own
	// environment, so all its servers share their values.
	Env []string
}

func (s MCPServer) program() string {
	if len(s.Command) == 0 {
		return ""
	}
	return s.Command[0]
}

func (s MCPServer) arguments() []string {
	if len(s.Command) == 0 {
		return []string{}
	}
	return append([]string{}, s.Command[1:]...)
}

func (s MCPServer) variables() map[string]string {
	variables := make(map[string]string)
	for _, variable := range s.Env {
		if name, value, ok := strings.Cut(variable, "="); ok {
			variables[name] = value
		}
	}
	return variables
}

// checkServers makes sure that the names of the servers can stand in the
// names of tools and in configurations.
func checkServers(servers map[string]MCPServer) error {
	for name, server := range servers {
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			return fmt.Errorf("%w: the MCP server name %.40q has other characters than letters, digits, - and _", ErrUnavailable, name)
		}
		if strings.Contains(name, "__") || strings.HasSuffix(name, "_") {
			return fmt.Errorf("%w: the MCP server name %.40q has two underscores, or one at its end, and its tools could be taken for another server's", ErrUnavailable, name)
		}
		if server.program() == "" {
			return fmt.Errorf("%w: the MCP server %s has no command", ErrUnavailable, name)
		}
	}
	return nil
}
