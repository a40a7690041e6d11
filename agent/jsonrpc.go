package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
)

// rpcMessage is a request, a response or a notification of JSON-RPC 2.0, as
// codex app-server speaks it: one on a line, without the member that names the
// version.
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

// readRPC reads a line. It returns nil if that is no message.
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

// decode reads the result into a value, or returns the error that came
// instead.
func (m *rpcMessage) decode(result any) error {
	if m.Error != nil {
		return m.Error
	}
	return json.Unmarshal(m.Result, result)
}

func (m rpcMessage) line() []byte {
	data, err := json.Marshal(m)
	if err != nil {
		panic(err) // its raw members were JSON before
	}
	return append(data, '\n')
}

// rpcCalls are the requests of one end that have no answer yet.
type rpcCalls struct {
	mu      sync.Mutex
	last    int
	waiting map[string]chan *rpcMessage
}

// begin returns a request as a line, and where its answer will come.
func (c *rpcCalls) begin(method string, params any) ([]byte, <-chan *rpcMessage) {
	data, err := json.Marshal(params)
	if err != nil {
		panic(err) // maps of strings and JSON
	}
	answer := make(chan *rpcMessage, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	id := strconv.Itoa(c.last)
	if c.waiting == nil {
		c.waiting = make(map[string]chan *rpcMessage)
	}
	c.waiting[id] = answer
	return rpcMessage{ID: json.RawMessage(id), Method: method, Params: data}.line(), answer
}

// resolve hands a response to whoever waits for it.
func (c *rpcCalls) resolve(m *rpcMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := string(m.ID)
	if answer, ok := c.waiting[id]; ok {
		delete(c.waiting, id)
		answer <- m
	}
}

// call asks the program and waits for the answer. The lines of the program
// must not be waiting for the caller.
func (c *rpcCalls) call(ctx context.Context, p *child, method string, params, result any) error {
	line, answer := c.begin(method, params)
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
