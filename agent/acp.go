package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/visible"
)

// NewACP returns the driver for programs that speak the Agent Client Protocol over standard input and
// output. The events of a turn are the program's updates of the session, byte for byte. The answer is
// the agent's last message.
//
// The driver offers the program no files and no terminals, so the program works with tools of its own
// and asks for permission. The driver selects the program's mode in which it asks, and does not start a
// turn of a program that never asks unless everything is permitted.
func NewACP(options Options) Driver {
	name := "the program"
	if len(options.Command) > 0 {
		name = filepath.Base(options.Command[0])
	}
	known := release{program: name, install: "install " + name + ", or give another program that speaks the Agent Client Protocol"}
	if p := FindProgram(name); p != nil {
		known.install = "install it with: " + p.Install
	}
	return newResident(options, known, func(r *resident) *program {
		c := &acp{rpcProgram: rpcProgram{version: "2.0"}}
		c.program = newProgram(r, c)
		return c.program
	})
}

// acpVersion is the version of the protocol that the driver speaks.
const acpVersion = 1

// acp is the protocol of a running program.
type acp struct {
	rpcProgram
	// dir is the working folder of the session.
	dir, session string
	// lost says that the program could not continue a session. The next turn reports it.
	lost string
	// asks reports that the program is known to ask for permission unless its own settings permit an
	// action. Other programs are watched.
	asks bool
	// namesMessages reports that the program gives the model's messages ids. Text without one is then
	// the program's.
	namesMessages bool
	// updates counts the updates of the session.
	updates int
	// cost is what the session has cost so far, and counted the part that finished turns have counted;
	// nil means unknown.
	cost, counted *float64

	// The other fields are about the running turn. Request is the id of the request that starts it.
	request string
	// words is the agent's last message, and message its id. Spoken reports that it is complete.
	words   *output
	message string
	spoken  bool
	usage   Usage
	refused []Refusal
	// calls are the uses of tools, by id.
	calls map[string]*acpCall
}

// start starts the program and opens a session.
func (c *acp) start(ctx context.Context, session string) (err error) {
	o := &c.driver.options
	if c.dir, err = filepath.Abs(o.Dir); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err := c.launch(ctx, c.driver.path, append(slices.Clone(o.Command), o.Args...), o.Dir, o.environment()); err != nil {
		return err
	}
	var hello acpHello
	err = c.ask(ctx, "initialize", map[string]any{
		"protocolVersion":    acpVersion,
		"clientCapabilities": map[string]any{"fs": map[string]any{"readTextFile": false, "writeTextFile": false}, "terminal": false},
		"clientInfo":         map[string]any{"name": "oacp", "title": "oacp", "version": "1"},
	}, &hello)
	if err != nil {
		return err
	}
	if hello.Version != acpVersion {
		return fmt.Errorf("%w: %s speaks version %d of the Agent Client Protocol, and oacp speaks version %d",
			ErrUnavailable, c.driver.release.program, hello.Version, acpVersion)
	}
	if err := c.recognize(hello.Info.Name); err != nil {
		return err
	}
	return c.open(ctx, session, &hello)
}

// recognize returns an error if the program does not ask for permission where the options want it to.
func (c *acp) recognize(name string) error {
	i := slices.IndexFunc(knownPrograms, func(p Program) bool { return p.identity != "" && p.identity == name })
	if i < 0 {
		return nil
	}
	p := &knownPrograms[i]
	c.asks = p.asksIf == ""
	if o := &c.driver.options; o.Allow != PermitAll && !c.asks && o.lookupVariable(p.asksIf) == "" {
		return fmt.Errorf("%w: %s changes files and runs commands without asking, so --allow %s means nothing to it; "+
			`use --allow all, or set %s='{"*":"ask"}', with which it asks`, ErrUnavailable, p.Name, cmp.Or(o.Allow, PermitOwn), p.asksIf)
	}
	return nil
}

// acpModes are the modes of programs in which they ask for what a permission does not cover, best
// first, by the names that the known programs give them.
var acpModes = map[Permission][]string{
	PermitOwn:   {"default", "read-only"},
	PermitEdits: {"default", "workspace-write"},
	PermitAll:   {"default", "agent-full-access"},
}

