package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/oacp-go/oacp/ash"
)

// AshHandler lets an ash.Server serve drivers of all kinds except ash. It passes messages of the
// Claude Code SDK on untouched. For other agents, it turns the lines of the answer into
// assistant messages as they come, and the whole answer into a result message, in the shape of that SDK.
//
// A session continues after a turn that failed, and after its driver was stopped to make room for
// others.
type AshHandler struct {
	kind    Kind
	options Options
	pool    Pool
	// models are the models that the hosts chose for the sessions, by their names for them; empty for that of the options.
	models sync.Map
	// ids are the agents' own ids of the sessions, by the hosts' names for them.
	ids sync.Map
}

// maxIdleDrivers bounds the drivers that run between turns. Hosts may choose a new session for each
// query.
const maxIdleDrivers = 8

// NewAshHandler returns a handler that makes a driver of the kind when a session is first named. The drivers
// have the options, but sessions of their own, and the model that a host names.
func NewAshHandler(kind Kind, options Options) *AshHandler {
	h := &AshHandler{kind: kind, options: options}
	h.pool = Pool{Most: maxIdleDrivers, New: func(name, session string) Driver {
		options := options
		options.Session = session
		if model, _ := h.models.Load(name); model != nil && model != "" {
			options.Model = model.(string)
		}
		return kind.New(options)
	}}
	return h
}

// Query runs a turn of the query's session. An unknown name begins a session. It refuses what it does not honor.
func (h *AshHandler) Query(ctx context.Context, query ash.Query, send ash.Send) error {
	prompt, images, err := h.prompt(query)
	if err == nil {
		err = h.useModel(ctx, query)
	}
	if err != nil {
		return err
	}
	driver, err := h.driver(ctx, query.SessionID, true)
	if err != nil {
		return err
	}
	relay := newSDKRelay(query.SessionID, driver, send)
	result, err := RunTurn(ctx, driver, Request{Prompt: prompt, Images: images}, relay.event, nil)
	relay.say(len(relay.unsent))
	h.remember(query.SessionID, driver)
	if err != nil && !errors.Is(err, ash.ErrInterrupted) {
		return errors.Join(err, driver.Stop(context.WithoutCancel(ctx))) // the next turn gets a new one
	}
	if err == nil {
		err = relay.finish(result)
	}
	return errors.Join(err, h.pool.Keep(ctx, query.SessionID, driver))
}

// Resume makes sure that the session can continue, and returns an error if neither this bridge nor
// the agent knows it. It runs no turn.
func (h *AshHandler) Resume(ctx context.Context, session string, _ ash.Send) error {
	driver, err := h.driver(ctx, session, false)
	if err != nil {
		return err
	}
	h.remember(session, driver)
	return h.pool.Keep(ctx, session, driver)
}

// driver returns the session's driver. The server gives a session one turn at a time.
func (h *AshHandler) driver(ctx context.Context, name string, mayBegin bool) (Driver, error) {
	id, known := h.ids.Load(name)
	if !known {
		id = name
	}
	driver, err := h.pool.Get(ctx, name, id.(string), mayBegin && !known)
	if errors.Is(err, ErrUnknownSession) {
		h.ids.Delete(name) // the host knows now that it is gone; its next query may begin a new one
	}
	return driver, err
}

// remember stores the id that continues the session.
func (h *AshHandler) remember(name string, driver Driver) {
	if id := driver.SessionID(); id != "" {
		h.ids.Store(name, id)
	}
}

// Stop stops the drivers of all sessions. Call it when the server has ended.
func (h *AshHandler) Stop(ctx context.Context) error { return h.pool.Stop(ctx) }

// useModel makes sure that the session's driver has the model of the query. A driver with another one is stopped, and the
// next continues its session.
func (h *AshHandler) useModel(ctx context.Context, query ash.Query) error {
	last, _ := h.models.LoadOrStore(query.SessionID, "")
	switch {
	case len(query.Options) > 0:
		return fmt.Errorf("this bridge does not honor %s: leave it out", strings.Join(query.Options, ", "))
	case query.Model == last:
		return nil
	case !h.kind.Model:
		return errors.New("this bridge does not honor model: its agent takes none")
	}
	h.models.Store(query.SessionID, query.Model)
	if driver := h.pool.take(query.SessionID); driver != nil {
		return driver.Stop(ctx)
	}
	return nil
}

// maxExecOutput bounds each output of a command line in bytes, so that a result fits into a line.
const maxExecOutput = 4 << 20

