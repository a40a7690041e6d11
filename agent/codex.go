package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// codex is the driver for the codex program: its app server, spoken to in JSON-RPC. The events of a
// turn are the server's notifications, byte for byte.
//
// CODEX_API_KEY in the program's environment is what the server logs in with, as codex exec does.
// The server keeps the key in memory and changes no stored login.
type codex struct{ resident }

// NewCodex returns the driver for Codex. It changes none of the user's settings.
func NewCodex(options Options) Driver {
	c := &codex{newResident(options, codexRelease)}
	c.launch = func(ctx context.Context, session string) (process, error) {
		s, err := c.start(ctx, session)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	return c
}

// codexRelease names the oldest release whose app server speaks the driver's protocol.
var codexRelease = release{
	program: "codex",
	oldest:  version{0, 100, 0},
	install: "install codex with: npm install -g @openai/codex",
	login:   "log in once with: codex login (or set CODEX_API_KEY)",
}

// arguments returns the command line of the app server.
func (c *codex) arguments() []string {
	args := append(slices.Clone(c.options.Command), "app-server")
	if c.apiKey() != "" {
		args = append(args, "-c", `cli_auth_credentials_store="ephemeral"`)
	}
	for _, name := range slices.Sorted(maps.Keys(c.options.MCP)) {
		args = append(args, codexMCP(name, c.options.MCP[name])...)
	}
	return append(args, c.options.Args...)
}

// apiKey returns the key to log in with, "" for the login that the program has stored.
func (c *codex) apiKey() string { return lookupVariable(c.options.Env, "CODEX_API_KEY") }

// codexMCP returns the configuration of a server as arguments. Its values are TOML, in which the
// strings of JSON are strings, too.
func codexMCP(name string, server MCPServer) []string {
	key := "mcp_servers." + name + "."
	args := []string{
		"-c", key + "command=" + tomlString(server.Command[0]),
		"-c", key + "args=" + tomlList(server.Command[1:]),
		"-c", key + `default_tools_approval_mode="approve"`,
	}
	// Everybody can read arguments. So the values are in the program's environment, which hands
	// them on.
	if names := slices.Sorted(maps.Keys(server.variables())); len(names) > 0 {
		args = append(args, "-c", key+"env_vars="+tomlList(names))
	}
	return args
}

func tomlString(text string) string { return string(mustJSON(text)) }

func tomlList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = tomlString(text)
	}
	return "[" + strings.Join(quoted, ",") + "]"
}

// environ returns the variables of the program with those of the MCP servers. A variable with two
// values is an error.
func (c *codex) environ() ([]string, error) {
	env := slices.Clone(c.options.Env)
	values := make(map[string]string)
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		values[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(c.options.MCP)) {
		for variable, value := range c.options.MCP[name].variables() {
			if other, ok := values[variable]; ok && other != value {
				return nil, fmt.Errorf("%w: codex cannot give the variable %.60q of the MCP server %s another value than the one it has elsewhere",
					ErrUnavailable, variable, name)
			}
			values[variable] = value
			env = append(env, variable+"="+value)
		}
	}
	return env, nil
}

// codexAnswer answers a request of the app server. Denial returns why the agent may not do what the
// request is about, "" if it may.
func codexAnswer(m *rpcMessage, denial func(server string) string) []byte {
	var request struct {
		ServerName  string          `json:"serverName"`
		Permissions json.RawMessage `json:"permissions"`
		// Meta says whether a question that an MCP server asks the user is really the program's,
		// about the use of a tool.
		Meta struct {
			Kind string `json:"codex_approval_kind"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &request) // a request of another shape is judged by its method
	var allow, deny map[string]any
	switch m.Method {
	case "item/commandExecution/requestApproval", "item/fileChange/requestApproval":
		allow, deny = map[string]any{"decision": "accept"}, map[string]any{"decision": "decline"}
	case "mcpServer/elicitation/request":
		deny = map[string]any{"action": "decline"}
		allow = map[string]any{"action": "accept", "content": map[string]any{}}
		if request.Meta.Kind != "mcp_tool_call" {
			allow = deny // a form that nobody can fill in
		}
	case "item/permissions/requestApproval":
		nothing := json.RawMessage(`{}`)
		allow, deny = map[string]any{"permissions": request.Permissions}, map[string]any{"permissions": nothing}
		if request.Permissions == nil {
			allow = deny
		}
	default:
		text := fmt.Sprintf("this client does not answer %.60q", m.Method)
		return rpcMessage{ID: m.ID, Error: &rpcError{Code: rpcNoMethod, Message: text}}.line()
	}
	answer := allow
	if denial(request.ServerName) != "" {
		answer = deny
	}
	return rpcMessage{ID: m.ID, Result: mustJSON(answer)}.line()
}
