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
	"sync"
	"sync/atomic"
	"time"
)

// claude is the driver for Claude Code: the claude program in print mode, with streaming JSON in
// both directions. The events of a turn are the program's messages, byte for byte, without the
// control messages between program and driver. The next turn counts what the program uses up between
// turns, for commands that run in the background.
type claude struct{ resident }

// NewClaude returns the driver for Claude Code. It does not change the user's settings.
func NewClaude(options Options) Driver {
	c := &claude{newResident(options, claudeRelease)}
	c.launch = c.start
	return c
}

// claudeRelease names the oldest release that the driver is known to work with.
var claudeRelease = release{
	program: "claude",
	oldest:  version{2, 1, 0},
	install: "install Claude Code with: npm install -g @anthropic-ai/claude-code",
	login:   "log in once with: claude /login (or set ANTHROPIC_API_KEY)",
}

// startLimit is how long a program may take to answer for the first time.
const startLimit = time.Minute

// claudeProcess is a running claude program.
type claudeProcess struct {
	*child
	driver *claude
	// greeting is the id of the initialize request, hello its answer.
	greeting string
	hello    chan claudeResponse
	// ready reports that the answer has come, so that lines are for the turn.
	ready atomic.Bool
	// refusal is what the program said instead of an answer.
	refusal atomic.Pointer[string]
	// total is what the session has cost up to the last result. Only the reader of the output uses
	// it.
	total float64
	// background is what the program used up between turns; counting guards it.
	counting   sync.Mutex
	background Usage
}

// arguments returns the whole command line. The file holds the configuration of the MCP servers, if
// there are any.
func (c *claude) arguments(session, servers string) []string {
	o := &c.options
	mode := ""
	if o.Allow == PermitEdits {
		mode = "acceptEdits"
	}
	args := append(slices.Clone(o.Command), "-p", "--input-format", "stream-json", "--output-format", "stream-json",
		"--verbose", "--replay-user-messages", "--permission-prompt-tool", "stdio")
	for _, option := range [][2]string{
		{"--resume", session}, {"--model", o.Model}, {"--permission-mode", mode}, {"--mcp-config", servers},
	} {
		if option[1] != "" {
			args = append(args, option[0]+"="+option[1]) // the value may begin with a dash
		}
	}
	if o.Partial {
		args = append(args, "--include-partial-messages")
	}
	return append(args, o.Args...)
}

// writeServers writes the configuration of the servers to a file that only this user can read, and
// returns its path, "" if there are no servers. Arguments could be read by everybody.
func writeServers(servers map[string]MCPServer) (path string, err error) {
	if len(servers) == 0 {
		return "", nil
	}
	file, err := os.CreateTemp("", "oacp-mcp-*.json")
	if err == nil {
		_, err = file.Write(claudeMCP(servers))
		err = errors.Join(err, file.Close())
		path = file.Name()
	}
	if err != nil {
		err = fmt.Errorf("%w: writing the configuration of the MCP servers: %w", ErrUnavailable, err)
	}
	return path, err
}

// claudeMCP returns the configuration of the servers as the program reads it.
func claudeMCP(servers map[string]MCPServer) []byte {
	type entry struct {
		Type    string            `json:"type"`
		Command string            `json:"command"`
		Args    []string          `json:"args"`
		Env     map[string]string `json:"env,omitempty"`
	}
	entries := make(map[string]entry)
	for name, server := range servers {
		entries[name] = entry{"stdio", server.Command[0], server.Command[1:], server.variables()}
	}
	return mustJSON(map[string]any{"mcpServers": entries})
}

// start starts the program with its servers.
func (c *claude) start(ctx context.Context, session string) (process, error) {
	servers, err := writeServers(c.options.MCP)
	if servers != "" {
		defer os.Remove(servers) // the program has read it when it answers
	}
	if err != nil {
		return nil, err
	}
	p := &claudeProcess{driver: c, greeting: newUUID(), hello: make(chan claudeResponse, 1)}
	p.child, err = startChild(ctx, childSpec{
		path: c.programPath(), command: c.arguments(session, servers), dir: c.options.Dir, env: c.options.Env, grace: c.options.Grace,
		line: p.receive, stderr: p.receiveStderr,
	})
	if err != nil {
		return nil, err
	}
	if err := p.greet(ctx); err != nil {
		return nil, errors.Join(err, p.stop(ctx))
	}
	return p, nil
}

