package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// NewCodex returns the driver for Codex: the codex program's app server, which speaks JSON-RPC. The
// events of a turn are the server's notifications, byte for byte. The driver does not change the
// user's settings.
//
// The server logs in with CODEX_API_KEY if the program's environment has it, as codex exec does. It
// keeps the key in memory and changes no stored login.
func NewCodex(options Options) Driver {
	return newResident(options, codexRelease, func(r *resident) *program {
		c := new(codex)
		c.program = newProgram(r, c)
		return c.program
	})
}

// codexRelease names the oldest release whose app server speaks the driver's protocol.
var codexRelease = release{
	program: "codex",
	oldest:  "0.100.0",
	install: "install codex with: npm install -g @openai/codex",
	login:   "log in once with: codex login (or set CODEX_API_KEY)",
}

// codex is the protocol of a running app server.
type codex struct {
	rpcProgram
	// thread is the id of the session. Total is what it has used up, and counted the part that finished
	// turns have counted; nil means unknown.
	thread         string
	total, counted *codexTokens
	// limit is when the limits of the account end that are reached.
	limit time.Time

	// The other fields are about the running turn. Request is the id of the request that starts it, id
	// the program's own id of the turn.
	request, id string
	// words is the agent's last message.
	words   string
	usage   Usage
	refused []Refusal
}

// codexArguments returns the command line of the app server.
func codexArguments(o *Options) []string {
	args := append(slices.Clone(o.Command), "app-server")
	if codexKey(o) != "" {
		args = append(args, "-c", `cli_auth_credentials_store="ephemeral"`)
	}
	for _, name := range slices.Sorted(maps.Keys(o.MCP)) {
		args = append(args, codexMCP(name, o.MCP[name])...)
	}
	return append(args, o.Args...)
}

// codexKey returns the key to log in with, "" for the login that the program has stored.
func codexKey(o *Options) string { return o.lookupVariable("CODEX_API_KEY") }

// codexMCP returns the configuration of a server as arguments. Its values are TOML, which has the string
// syntax of JSON.
func codexMCP(name string, server MCPServer) []string {
	key := "mcp_servers." + name + "."
	return []string{
		"-c", key + "command=" + tomlString(server.Command[0]),
		"-c", key + "args=" + string(mustJSON(server.Command[1:])),
		"-c", key + `default_tools_approval_mode="approve"`,
	}
}

func tomlString(text string) string { return string(mustJSON(text)) }

// start starts the app server and opens a thread on it.
func (c *codex) start(ctx context.Context, session string) error {
	o := &c.driver.options
	if err := c.launch(ctx, c.driver.path, codexArguments(o), o.Dir, o.environment()); err != nil {
		return err
	}
	client := map[string]any{"clientInfo": map[string]any{"name": "oacp", "title": "oacp", "version": "1"}}
	if err := c.ask(ctx, "codex app-server does not answer", "initialize", client, &struct{}{}); err != nil {
		return err
	}
	c.send(jsonLine(rpcMessage{Method: "initialized"}))
	if err := c.logIn(ctx); err != nil {
		return err
	}
	return c.openThread(ctx, session)
}

// logIn logs in with the key, if there is one, or makes sure that the program is logged in.
func (c *codex) logIn(ctx context.Context) error {
	if key := codexKey(&c.driver.options); key != "" {
		login := map[string]any{"type": "apiKey", "apiKey": key}
		return c.ask(ctx, "codex does not take the key in CODEX_API_KEY", "account/login/start", login, &struct{}{})
	}
	var login struct {
		Account json.RawMessage `json:"account"`
		Needed  bool            `json:"requiresOpenaiAuth"`
	}
	err := c.ask(ctx, "codex does not tell who is logged in", "account/read", struct{}{}, &login)
	if err == nil && login.Needed && (len(login.Account) == 0 || string(login.Account) == "null") {
		err = newAPIError(NotLoggedIn, 0, "codex is not logged in", codexRelease.login)
	}
	return err
}