// Exec runs a command line with sh, if the agent may do everything anyway. A command line that takes too long or prints too
// much is stopped, with the exit status 1.
func (h *AshHandler) Exec(ctx context.Context, command ash.Exec) (result ash.ExecResult, err error) {
	if !h.kind.Model || h.options.Allow != PermitAll {
		return result, errors.New("this bridge runs no commands for hosts: only oacp ash serve with --allow all does")
	}
	ctx, cancel := context.WithTimeout(ctx, command.Timeout)
	defer cancel()
	options := h.options
	options.Command, options.Grace = []string{"sh", "-c", command.Command}, time.Second
	shell := NewExec(options)
	if err := shell.Start(ctx); err != nil {
		return result, err
	}
	var stdout, stderr strings.Builder
	_, err = shell.Turn(ctx, Request{}, func(e Event) {
		out := &stdout
		if e.Error {
			out = &stderr
		}
		if out.Len()+len(e.Text) > maxExecOutput {
			cancel()
			return
		}
		out.WriteString(e.Text)
	})
	result.Stdout, result.Stderr = stdout.String(), stderr.String()
	switch exit, failed := errors.AsType[*ExitError](err); {
	case failed && exit.Code > 0:
		result.ExitCode = exit.Code
	case failed || ctx.Err() != nil:
		result.ExitCode = 1
	case err != nil:
		return result, err
	}
	return result, nil
}

// prompt returns the text of a query, and its images.
func (h *AshHandler) prompt(query ash.Query) (text string, images []json.RawMessage, err error) {
	if query.Blocks == nil {
		return query.Prompt, nil, nil
	}
	var raw []json.RawMessage
	var blocks []claudeBlock
	if err := errors.Join(json.Unmarshal(query.Blocks, &raw), json.Unmarshal(query.Blocks, &blocks)); err != nil {
		return "", nil, fmt.Errorf("reading the content blocks of the prompt: %w", err)
	}
	var texts []string
	for i, block := range blocks {
		switch {
		case block.Type == "text":
			texts = append(texts, block.Text)
		case block.Type == "image" && h.kind.Images:
			images = append(images, raw[i])
		default:
			return "", nil, fmt.Errorf("content block %d is of type %.40q, which this agent does not accept", i+1, block.Type)
		}
	}
	return strings.Join(texts, "\n"), images, nil
}

// maxUnsent bounds an unfinished line that waits for its end, in bytes.
const maxUnsent = 64 << 10

// sdkRelay sends the events of one turn to the host.
type sdkRelay struct {
	// session is the host's name for the session.
	session string
	driver  Driver
	send    ash.Send
	// sdk reports that raw events are messages of the SDK, like those of claude. Raw reports that there
	// were some.
	sdk, raw bool
	// unsent is an unfinished line. It waits because hosts show each message on lines of its own.
	unsent string
	err    error
}

func newSDKRelay(session string, driver Driver, send ash.Send) *sdkRelay {
	r, ok := driver.(*resident)
	return &sdkRelay{session: session, driver: driver, send: send, sdk: ok && r.release.program == claudeRelease.program}
}

func (r *sdkRelay) event(e Event) {
	switch {
	case r.err != nil:
	case r.sdk && e.Raw != nil:
		r.raw = true
		r.err = r.send(e.Raw)
	case e.Error || e.Text == "":
	default:
		r.unsent += e.Text
		if e.Raw != nil { // a whole message, not a piece of output
			r.unsent += "\n"
		}
		r.say(strings.LastIndexByte(r.unsent, '\n') + 1)
		if len(r.unsent) > maxUnsent {
			r.say(len(r.unsent))
		}
	}
}

// say sends the first bytes of unsent as an assistant message.
func (r *sdkRelay) say(length int) {
	if r.err != nil || length == 0 {
		return
	}
	text := r.unsent[:length]
	r.unsent = r.unsent[length:]
	r.err = r.message(claudeMessage{
		Type:    "assistant",
		Message: &claudeContent{Role: "assistant", Content: claudeBlocks{{Type: "text", Text: text}}},
	})
}

// message sends a message with the id that continues the agent's session, so that the host may
// continue it through another bridge.
func (r *sdkRelay) message(m claudeMessage) error {
	if m.SessionID = r.driver.SessionID(); m.SessionID == "" {
		m.SessionID = r.session
	}
	return r.send(mustJSON(m))
}

// finish sends a result message if the agent sent no messages of its own.
func (r *sdkRelay) finish(result Result) error {
	if r.err != nil || r.raw {
		return r.err
	}
	m := claudeMessage{
		Type: "result", Subtype: "success",
		Result: result.Text, DurationMS: result.Duration.Milliseconds(), TotalCost: result.Usage.CostUSD,
	}
	if u := result.Usage; u.InputTokens != 0 || u.OutputTokens != 0 {
		m.Usage = &claudeUsage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens}
	}
	return r.message(m)
}
