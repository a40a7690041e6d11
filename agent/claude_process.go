package agent

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// startLimit is how long a program may take to answer for the first time.
const startLimit = time.Minute

// claudeProcess is a claude program that runs.
type claudeProcess struct {
	*child
	claude *Claude
	// greeting is the id of the initialize request, hello its answer.
	greeting string
	hello    chan claudeResponse
	// ready says that lines are for the turn: the answer has come.
	ready atomic.Bool
	// refusal is what the program said instead of an answer.
	refusal atomic.Pointer[string]
	// total is what the session has cost up to the last result. It belongs to
	// whoever reads the output.
	total float64
}

// arguments returns the whole command line. The file has the configuration of
// the MCP servers, if there are any.
func (c *Claude) arguments(session, servers string) []string {
	o := &c.options
	args := append(slices.Clone(o.Command), "-p", "--input-format", "stream-json", "--output-format", "stream-json",
		"--verbose", "--replay-user-messages", "--permission-prompt-tool", "stdio")
	for _, option := range [][2]string{
		{"--resume", session}, {"--model", o.Model}, {"--permission-mode", o.permissionMode}, {"--mcp-config", servers},
	} {
		if option[1] != "" {
			args = append(args, option[0]+"="+option[1]) // whatever it begins with
		}
	}
	return append(args, o.Args...)
}

// writeServers writes the configuration of the servers to a file that nobody
// else can read, as arguments can be, and returns its path, "" where there are
// no servers.
func writeServers(servers map[string]MCPServer) (path string, err error) {
	if len(servers) == 0 {
		return "", nil
	}
	file, err := os.CreateTemp("", "oacp-mcp-*.json")
	if err == nil {
		_, err = file.WriteString(claudeMCP(servers))
		err = errors.Join(err, file.Close())
		path = file.Name()
	}
	if err != nil {
		err = fmt.Errorf("%w: writing the configuration of the MCP servers: %w", ErrUnavailable, err)
	}
	return path, err
}

// claudeMCP is the configuration of the servers as the program reads it.
func claudeMCP(servers map[string]MCPServer) string {
	type entry struct {
		Type    string            `json:"type"`
		Command string            `json:"command"`
		Args    []string          `json:"args"`
		Env     map[string]string `json:"env,omitempty"`
	}
	entries := make(map[string]entry)
	for name, server := range servers {
		entries[name] = entry{Type: "stdio", Command: server.program(), Args: server.arguments(), Env: server.variables()}
	}
	data, err := json.Marshal(map[string]any{"mcpServers": entries})
	if err != nil {
		panic(err) // strings have a JSON form
	}
	return string(data)
}

// launch starts the program with its servers.
func (c *Claude) launch(ctx context.Context, session string) (*claudeProcess, error) {
	var p *claudeProcess
	servers, err := writeServers(c.options.MCP)
	if err == nil {
		p, err = c.greet(ctx, session, servers)
	}
	if servers != "" { // which the program has read when it answers
		err = errors.Join(err, os.Remove(servers))
	}
	if err != nil && p != nil {
		return nil, errors.Join(err, p.stop(ctx))
	}
	return p, err
}

// greet starts the program and waits for its first answer.
func (c *Claude) greet(ctx context.Context, session, servers string) (*claudeProcess, error) {
	c.mu.Lock()
	path := c.path
	c.mu.Unlock()
	p := &claudeProcess{claude: c, greeting: newUUID(), hello: make(chan claudeResponse, 1)}
	started, err := startChild(ctx, childSpec{
		path: path, command: c.arguments(session, servers), dir: c.options.Dir, env: c.options.Env, grace: c.options.Grace,
		line: p.receive, complaint: p.complain,
	})
	if err != nil {
		return nil, err
	}
	p.child = started
	p.send(claudeAsk(p.greeting, "initialize"))
	timer := time.NewTimer(startLimit)
	defer timer.Stop()
	select {
	case answer := <-p.hello:
		err = p.check(ctx, answer)
	case <-p.ended:
		err = p.explain(ctx)
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
		err = fmt.Errorf("%w: claude did not answer within %v", ErrUnavailable, startLimit)
	}
	if err != nil {
		return nil, errors.Join(err, p.stop(ctx))
	}
	return p, nil
}

// check makes sure that turns can be run with what has answered.
func (p *claudeProcess) check(ctx context.Context, answer claudeResponse) error {
	if answer.Subtype != "success" {
		return fmt.Errorf("%w: claude refused to be driven: %s", ErrUnavailable, reason(answer.Error))
	}
	var hello claudeHello
	if err := json.Unmarshal(answer.Response, &hello); err != nil {
		return fmt.Errorf("%w: reading what claude says about itself: %w", ErrUnavailable, err)
	}
	v, ok := parseVersion(hello.Version)
	if !ok { // old releases do not tell of themselves
		v, ok = askVersion(ctx, p.spec.path, p.claude.options.Command, p.spec.env)
	}
	if ok && v.before(oldestClaude) {
		return tooOld("claude", v, oldestClaude, claudeInstall+"@latest")
	}
	if hello.loggedOut() {
		return newAPIError(NotLoggedIn, 0, "claude is not logged in", claudeLogin)
	}
	return nil
}