func (c *codex) openThread(ctx context.Context, session string) error {
	o := &c.driver.options
	sandbox := map[Permission]string{PermitNothing: "read-only", PermitEdits: "workspace-write", PermitAll: "danger-full-access"}[o.Allow]
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
	err := c.ask(ctx, "codex did not open the session", method, params, &opened)
	if refused, ok := errors.AsType[*rpcError](err); ok && session != "" {
		// The second is the server's answer to a name that cannot be a session id.
		if said := refused.Message; strings.Contains(said, "no rollout found") || strings.Contains(said, "invalid session id") {
			return fmt.Errorf("%w: %s", ErrUnknownSession, said)
		}
	}
	c.thread = opened.Thread.ID
	return err
}

// ask sends a request before the first turn, and reads the result of the answer. Failure says what an
// error of the server means.
func (c *codex) ask(ctx context.Context, failure, method string, params, result any) error {
	err := c.rpcProgram.ask(ctx, method, params, result)
	if silent, ok := errors.AsType[*silence](err); ok {
		if ctx.Err() != nil {
			return silent.error
		}
		return codexRelease.notStarted(silent.error, c.lastWords())
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, failure, err)
	}
	return nil
}

func (c *codex) died() error {
	return &DiedError{Program: "codex", LastLine: c.lastWords(), Err: c.death()}
}

func (c *codex) begin(t *residentTurn) {
	c.id = ""
	c.words = ""
	c.usage = Usage{}
	c.refused = nil
	var line []byte
	line, c.request = c.newRequest("turn/start", map[string]any{
		"threadId": c.thread, "input": []any{map[string]any{"type": "text", "text": t.prompt}},
	})
	c.send(line)
}

// Steer adds a text to the turn. The program answers at once, and ends the turn only after the model has seen the text.
func (c *codex) Steer(ctx context.Context, text string) error {
	params := map[string]any{"threadId": c.thread, "input": []any{map[string]any{"type": "text", "text": text}}}
	c.locked(func() { params["expectedTurnId"] = c.id })
	return c.rpcProgram.ask(ctx, "turn/steer", params, &struct{}{})
}

func (c *codex) receive(t *residentTurn, line []byte) {
	m := readRPC(line)
	switch {
	case m == nil:
		c.note(line, false)
	case m.isRequest():
		c.send(codexAnswer(m, c.decide))
	case c.answers(m, line):
	case m.isResponse():
		if t != nil && string(m.ID) == c.request {
			c.started(t, m)
		}
	case t != nil:
		c.take(t, m, line)
	}
}

// decide returns why the agent may not do what a request is about, "" if it may.
func (c *codex) decide(server, command string) string {
	_, trusted := c.driver.options.MCP[server]
	reason := c.denial(trusted, command)
	if reason == unattended && server != "" && c.turn != nil { // items of the turn report other refusals
		c.refuse(Refusal{Tool: "MCP server", What: server, Count: 1, Allow: PermitAll})
	}
	return reason
}

func (c *codex) refuse(r Refusal) { c.refused = mergeRefusals(c.refused, []Refusal{r}) }

// started takes the answer to the request that starts the turn.
func (c *codex) started(t *residentTurn, m *rpcMessage) {
	var started struct {
		Turn codexTurn `json:"turn"`
	}
	if err := m.decode(&started); err != nil {
		c.end(t, fmt.Errorf("codex did not take the prompt: %w", err))
		return
	}
	c.accepted(t, started.Turn.ID)
}

// accepted notes that the program has taken the prompt.
func (c *codex) accepted(t *residentTurn, id string) {
	c.id = id
	c.driver.adopt(c.thread, false)
	t.accepted = true
}

