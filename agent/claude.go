package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// NewClaude returns the driver for Claude Code: the claude program in print mode, with streaming JSON
// in both directions. The events of a turn are the program's messages, byte for byte, without the
// control messages between program and driver. What the program uses up between turns, for commands
// that run in the background, counts for the next turn. The driver does not change the user's settings.
func NewClaude(options Options) Driver {
	return newResident(options, claudeRelease, func(r *resident) *program {
		c := &claude{greeting: newUUID()}
		c.program = newProgram(r, c)
		return c.program
	})
}

// claudeRelease names the oldest release that the driver is known to work with.
var claudeRelease = release{
	program: "claude",
	oldest:  "2.1.0",
	install: "install Claude Code with: npm install -g @anthropic-ai/claude-code",
	login:   "log in once with: claude /login (or set ANTHROPIC_API_KEY)",
}

// claude is the protocol of a running claude program.
type claude struct {
	*program
	// greeting is the id of the initialize request.
	greeting string
	// refusal is what the program said instead of answering that request.
	refusal string
	// total is the cost of the session up to the last result. Spent is the usage that no turn has
	// counted yet.
	total float64
	spent Usage

	// The other fields are about the running turn. Prompts are the ids of its message and of those that steer it, and
	// waiting those of the latter that the program has not taken.
	prompts, waiting []string
	// denials are those that the results of the turn report.
	denials []claudeDenial
	fold    *sdkFold
	// denied maps the id of each use of a tool that the driver denied to the permission that allows it.
	denied map[string]Permission
}

// claudeArguments returns the whole command line.
func claudeArguments(o *Options, session string) []string {
	mode, rules := "", ""
	switch o.Allow {
	case PermitEdits:
		mode = "acceptEdits"
	case PermitNothing:
		mode, rules = "default", claudeAsks
	}
	args := append(slices.Clone(o.Command), "-p", "--input-format", "stream-json", "--output-format", "stream-json",
		"--verbose", "--replay-user-messages", "--permission-prompt-tool", "stdio")
	for _, option := range [][2]string{
		{"--resume", session}, {"--model", o.Model}, {"--permission-mode", mode}, {"--mcp-config", claudeMCP(o.MCP)}, {"--settings", rules},
	} {
		if option[1] != "" {
			args = append(args, option[0]+"="+option[1]) // the value may begin with a dash
		}
	}
	if rules != "" {
		// No servers of its own settings, and no settings of the folder: their hooks would run.
		args = append(args, "--strict-mcp-config", "--setting-sources=user")
	}
	return append(args, o.Args...)
}

// claudeAsks are settings with which the program asks before it changes, runs or fetches anything: these rules precede those
// of its own settings that allow something. The driver denies what it asks for.
const claudeAsks = `{"permissions":{"ask":["Bash","Edit","MultiEdit","Write","NotebookEdit","WebFetch","WebSearch","Task","Agent","Skill","PowerShell","Monitor"],` +
	`"disableBypassPermissionsMode":"disable"}}`