// open opens a session and selects its mode and model. A program that cannot continue a session, or that lost it
// when it was restarted, opens a new one.
func (c *acp) open(ctx context.Context, session string, hello *acpHello) error {
	o := &c.driver.options
	method := "session/new"
	switch {
	case session == "":
	case hello.Can.Session.Resume != nil:
		method = "session/resume"
	case hello.Can.Load:
		method = "session/load"
	default:
		c.lost = c.driver.release.program + " cannot continue a session: a new one begins, without what was said before"
		session = ""
	}
	params := map[string]any{"cwd": c.dir, "mcpServers": acpServers(o.MCP)}
	if session == "" {
		c.locked(func() { c.counted = new(float64) })
	} else {
		params["sessionId"] = session
	}
	var opened acpSession
	err := c.ask(ctx, method, params, &opened)
	if refused, ok := errors.AsType[*ReportedError](err); ok && session != "" {
		if c.driver.running.Load() == nil { // the caller decides
			return fmt.Errorf("%w: %s", ErrUnknownSession, refused.Text)
		}
		c.lost = fmt.Sprintf("%s has lost the session (%s): a new one begins, without what was said before", c.driver.release.program, refused.Text)
		return c.open(ctx, "", hello)
	}
	c.locked(func() { c.session = cmp.Or(session, opened.ID) }) // updates may come already
	if err == nil && c.session == "" {
		err = fmt.Errorf("%w: %s opened no session", ErrUnavailable, c.driver.release.program)
	}
	if err == nil && method == "session/load" {
		err = c.awaitPast(ctx)
	}
	for _, mode := range acpModes[cmp.Or(o.Allow, PermitOwn)] {
		if err == nil && opened.offers(mode) {
			if mode != opened.Modes.Current {
				err = c.ask(ctx, "session/set_mode", map[string]any{"sessionId": c.session, "modeId": mode}, &struct{}{})
			}
			break
		}
	}
	if err == nil && o.Model != "" {
		err = c.ask(ctx, "session/set_model", map[string]any{"sessionId": c.session, "modelId": o.Model}, &struct{}{})
	}
	return err
}

// awaitPast waits until the program has repeated the past of the session, so that no turn takes it for its own.
// Gemini answers session/load before it has. It answers other requests between two updates, so the past has
// ended when no update precedes an answer. The method asked for is nobody's, so asking changes nothing.
func (c *acp) awaitPast(ctx context.Context) error {
	for {
		var before, after int
		c.locked(func() { before = c.updates })
		err := c.rpcProgram.ask(ctx, "_oacp/ping", struct{}{}, &json.RawMessage{})
		if silent, ok := errors.AsType[*silence](err); ok {
			return c.unstarted(ctx, silent)
		}
		c.locked(func() { after = c.updates })
		if before == after {
			return nil
		}
	}
}

// ask sends a request before the first turn, and reads the result of the answer.
func (c *acp) ask(ctx context.Context, method string, params, result any) error {
	err := c.rpcProgram.ask(ctx, method, params, result)
	if silent, ok := errors.AsType[*silence](err); ok {
		return c.unstarted(ctx, silent)
	}
	if refused, ok := errors.AsType[*rpcError](err); ok {
		failure := refused.failure(c.driver.release.program)
		if _, ok := failure.(*APIError); ok {
			return failure
		}
		return fmt.Errorf("%w: %s refuses %s: %w", ErrUnavailable, c.driver.release.program, method, failure)
	}
	if err != nil {
		return fmt.Errorf("%w: reading the answer of %s to %s: %w", ErrUnavailable, c.driver.release.program, method, err)
	}
	return nil
}

// unstarted returns why a program that is silent did not start.
func (c *acp) unstarted(ctx context.Context, silent *silence) error {
	if ctx.Err() != nil {
		return silent.error
	}
	return fmt.Errorf("%w: %s did not start: %w: %s", ErrUnavailable, c.driver.release.program, silent.error, reason(c.lastWords()))
}

func (c *acp) died() error {
	return &DiedError{Program: c.driver.release.program, LastLine: c.lastWords(), Err: c.death()}
}

// begin counts the prompt as accepted, because programs do not confirm it.
func (c *acp) begin(t *residentTurn) {
	c.words, c.message, c.spoken = newOutput(nil), "", false
	c.usage, c.refused, c.calls = Usage{}, nil, make(map[string]*acpCall)
	if c.lost != "" {
		t.said.addStderr(c.lost + "\n")
		t.show(Event{Text: c.lost + "\n", Error: true, Acts: []Act{{NewSession, c.lost}}})
		c.lost = ""
	}
	c.driver.adopt(c.session, false)
	t.accepted = true
	var line []byte
	line, c.request = c.newRequest("session/prompt", map[string]any{
		"sessionId": c.session, "prompt": []any{map[string]any{"type": "text", "text": t.prompt}},
	})
	c.send(line)
}

// interrupt asks the program to end the turn. It answers the request that began the turn.
func (c *acp) interrupt() {
	c.send(jsonLine(rpcMessage{Version: c.version, Method: "session/cancel", Params: mustJSON(map[string]any{"sessionId": c.session})}))
}

func (c *acp) receive(t *residentTurn, line []byte) {
	m := readRPC(line)
	switch {
	case m == nil:
		c.note(line, false)
	case m.isRequest():
		c.send(jsonLine(c.respond(m)))
	case c.answers(m, line):
	case m.isResponse():
		if t != nil && string(m.ID) == c.request {
			c.done(t, m)
		}
	case m.Method == "session/update":
		c.take(t, m, line)
	}
}