// greet waits for the first answer of the program and checks it.
func (p *claudeProcess) greet(ctx context.Context) error {
	p.send(claudeAsk(p.greeting, "initialize"))
	select {
	case answer := <-p.hello:
		return p.check(answer)
	case <-p.ended:
		return p.explain()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(startLimit):
		return fmt.Errorf("%w: claude did not answer within %v", ErrUnavailable, startLimit)
	}
}

// check checks that turns can be run with the program that answered.
func (p *claudeProcess) check(answer claudeResponse) error {
	if answer.Subtype != "success" {
		return fmt.Errorf("%w: claude rejected the start of the session: %s", ErrUnavailable, reason(answer.Error))
	}
	var hello claudeHello
	if err := json.Unmarshal(answer.Response, &hello); err != nil {
		return fmt.Errorf("%w: reading what claude says about itself: %w", ErrUnavailable, err)
	}
	if err := claudeRelease.check(hello.Version); err != nil {
		return err
	}
	if hello.loggedOut() {
		return newAPIError(NotLoggedIn, 0, "claude is not logged in", claudeRelease.login)
	}
	return nil
}

// explain says why the program ended instead of answering.
func (p *claudeProcess) explain() error {
	if err := p.unknownSession(); err != nil {
		return err
	}
	return claudeRelease.notStarted(p.death(), p.lastWords())
}

// lastWords returns what the program said before it ended.
func (p *claudeProcess) lastWords() string {
	if refusal := p.refusal.Load(); refusal != nil {
		return *refusal
	}
	return lastLine(p.printed()) // where old releases say it
}

// receive handles a line of the program's output.
func (p *claudeProcess) receive(c *child, line []byte) {
	m := readClaude(line)
	switch {
	case m == nil:
		c.note(line)
	case m.Type == "result":
		m.used = m.Usage.usage()
		m.used.Turns, m.used.CostUSD = m.NumTurns, m.cost(p.total)
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
	case !p.ready.Load(): // the program is still starting
	case p.driver.turns.deliver(said{line: line, message: m}):
	case m == nil:
	case m.Type == "control_request":
		// Something asks that runs in the background.
		c.send(claudeDecide(m, func(use claudeDenial) string {
			if ofServer(use.Tool, p.driver.options.MCP) {
				return ""
			}
			return unattended
		}))
	default:
		p.counting.Lock()
		p.background = p.background.Plus(m.used)
		p.counting.Unlock()
	}
}

func (p *claudeProcess) receiveStderr(text string) {
	if p.ready.Load() {
		p.driver.turns.deliver(said{stderr: text})
	}
}

// unknownSession returns an error if the program ended because it does not have the session that it
// was to continue.
func (p *claudeProcess) unknownSession() error {
	words := p.lastWords()
	// The program says the second of names that are not session ids at all.
	if strings.Contains(words, "No conversation found") || strings.Contains(words, "requires a valid session ID") {
		return fmt.Errorf("%w: %s", ErrUnknownSession, words)
	}
	return nil
}

// endError may be that the session is unknown: old releases look for it only when there is a
// prompt.
func (p *claudeProcess) endError() error {
	if err := p.unknownSession(); err != nil {
		return err
	}
	return &DiedError{Program: "claude", Stderr: p.printed(), Err: p.death()}
}

// newUUID returns a random UUID.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0F|0x40, b[8]&0x3F|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Plus returns the sum of both.
func (u Usage) Plus(other Usage) Usage {
	return Usage{
		Turns:        u.Turns + other.Turns,
		InputTokens:  u.InputTokens + other.InputTokens,
		OutputTokens: u.OutputTokens + other.OutputTokens,
		CostUSD:      u.CostUSD + other.CostUSD,
	}
}