func tooOld(program string, found, oldest version, advice string) error {
	return fmt.Errorf("%w: this is %s %v, and at least %v is needed; %s", ErrUnavailable, program, found, oldest, advice)
}

// explain says why the program ended instead of answering.
func (p *claudeProcess) explain(ctx context.Context) error {
	if err := p.unknownSession(); err != nil {
		return err
	}
	command := p.claude.options.Command
	if v, ok := askVersion(ctx, p.spec.path, command, p.spec.env); ok && v.before(oldestClaude) {
		return tooOld("claude", v, oldestClaude, claudeInstall+"@latest")
	}
	said := lastLine(p.complaints())
	if refusal := p.refusal.Load(); refusal != nil {
		said = *refusal
	}
	return fmt.Errorf("%w: claude did not start: %w: %s", ErrUnavailable, p.death(), reason(said))
}

// receive takes a line from the program.
func (p *claudeProcess) receive(c *child, line []byte) {
	m := readClaude(line)
	switch {
	case m == nil:
		c.note(line)
	case m.Type == "result":
		m.used = m.Usage.usage()
		m.used.CostUSD = m.cost(p.total)
		p.total = m.TotalCost
	}
	switch {
	case m != nil && m.Type == "control_response":
		if m.Response != nil && m.Response.RequestID == p.greeting && p.ready.CompareAndSwap(false, true) {
			p.hello <- *m.Response
		}
	case m != nil && m.isRefusal():
		text := strings.Join(m.Errors, "; ")
		p.refusal.Store(&text)
	case !p.ready.Load(): // something on the way to the answer
	case p.claude.turns.deliver(said{line: line, message: m}):
	case m == nil || m.Type == "control_cancel_request":
	case m.Type == "control_request":
		// Asked between turns, by something that runs in the background.
		c.send(claudeReply(claudeDecide(context.Background(), m, nil, p.claude.options.MCP)))
	default:
		p.claude.background.add(Event{Raw: line, Text: newSDKFold().add(line)}, m.used)
	}
}

func (p *claudeProcess) complain(text string) {
	if p.ready.Load() {
		p.claude.turns.deliver(said{complaint: text})
	}
}

// claudeDecide answers a control request.
func claudeDecide(ctx context.Context, m *claudeMessage, approver Approver, trusted map[string]MCPServer) claudeResponse {
	var request claudeRequest
	if err := json.Unmarshal(m.Request, &request); err != nil || request.Subtype != "can_use_tool" {
		return claudeResponse{
			Subtype: "error", RequestID: m.RequestID,
			Error: fmt.Sprintf("this client does not answer requests of type %.40q", request.Subtype),
		}
	}
	if ofServer(request.ToolName, trusted) {
		approver = AllowAll
	}
	decision := approve(ctx, approver, Approval{Tool: request.ToolName, Detail: request.detail(), Raw: m.Request})
	answer := map[string]any{"behavior": "deny", "message": decision.Reason}
	if decision.Allow {
		answer = map[string]any{"behavior": "allow", "updatedInput": request.Input}
	}
	data, err := json.Marshal(answer)
	if err != nil {
		panic(err) // the input was read as JSON
	}
	return claudeResponse{Subtype: "success", RequestID: m.RequestID, Response: data}
}

// ofServer reports whether a tool is one of the servers', by the name that the
// program gives to it. The program joins the names of server and tool with two
// underscores, wherever else there may be some: what another server may be
// called as well is not taken for the servers' own.
func ofServer(tool string, servers map[string]MCPServer) bool {
	for name := range servers {
		own, ok := strings.CutPrefix(tool, "mcp__"+name+"__")
		if ok && own != "" && !strings.HasPrefix(own, "_") && !strings.Contains(own, "__") {
			return true
		}
	}
	return false
}

// unknownSession returns an error if the program ended because it was to go
// on with a session that is not there.
func (p *claudeProcess) unknownSession() error {
	said := lastLine(p.complaints()) // where old releases say it
	if refusal := p.refusal.Load(); refusal != nil {
		said = *refusal
	}
	// The second is said of names that are no ids of sessions at all.
	if strings.Contains(said, "No conversation found") || strings.Contains(said, "requires a valid session ID") {
		return fmt.Errorf("%w: %s", ErrUnknownSession, said)
	}
	return nil
}

// endError says that the program ended in the middle of a turn. Old releases
// look for the session not before there is a prompt.
func (p *claudeProcess) endError() error {
	if err := p.unknownSession(); err != nil {
		return err
	}
	return &DiedError{Program: "claude", Complaints: p.complaints(), Err: p.death()}
}

// died reports whether the error is that of a program that ended.
func died(err error) (*DiedError, bool) {
	var e *DiedError
	return e, errors.As(err, &e)
}

// newUUID makes up a random UUID.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0F|0x40, b[8]&0x3F|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
