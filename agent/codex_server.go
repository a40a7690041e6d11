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

// codexServer is an app server that runs.
type codexServer struct {
	*child
	codex *Codex
	calls rpcCalls
	// ready says that lines are for the turn: the thread is there.
	ready atomic.Bool
	// thread is the id of the session, used what it was last said to have used
	// up.
	thread string
	used   *codexTokens
}

// arguments returns the command line of a command of the program.
func (c *Codex) arguments(command ...string) []string {
	args := append(slices.Clone(c.options.Command), command...)
	for _, name := range slices.Sorted(maps.Keys(c.options.MCP)) {
		args = append(args, codexMCP(name, c.options.MCP[name])...)
	}
	return append(args, c.options.Args...)
}

// codexMCP is the configuration of a server as arguments. Its values are TOML,
// which takes the strings of JSON for its own.
func codexMCP(name string, server MCPServer) []string {
	key := "mcp_servers." + name + "."
	list := make([]string, 0, len(server.Command))
	for _, argument := range server.arguments() {
		list = append(list, quoted(argument))
	}
	args := []string{
		"-c", key + "command=" + quoted(server.program()),
		"-c", key + "args=[" + strings.Join(list, ",") + "]",
		"-c", key + `default_tools_approval_mode="approve"`,
	}
	// Arguments are for everybody to read, so the values stand in the program's
	// environment, from where it hands them on.
	var names []string
	for _, name := range slices.Sorted(maps.Keys(server.variables())) {
		names = append(names, quoted(name))
	}
	if len(names) > 0 {
		args = append(args, "-c", key+"env_vars=["+strings.Join(names, ",")+"]")
	}
	return args
}

// environ returns the variables of the program with those of the servers. A
// variable that is to have two values is an error.
func (c *Codex) environ() ([]string, error) {
	env := slices.Clone(c.options.Env)
	values := make(map[string]string)
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		values[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(c.options.MCP)) {
		for variable, value := range c.options.MCP[name].variables() {
			if other, ok := values[variable]; ok && other != value {
				return nil, fmt.Errorf("%w: codex cannot give the variable %.60q of the MCP server %s another value than the one it has elsewhere", ErrUnavailable, variable, name)
			}
			values[variable] = value
			env = append(env, variable+"="+value)
		}
	}
	return env, nil
}

func quoted(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err) // strings have a JSON form
	}
	return string(data)
}

// launch starts the app server and a thread on it.
func (c *Codex) launch(ctx context.Context, session string) (*codexServer, error) {
	c.mu.Lock()
	path, env := c.path, c.env
	c.mu.Unlock()
	s := &codexServer{codex: c}
	started, err := startChild(ctx, childSpec{
		path: path, command: c.arguments("app-server"), dir: c.options.Dir, env: env, grace: c.options.Grace,
		line: s.receive, complaint: s.complain,
	})
	if err != nil {
		return nil, err
	}
	s.child = started
	limited, cancel := context.WithTimeoutCause(ctx, startLimit,
		fmt.Errorf("%w: codex did not answer within %v", ErrUnavailable, startLimit))
	defer cancel()
	if err := s.open(limited, session); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	return s, nil
}

// open greets the server, makes sure that it is logged in, and opens the
// thread.
func (s *codexServer) open(ctx context.Context, session string) error {
	client := map[string]any{"clientInfo": map[string]any{"name": "oacp", "title": "oacp", "version": "1"}}
	var hello struct {
		UserAgent string `json:"userAgent"`
	}
	if err := s.calls.call(ctx, s.child, "initialize", client, &hello); err != nil {
		return s.noServer(ctx, s.refusal("codex app-server did not start", err))
	}
	if v, ok := parseVersion(hello.UserAgent); ok && v != (version{}) && v.before(oldestCodexServer) {
		return errNoServer
	}
	s.send(rpcMessage{Method: "initialized"}.line())
	var login struct {
		Account json.RawMessage `json:"account"`
		Needed  bool            `json:"requiresOpenaiAuth"`
	}
	if err := s.calls.call(ctx, s.child, "account/read", struct{}{}, &login); err != nil {
		return s.refusal("codex does not tell who is logged in", err)
	}
	if login.Needed && (len(login.Account) == 0 || string(login.Account) == "null") {
		if lookupVariable(s.spec.env, "CODEX_API_KEY") != "" {
			return errNoServer // the exec command alone takes a key from there
		}
		return newAPIError(NotLoggedIn, 0, "codex is not logged in", codexLogin)
	}
	return s.openThread(ctx, session)
}

func (s *codexServer) openThread(ctx context.Context, session string) error {
	o := &s.codex.options
	params := make(map[string]any)
	for name, value := range map[string]string{"cwd": o.Dir, "model": o.Model, "sandbox": o.sandbox, "approvalPolicy": o.approvalPolicy} {
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

// saysUnknownSession reports whether a session is refused because there is no
// such one. The second is said of names that are no ids of sessions at all.
func saysUnknownSession(said string) bool {
	return strings.Contains(said, "no rollout found") || strings.Contains(said, "invalid session id")
}

// noServer replaces the error of a server that ended at once, if the program
// is too old to have one.
func (s *codexServer) noServer(ctx context.Context, err error) error {
	if s.hasEnded() && ctx.Err() == nil {
		if v, ok := askVersion(ctx, s.spec.path, s.codex.options.Command, s.spec.env); ok && v.before(oldestCodexServer) {
			return errNoServer
		}
	}
	return err
}

// refusal says why the server cannot be used. What ended the context comes
// first.
func (s *codexServer) refusal(what string, err error) error {
	if errors.Is(err, ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	err = fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
	if said := lastLine(s.complaints()); said != "" && s.hasEnded() {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// receive takes a line from the server.
func (s *codexServer) receive(c *child, line []byte) {
	m := readRPC(line)
	if m == nil {
		c.note(line)
	}
	switch {
	case m != nil && m.isResponse():
		s.calls.resolve(m)
	case s.ready.Load() && s.codex.turns.deliver(said{line: line, message: m}):
	case m != nil && m.isRequest():
		// Asked between turns, by something that runs in the background.
		c.send(readAsked(m, nil).decide(context.Background(), nil, s.codex.options.MCP))
	}
}

func (s *codexServer) complain(text string) {
	if s.ready.Load() {
		s.codex.turns.deliver(said{complaint: text})
	}
}
