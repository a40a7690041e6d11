package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

// codex is the driver for the codex program: its app server, spoken to in JSON-RPC. The events of a
// turn are the server's notifications, byte for byte.
//
// CODEX_API_KEY in the program's environment is what the server logs in with, as codex exec does.
// The server keeps the key in memory and changes no stored login.
type codex struct{ resident }

// NewCodex returns the driver for Codex. It does not change the user's settings.
func NewCodex(options Options) Driver {
	c := &codex{newResident(options, codexRelease)}
	c.launch = c.start
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

// environ returns the variables of the program with those of the MCP servers.
func (c *codex) environ() []string {
	env := slices.Clone(c.options.Env)
	for _, name := range slices.Sorted(maps.Keys(c.options.MCP)) {
		env = append(env, c.options.MCP[name].Env...)
	}
	return env
}

// codexServer is a running app server.
type codexServer struct {
	*child
	driver *codex
	calls  rpcCalls
	// ready reports that the thread is open, so that lines are for the turn.
	ready atomic.Bool
	// thread is the id of the session, used what the server last said that the session used up.
	thread string
	used   *codexTokens
}

// start starts the app server and opens a thread on it.
func (c *codex) start(ctx context.Context, session string) (process, error) {
	s := &codexServer{driver: c}
	var err error
	s.child, err = startChild(ctx, childSpec{
		path: c.programPath(), command: c.arguments(), dir: c.options.Dir, env: c.environ(), grace: c.options.Grace,
		line: s.receive, stderr: s.receiveStderr,
	})
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, startLimit,
		fmt.Errorf("%w: codex did not answer within %v", ErrUnavailable, startLimit))
	defer cancel()
	err = s.greet(limited)
	if err == nil {
		err = s.logIn(limited)
	}
	if err == nil {
		err = s.openThread(limited, session)
	}
	if err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	return s, nil
}

// greet makes sure that the server speaks the protocol.
func (s *codexServer) greet(ctx context.Context) error {
	client := map[string]any{"clientInfo": map[string]any{"name": "oacp", "title": "oacp", "version": "1"}}
	var hello struct {
		UserAgent string `json:"userAgent"`
	}
	err := s.calls.call(ctx, s.child, "initialize", client, &hello)
	if err := codexRelease.check(hello.UserAgent); err != nil {
		return err
	}
	switch {
	case err != nil && s.hasEnded() && ctx.Err() == nil:
		return codexRelease.notStarted(err, lastLine(s.printed()))
	case err != nil:
		return s.refusal("codex app-server does not answer", err)
	}
	s.send(rpcMessage{Method: "initialized"}.line())
	return nil
}

// logIn logs in with the key, if there is one, or makes sure that the program is logged in.
func (s *codexServer) logIn(ctx context.Context) error {
	if key := s.driver.apiKey(); key != "" {
		login := map[string]any{"type": "apiKey", "apiKey": key}
		if err := s.calls.call(ctx, s.child, "account/login/start", login, &struct{}{}); err != nil {
			return s.refusal("codex does not take the key in CODEX_API_KEY", err)
		}
		return nil
	}
	var login struct {
		Account json.RawMessage `json:"account"`
		Needed  bool            `json:"requiresOpenaiAuth"`
	}
	if err := s.calls.call(ctx, s.child, "account/read", struct{}{}, &login); err != nil {
		return s.refusal("codex does not tell who is logged in", err)
	}
	if login.Needed && (len(login.Account) == 0 || string(login.Account) == "null") {
		return newAPIError(NotLoggedIn, 0, "codex is not logged in", codexRelease.login)
	}
	return nil
}

func (s *codexServer) openThread(ctx context.Context, session string) error {
	o := &s.driver.options
	sandbox := map[Permission]string{PermitEdits: "workspace-write", PermitAll: "danger-full-access"}[o.Allow]
	params := make(map[string]any)
	for name, value := range map[string]string{"cwd": o.Dir, "model": o.Model, "sandbox": sandbox} {
		if value != "" {
			params[name] = value
		}
	}
	method := "thread/start"
	if session != "" {
		method = "thread/resume"
		params["threadId"], params["excludeTurns"] = session, true
	}
	var opened struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
	}
	err := s.calls.call(ctx, s.child, method, params, &opened)
	var refused *rpcError
	switch {
	case errors.As(err, &refused) && session != "" && saysUnknownSession(refused.Message):
		return fmt.Errorf("%w: %s", ErrUnknownSession, refused.Message)
	case err != nil:
		return s.refusal("codex did not open the session", err)
	}
	s.thread = opened.Thread.ID
	s.ready.Store(true)
	return nil
}

// saysUnknownSession reports whether the server refuses a session because there is no such session.
// It says the second of names that are not session ids at all.
func saysUnknownSession(said string) bool {
	return strings.Contains(said, "no rollout found") || strings.Contains(said, "invalid session id")
}

// refusal says why the server cannot be used, unless the context ended.
func (s *codexServer) refusal(what string, err error) error {
	if errors.Is(err, ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	err = fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
	if said := lastLine(s.printed()); said != "" && s.hasEnded() {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// receive handles a line of the server's output.
func (s *codexServer) receive(c *child, line []byte) {
	m := readRPC(line)
	if m == nil {
		c.note(line)
	}
	switch {
	case m != nil && m.isResponse() && s.calls.resolve(m):
	case s.ready.Load() && s.driver.turns.deliver(said{line: line, message: m}):
	case m != nil && m.isRequest():
		// Something asks between turns that runs in the background.
		c.send(codexAnswer(m, func(server, _ string) string {
			if _, ok := s.driver.options.MCP[server]; ok {
				return ""
			}
			return unattended
		}))
	}
}

func (s *codexServer) receiveStderr(text string) {
	if s.ready.Load() {
		s.driver.turns.deliver(said{stderr: text})
	}
}

func (s *codexServer) endError() error {
	return &DiedError{Program: "codex", Stderr: s.printed(), Err: s.death()}
}

// codexAnswer answers a request of the app server. Denial returns why the agent may not do what the
// request is about, "" if it may.
func codexAnswer(m *rpcMessage, denial func(server, command string) string) []byte {
	var request struct {
		ServerName  string          `json:"serverName"`
		Permissions json.RawMessage `json:"permissions"`
		Actions     []codexAction   `json:"commandActions"`
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
	if denial(request.ServerName, codexCommand(request.Actions)) != "" {
		answer = deny
	}
	return rpcMessage{ID: m.ID, Result: mustJSON(answer)}.line()
}
