package agent

import (
	"fmt"
	"strings"
)

// MCPServer is a Model Context Protocol server that an agent starts for itself and talks to over
// standard input and output. The agent may use its tools without asking. The server's name consists
// of letters, digits, - and single underscores.
type MCPServer struct {
	// Command is the server as a program and its arguments.
	Command []string
	// Env are variables of the form NAME=value for it. They do not appear among the agent's
	// arguments, which everybody can read. Codex has them in its own environment, so all its
	// servers share their values.
	Env []string
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

// checkServers checks that the servers have commands, and names that can be part of the names of
// tools and of configurations.
func checkServers(servers map[string]MCPServer) error {
	for name, server := range servers {
		if name == "" || strings.Trim(name, alphanumeric+"_-") != "" {
			return fmt.Errorf("%w: the MCP server name %.40q has characters other than letters, digits, - and _", ErrUnavailable, name)
		}
		if strings.Contains(name, "__") || strings.HasSuffix(name, "_") {
			return fmt.Errorf("%w: the MCP server name %.40q has two underscores in a row or one at its end, "+
				"so its tools could be mistaken for another server's", ErrUnavailable, name)
		}
		if len(server.Command) == 0 || server.Command[0] == "" {
			return fmt.Errorf("%w: the MCP server %s has no command", ErrUnavailable, name)
		}
	}
	return nil
}
