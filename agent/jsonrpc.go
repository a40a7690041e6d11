package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
)

// rpcMessage is a request, a response or a notification of JSON-RPC 2.0 as codex app-server speaks
// it: one per line, without the member that names the version.
type rpcMessage struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *rpcError       `json:"error,omitempty"`
}

// rpcError is why a request failed.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// rpcNoMethod is the code for a method that the receiver does not have.
const rpcNoMethod = -32601

// readRPC reads a line. It returns nil if the line is not a message.
func readRPC(line []byte) *rpcMessage {
	var m rpcMessage
	if json.Unmarshal(line, &m) != nil || m.Method == "" && m.ID == nil {
		return nil
	}
	return &m
}

// isRequest reports whether the message asks for an answer.
func (m *rpcMessage) isRequest() bool { return m.Method != "" && m.ID != nil }

// isResponse reports whether the message answers a request.
func (m *rpcMessage) isResponse() bool { return m.Method == "" }

// decode reads the result into a value, or returns the error that came instead.
func (m *rpcMessage) decode(result any) error {
	if m.Error != nil {
		return m.Error
	}
	return json.Unmarshal(m.Result, result)
}

func (m rpcMessage) line() []byte { return append(mustJSON(m), '\n') }

// mustJSON encodes a value that always has a JSON form.
func mustJSON(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return data
}

// rpcCalls are the requests of one end.
type rpcCalls struct {
	mu      sync.Mutex
	last    int
	waiting map[string]chan *rpcMessage
}

// request returns a request as a line, and its id.
func (c *rpcCalls) request(method string, params any) (line []byte, id json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	id = json.RawMessage(strconv.Itoa(c.last))
	return rpcMessage{ID: id, Method: method, Params: mustJSON(params)}.line(), id
}

// resolve hands a response to the call that waits for it. It reports false if there is none.
func (c *rpcCalls) resolve(m *rpcMessage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer, ok := c.waiting[string(m.ID)]
	if ok {
		delete(c.waiting, string(m.ID))
		answer <- m
	}
	return ok
}

// call sends a request and waits for the answer. The reader of the program's output must not call
// it.
func (c *rpcCalls) call(ctx context.Context, p *child, method string, params, result any) error {
	line, id := c.request(method, params)
	answer := make(chan *rpcMessage, 1)
	c.mu.Lock()
	if c.waiting == nil {
		c.waiting = make(map[string]chan *rpcMessage)
	}
	c.waiting[string(id)] = answer
	c.mu.Unlock()
	p.send(line)
	select {
	case m := <-answer:
		return m.decode(result)
	case <-p.ended:
		return p.death()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