// take handles an update of the session. Between turns the program repeats the past of a session.
func (c *acp) take(t *residentTurn, m *rpcMessage, line []byte) {
	var n acpNotice
	var mistyped *json.UnmarshalTypeError // updates of other kinds have fields of other shapes
	if err := json.Unmarshal(m.Params, &n); err != nil && !errors.As(err, &mistyped) || n.SessionID != c.session {
		return
	}
	c.updates++
	u := &n.Update
	if u.Cost != nil && u.Cost.Currency == "USD" {
		c.cost = &u.Cost.Amount
		if t == nil {
			c.counted = c.cost
		}
	}
	if t == nil {
		return
	}
	event := Event{Raw: line}
	var failure error
	switch u.Kind {
	case "agent_message_chunk":
		c.usage = c.usage.Plus(u.Meta.Usage.usage())
		event.Text = c.say(t, u)
	case "tool_call", "tool_call_update":
		call := c.call(&u.acpCall)
		if u.Kind == "tool_call" {
			event.Acts = []Act{{ToolCall, describeTool(call.tool(), call.what())}}
		}
		failure = c.unasked(call)
	}
	t.show(event)
	if failure != nil {
		t.mustStop = true
		c.end(t, failure)
	}
}

// say adds a piece of a message, and returns it.
func (c *acp) say(t *residentTurn, u *acpUpdate) string {
	text := u.text()
	if text == "" {
		return ""
	}
	if c.namesMessages = c.namesMessages || u.MessageID != ""; c.namesMessages && u.MessageID == "" {
		t.said.addStderr(text)
		return ""
	}
	if c.spoken || u.MessageID != c.message {
		c.words, c.message, c.spoken = newOutput(nil), u.MessageID, false
		t.said.add("\n")
	}
	c.words.add(text)
	t.said.add(text)
	return text
}

// call adds what an update says about the use of a tool, and returns all that is known about it.
func (c *acp) call(update *acpCall) *acpCall {
	c.spoken = true
	known := c.calls[update.ID]
	if known == nil {
		known = new(acpCall)
		c.calls[update.ID] = known
	}
	known.merge(update)
	return known
}

// unasked returns an error if a program that is not known to ask has done something without asking that
// the options do not permit.
func (c *acp) unasked(call *acpCall) error {
	if c.asks || call.asked || call.Status != "completed" || !call.acts() || c.denialOf(call) == "" {
		return nil
	}
	return fmt.Errorf("%s did not ask before it used %s, so --allow %s means nothing to it: use --allow all, or make the program ask",
		c.driver.release.program, describeTool(call.tool(), call.what()), cmp.Or(c.driver.options.Allow, PermitOwn))
}

// denialOf returns why the agent may not use a tool, "" if it may.
func (c *acp) denialOf(call *acpCall) string {
	o := &c.driver.options
	if o.Allow == PermitEdits && call.edits(c.dir) {
		return ""
	}
	return c.denial(call.ofServer(o.MCP), call.command())
}

// refuse records that the agent may not use a tool.
func (c *acp) refuse(call *acpCall) {
	refusal := Refusal{Tool: visible.CutBytes(call.tool(), maxQuote), What: call.what(), Count: 1, Allow: PermitAll}
	if c.driver.options.Allow != PermitEdits && call.edits(c.dir) {
		refusal.Allow = PermitEdits
	}
	c.refused = mergeRefusals(c.refused, []Refusal{refusal})
}

// done takes the answer to the request that began the turn.
func (c *acp) done(t *residentTurn, m *rpcMessage) {
	var done acpDone
	err := m.decode(&done)
	if refused, ok := errors.AsType[*rpcError](err); ok {
		err = refused.failure(c.driver.release.program)
	} else if err == nil && done.StopReason != "end_turn" && (done.StopReason != "cancelled" || c.refused == nil) { // a refusal ends a turn of codex-acp
		text := "the turn ended with the reason " + done.StopReason
		switch kind := kindOf(0, done.StopReason); kind {
		case TooLong:
			err = &APIError{Kind: kind, Text: text}
		case Declined:
			err = &APIError{Kind: kind, Text: cmp.Or(strings.TrimSpace(c.words.result().Text), text)}
		default:
			err = &ReportedError{Text: text}
		}
	}
	if err == nil {
		c.driver.adopt(c.session, true)
	}
	c.usage = cmp.Or(done.Usage.usage(), done.Meta.Quota.Tokens.usage(), c.usage)
	if c.cost != nil && c.counted != nil {
		c.usage.CostUSD = max(0, *c.cost-*c.counted)
	}
	if c.cost != nil {
		c.counted = c.cost
	}
	c.end(t, err)
}

// result returns the agent's last message as the answer, or all messages if there is none.
func (c *acp) result(t *residentTurn) (Result, error) {
	result := t.said.result()
	if words := c.words.result(); words.Text != "" {
		result.Text, result.Truncated = words.Text, words.Truncated
	}
	result.Usage, result.Refused = c.usage, c.refused
	return result, nil
}