// take handles a notification during a turn.
func (c *codex) take(t *residentTurn, m *rpcMessage, line []byte) {
	var n codexNotice
	var mistyped *json.UnmarshalTypeError // items of other types have fields of other shapes
	if err := json.Unmarshal(m.Params, &n); err != nil && !errors.As(err, &mistyped) || n.ThreadID != c.thread {
		n = codexNotice{} // of another shape, or about another thread
	}
	event := Event{Raw: line}
	var failure error
	over := false
	switch {
	case m.Method == "item/started" && n.Item != nil:
		event.Acts = n.Item.calls()
	case m.Method == "item/completed" && n.Item != nil && n.Item.Type == "agentMessage":
		c.words, event.Text = n.Item.Text, n.Item.Text
		t.said.add(n.Item.Text + "\n")
	case m.Method == "item/completed" && n.Item != nil:
		c.noteRefusal(n.Item)
	case m.Method == "error" && n.Error != nil:
		event.Text, event.Error = safeText(n.Error.Message)+"\n", true
		if n.WillRetry && !t.retry(&event, n.Error.retried()) {
			return
		}
	case m.Method == "turn/started" && n.Turn != nil && c.id == "":
		c.accepted(t, n.Turn.ID)
	case m.Method == "thread/tokenUsage/updated" && n.TokenUsage != nil:
		c.count(&n)
	case m.Method == "account/rateLimits/updated":
		var limits codexLimits
		_ = json.Unmarshal(m.Params, &limits) // limits of another shape say nothing
		c.limit = limits.end()
	case m.Method == "turn/completed" && n.Turn != nil && n.Turn.ID == c.id:
		c.driver.adopt(c.thread, true)
		failure, over = until(n.Turn.err(), c.limit), true
	}
	t.show(event)
	if over {
		c.end(t, failure)
	}
}

// noteRefusal records the item if it is an action that was not permitted. PermitEdits permits changes of
// files in the agent's folder.
func (c *codex) noteRefusal(item *codexItem) {
	refusal, ok := item.refusal()
	if !ok {
		return
	}
	if item.Type == "fileChange" && c.driver.options.Allow != PermitEdits {
		refusal.Allow = PermitEdits
	}
	c.refuse(refusal)
}

// count computes the usage of the turn from that of the session.
func (c *codex) count(n *codexNotice) {
	total, last := n.TokenUsage.Total, n.TokenUsage.Last
	c.total = &total
	if n.TurnID != c.id {
		c.counted = &total
		return
	}
	if c.counted == nil {
		c.counted = &codexTokens{total.Input - last.Input, total.Output - last.Output}
	}
	c.usage = Usage{InputTokens: total.Input - c.counted.Input, OutputTokens: total.Output - c.counted.Output}
}

// result returns the agent's last message as the answer, or all messages if the turn broke off.
func (c *codex) result(t *residentTurn) (Result, error) {
	result := t.said.result()
	if c.words != "" {
		result.setAnswer(c.words)
	}
	result.Usage, result.Refused = c.usage, c.refused
	c.counted = c.total
	return result, nil
}

// codexAnswer answers a request of the app server. Denial returns why the agent may not do what the
// request is about, "" if it may.
func codexAnswer(m *rpcMessage, denial func(server, command string) string) []byte {
	var request struct {
		ServerName  string          `json:"serverName"`
		Permissions json.RawMessage `json:"permissions"`
		Actions     []codexAction   `json:"commandActions"`
		// Meta says whether a question that seems to come from an MCP server is the program's own
		// question about the use of a tool.
		Meta struct {
			Kind string `json:"codex_approval_kind"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &request) // for a request of another shape, the method decides
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
		return jsonLine(rpcMessage{ID: m.ID, Error: &rpcError{Code: rpcNoMethod, Message: text}})
	}
	answer := allow
	if denial(request.ServerName, codexCommand(request.Actions)) != "" {
		answer = deny
	}
	return jsonLine(rpcMessage{ID: m.ID, Result: mustJSON(answer)})
}
