package setup

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/visible"
)

// serverName is the name under which the MCP server is registered.
const serverName = "oacp"

// An mcpCall is the command line of an MCP server.
type mcpCall struct {
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

// isOurs reports whether the command line calls oacp mcp --agent NAME.
func (c mcpCall) isOurs() bool {
	return isOACP(c.Command) && len(c.Args) == 3 && c.Args[0] == "mcp" && c.Args[1] == "--agent"
}

// isWritten reports whether setup wrote the server into the settings of claude. Its user registers one without the variable.
func (c mcpCall) isWritten() bool { return c.isOurs() && strings.HasPrefix(c.Args[2], fromEnvironment) }

func (c mcpCall) equal(other mcpCall) bool {
	return c.Command == other.Command && slices.Equal(c.Args, other.Args)
}

// agent returns the agent that a server of oacp acts for.
func (c mcpCall) agent() string {
	return strings.TrimSuffix(strings.TrimPrefix(c.Args[2], fromEnvironment), "}")
}

// other returns the error that another server is registered. Arguments of foreign programs may be secret.
func (c mcpCall) other() error {
	if !c.isOurs() {
		c.Args = nil
	}
	if c.Command == "" {
		return errOtherServer
	}
	return fmt.Errorf("%w: %s", errOtherServer, visible.ShellCommand(append([]string{c.Command}, c.Args...)...))
}

// checkOwn returns an error if a server has settings that are not among those that setup writes.
func checkOwn(entry map[string]any, ours ...string) error {
	var others []string
	for _, name := range slices.Sorted(maps.Keys(entry)) {
		if !slices.Contains(ours, name) {
			others = append(others, name)
		}
	}
	if others == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", errAdded, strings.Join(others, ", "))
}

// server is the part of claude's configuration that registers oacp mcp.
type server struct {
	// path leads to the server.
	path []any
	mcpCall
}

// serverEntry is how claude itself writes a server.
type serverEntry struct {
	Type string `json:"type"`
	mcpCall
	Env map[string]string `json:"env"`
}

func (server) name() string { return "MCP server" }

// find returns the server that is registered, if there is one.
func (s server) find(d *document) (v value, call mcpCall, ok bool) {
	if v, ok = d.find(s.path...); ok && d.decode(v, &call) != nil {
		call = mcpCall{}
	}
	return v, call, ok
}

func (s server) fill(d *document) error {
	_, call, ok := s.find(d)
	switch {
	case !ok:
		return d.set(serverEntry{"stdio", s.mcpCall, map[string]string{}}, s.path...)
	case call.equal(s.mcpCall), call.isOurs() && !call.isWritten() && call.agent() == s.agent():
		return nil // also if the user registered it, and then it stays the user's
	case !call.isWritten():
		return call.other()
	}
	return errors.Join(d.set(s.Command, append(slices.Clone(s.path), "command")...), d.set(s.Args, append(slices.Clone(s.path), "args")...))
}

func (s server) ours(d *document) ([]any, error) {
	v, call, _ := s.find(d)
	if !call.isWritten() {
		return nil, nil
	}
	var entry map[string]any
	if err := d.decode(v, &entry); err != nil {
		return nil, err
	}
	if env, ok := entry["env"].(map[string]any); ok && len(env) == 0 {
		delete(entry, "env")
	}
	return s.path, checkOwn(entry, "type", "command", "args")
}

// allowed are the commands that claude may run without asking: those that a digest and oacp help agent name, without
// those that can send a file or lift a limit of turns. A rule allows all flags, so in a session ack and reply themselves refuse to act
// for another agent, and reply to read a file. Other commands, such as oacp run, start programs.
var allowed = []string{"ack", "help", "inbox", "list", "owed", "read", "reply", "status"}

// permissions returns the parts of claude's settings that let it use the tools of the MCP server and those commands
// without asking.
func permissions() []part {
	parts := []part{inJSON{permission("mcp__" + serverName)}}
	for _, name := range allowed {
		parts = append(parts, inJSON{permission("Bash(oacp " + name + ":*)")})
	}
	return parts
}

// A permission is a rule of what claude may do without asking.
type permission string

func (p permission) name() string { return string(p) }

func (p permission) fill(d *document) error {
	if path, _ := p.ours(d); path != nil {
		return nil
	}
	return d.set(string(p), "permissions", "allow", end)
}

func (p permission) ours(d *document) ([]any, error) {
	for i, v := range d.elements("permissions", "allow") {
		if d.equal(v, string(p)) {
			return []any{"permissions", "allow", i}, nil
		}
	}
	return nil, nil
}
