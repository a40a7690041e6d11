package setup

import (
	"encoding/json"
	"fmt"
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

func (c mcpCall) isOurs() bool {
	return isOACP(c.Command) && len(c.Args) > 0 && c.Args[0] == "mcp"
}

func (c mcpCall) equal(other mcpCall) bool {
	return c.Command == other.Command && slices.Equal(c.Args, other.Args)
}

// check returns an error for another program's server. The error omits the arguments, which may be secret.
func (c mcpCall) check() error {
	if c.isOurs() {
		return nil
	}
	return fmt.Errorf("%w: %s", errOtherServer, visible.Quote(c.Command))
}

// server is the part of claude's configuration that registers oacp mcp.
type server struct {
	// path leads to the server.
	path []string
	mcpCall
}

// serverEntry is how claude itself writes a server.
type serverEntry struct {
	Type string `json:"type"`
	mcpCall
	Env map[string]string `json:"env"`
}

func (server) name() string { return "MCP server" }

// callIn returns the command line of a server that is registered, or the zero value.
func callIn(entry json.RawMessage) (c mcpCall) {
	if json.Unmarshal(entry, &c) != nil {
		return mcpCall{}
	}
	return c
}

func (s server) put(data []byte) ([]byte, error) {
	return edit(func(entry json.RawMessage) (json.RawMessage, error) {
		found := callIn(entry)
		switch {
		case entry == nil:
			return json.RawMessage(encode(serverEntry{"stdio", s.mcpCall, map[string]string{}})), nil
		case found.equal(s.mcpCall):
			return entry, nil
		case found.check() != nil:
			return nil, found.check()
		}
		entry, err := setTo(s.Command).at("command")(entry)
		if err != nil {
			return nil, err
		}
		return setTo(s.Args).at("args")(entry)
	}).at(s.path...).inFile(data)
}

func (s server) take(data []byte) ([]byte, error) {
	return edit(func(entry json.RawMessage) (json.RawMessage, error) {
		if callIn(entry).isOurs() {
			return nil, nil
		}
		return entry, nil
	}).at(s.path...).inFile(data)
}

func setTo(content any) edit {
	return func(json.RawMessage) (json.RawMessage, error) { return json.RawMessage(encode(content)), nil }
}

// allowed are the commands that claude may run without asking: those that a digest and oacp help agent name, except those
// that can send a file or lift a limit on turns. Other commands, such as oacp run, start programs. A rule allows all flags
// of a command, so in a session ack and reply refuse to act for another agent, and reply refuses to read a file.
var allowed = []string{"ack", "help", "inbox", "list", "owed", "read", "recall", "reply", "status", "working"}

// permissions is the part of claude's settings that lets it use the tools of the MCP server and those commands
// without asking.
type permissions struct{}

func (permissions) name() string { return "permissions" }

func (permissions) rules() []string {
	rules := []string{"mcp__" + serverName}
	for _, name := range allowed {
		rules = append(rules, "Bash(oacp "+name+":*)")
	}
	return rules
}

func (p permissions) put(data []byte) ([]byte, error) {
	return edit(func(list json.RawMessage) (json.RawMessage, error) {
		all, err := elements(list)
		if err != nil {
			return nil, err
		}
		before := len(all)
		for _, rule := range p.rules() {
			if !slices.ContainsFunc(all, func(one json.RawMessage) bool { return sameJSON(one, rule) }) {
				all = append(all, json.RawMessage(encode(rule)))
			}
		}
		if len(all) == before {
			return list, nil
		}
		return json.RawMessage(encode(all)), nil
	}).at("permissions", "allow").inFile(data)
}

func (p permissions) take(data []byte) ([]byte, error) {
	return edit(func(one json.RawMessage) (json.RawMessage, error) {
		if slices.ContainsFunc(p.rules(), func(rule string) bool { return sameJSON(one, rule) }) {
			return nil, nil
		}
		return one, nil
	}).each().at("permissions", "allow").inFile(data)
}

// fromEnvironment begins a reference to a variable of claude's environment, with the agent of the setup as the
// default: claude replaces it, so a session that was started for another agent gets a server for that one. Codex
// does not pass its environment on.
const fromEnvironment = "${OACP_AGENT:-"

func callOfMCP(command, agent string) mcpCall {
	return mcpCall{command, strings.Fields("mcp --agent " + agent)}
}