// claudeMCP returns the program's configuration of the servers, "" if there are none.
func claudeMCP(servers map[string]MCPServer) string {
	type entry struct {
		Type    string   `json:"type"`
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	if len(servers) == 0 {
		return ""
	}
	entries := make(map[string]entry)
	for name, server := range servers {
		entries[name] = entry{"stdio", server.Command[0], server.Command[1:]}
	}
	return string(mustJSON(map[string]any{"mcpServers": entries}))
}

// start starts the program and checks its first answer.
func (c *claude) start(ctx context.Context, session string) error {
	o := &c.driver.options
	if err := c.launch(ctx, c.driver.path, claudeArguments(o, session), o.Dir, o.environment()); err != nil {
		return err
	}
	line, err := c.call(ctx, jsonLine(map[string]any{
		"type": "control_request", "request_id": c.greeting,
		"request": map[string]any{"subtype": "initialize"},
	}))
	switch {
	case err != nil && c.hasEnded():
		if err := c.unknownSession(); err != nil {
			return err
		}
		return claudeRelease.notStarted(err, cmp.Or(c.refusal, c.lastWords()))
	case err != nil:
		return err
	}
	answer := readClaude(line).Response
	if answer.Subtype != "success" {
		return fmt.Errorf("%w: claude rejected the start of the session: %s", ErrUnavailable, reason(answer.Error))
	}
	var hello claudeHello
	if err := json.Unmarshal(answer.Response, &hello); err != nil {
		return fmt.Errorf("%w: reading what claude says about itself: %w", ErrUnavailable, err)
	}
	if hello.loggedOut() {
		return newAPIError(NotLoggedIn, 0, "claude is not logged in", claudeRelease.login)
	}
	return nil
}

// unknownSession returns an error if the program ended because it does not have the session to
// continue.
func (c *claude) unknownSession() error {
	words := cmp.Or(c.refusal, c.lastWords())
	// The second is the program's answer to a name that cannot be a session id.
	if strings.Contains(words, "No conversation found") || strings.Contains(words, "requires a valid session ID") {
		return fmt.Errorf("%w: %s", ErrUnknownSession, words)
	}
	return nil
}

// died may return ErrUnknownSession: old releases look for the session only when there is a prompt.
func (c *claude) died() error {
	if err := c.unknownSession(); err != nil {
		return err
	}
	return &DiedError{Program: "claude", LastLine: c.lastWords(), Err: c.death()}
}

func (c *claude) begin(t *residentTurn) {
	c.prompts, c.waiting, c.denials = nil, nil, nil
	c.fold = &sdkFold{said: t.said}
	c.denied = make(map[string]Permission)
	c.say(t.prompt, t.images...)
}

// say sends a message of the user, images before the text, and returns its id.
func (c *claude) say(text string, images ...json.RawMessage) (id string) {
	var content any = plainPrompt(text)
	if len(images) > 0 {
		content = append(slices.Clone(images), mustJSON(claudeBlock{Type: "text", Text: plainPrompt(text)}))
	}
	id = newUUID()
	c.prompts = append(c.prompts, id)
	c.send(jsonLine(map[string]any{
		"type": "user", "uuid": id,
		"message": map[string]any{"role": "user", "content": content},
	}))
	return id
}

// Steer sends another message of the user. The program takes it after the next tool call or, if there is none, as a prompt
// of its own with another result.
func (c *claude) Steer(_ context.Context, text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn == nil {
		return errNoSteering
	}
	c.waiting = append(c.waiting, c.say(text))
	return nil
}

func (c *claude) receive(t *residentTurn, line []byte) {
	m := readClaude(line)
	if m == nil {
		c.note(line, false)
		return
	}
	switch m.Type {
	case "control_response":
		if m.Response != nil && m.Response.RequestID == c.greeting && c.greeting != "" {
			c.greeting = ""
			c.answer <- line
		}
		return
	case "control_request":
		c.send(claudeDecide(m, c.decide))
		return
	case "result":
		if m.isRefusal() {
			c.refusal = strings.Join(m.Errors, "; ")
			return
		}
		used := m.Usage.usage()
		used.Turns, used.CostUSD = m.NumTurns, m.cost(c.total)
		c.total = m.TotalCost
		c.spent = c.spent.Plus(used)
	}
	if t != nil && m.Type != "control_cancel_request" {
		c.take(t, m, line)
	}
}

// take handles a message during a turn.
func (c *claude) take(t *residentTurn, m *claudeMessage, line []byte) {
	isOurs := func(id string) bool { return slices.Contains(c.prompts, id) }
	named := slices.ContainsFunc(m.UserMessages, isOurs)
	repeats := m.Type == "user" && m.IsReplay
	if m.Type == "result" && !named && (len(m.UserMessages) > 0 || !t.accepted) {
		t.show(Event{Raw: line}) // the result of something that ran in the background
		return
	}
	c.denials = append(c.denials, m.Denials...)
	event := Event{Raw: line, Text: c.fold.add(m), Acts: m.calls()}
	if failure := m.retried(); failure != nil && !t.retry(&event, failure) {
		return
	}
	if m.SessionID != "" {
		c.driver.adopt(m.SessionID, m.Type == "result")
	}
	t.show(event)
	t.accepted = t.accepted || named || repeats && isOurs(m.UUID)
	c.waiting = slices.DeleteFunc(c.waiting, func(id string) bool {
		return repeats && m.UUID == id || m.Type == "result" && slices.Contains(m.UserMessages, id)
	})
	if m.Type == "result" && (len(c.waiting) == 0 || m.IsError) {
		c.end(t, nil)
	}
}

func (c *claude) result(*residentTurn) (Result, error) {
	result, failure := c.fold.finish()
	result.Usage, c.spent = c.spent, Usage{}
	if c.fold.final != nil {
		result.Refused = claudeRefusals(c.denials, c.denied)
	}
	return result, failure
}

// decide returns why the program may not use a tool, "" if it may.
func (c *claude) decide(use claudeDenial) string {
	reason := c.denial(ofServer(use.Tool, c.driver.options.MCP), use.command())
	if reason == unattended && c.turn != nil {
		c.denied[use.ID] = use.permission(c.driver.options.Allow)
	}
	return reason
}

// claudeDecide answers a control request. Denial returns why the program may not use a tool, "" if it
// may.
func claudeDecide(m *claudeMessage, denial func(use claudeDenial) string) []byte {
	request := cmp.Or(m.Request, &claudeRequest{})
	if request.Subtype != "can_use_tool" {
		text := fmt.Sprintf("this client does not answer requests of type %.40q", request.Subtype)
		return claudeReply(claudeResponse{Subtype: "error", RequestID: m.RequestID, Error: text})
	}
	answer := map[string]any{"behavior": "allow", "updatedInput": request.Input}
	use := request.claudeDenial
	use.Input = request.Input
	if reason := denial(use); reason != "" {
		answer = map[string]any{"behavior": "deny", "message": reason}
	}
	return claudeReply(claudeResponse{Subtype: "success", RequestID: m.RequestID, Response: mustJSON(answer)})
}

// ofServer reports whether a tool belongs to one of the servers. The program joins the names of server
// and tool with two underscores, which either name may contain too. A tool whose name could belong to
// another server does not count.
func ofServer(tool string, servers map[string]MCPServer) bool {
	for name := range servers {
		own, ok := strings.CutPrefix(tool, "mcp__"+name+"__")
		if ok && own != "" && !strings.HasPrefix(own, "_") && !strings.Contains(own, "__") {
			return true
		}
	}
	return false
}

// newUUID returns a random UUID.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0F|0x40, b[8]&0x3F|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
