package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
)

// rpcProgram is a program that speaks JSON-RPC.
type rpcProgram struct {
	*program
	// version is the version of JSON-RPC that messages name, if any.
	version string
	// requests is the number of the last request, awaited the id of the one that ask waits for.
	requests int
	awaited  string
}

// newRequest returns a request as a line, and its id.
func (p *rpcProgram) newRequest(method string, params any) (line []byte, id string) {
	p.requests++
	id = strconv.Itoa(p.requests)
	return jsonLine(rpcMessage{Version: p.version, ID: json.RawMessage(id), Method: method, Params: mustJSON(params)}), id
}

// ask sends a request and reads the result of the answer. An error of the program is an
// *rpcError; other errors mean that it did not answer.
func (p *rpcProgram) ask(ctx context.Context, method string, params, result any) error {
	var line []byte
	p.locked(func() { line, p.awaited = p.newRequest(method, params) })
	answer, err := p.call(ctx, line)
	if err != nil {
		p.locked(func() { // a late answer is nobody's
			p.awaited = ""
			select {
			case <-p.answer:
			default:
			}
		})
		return &silence{err}
	}
	return readRPC(answer).decode(result)
}

// answers passes on the response that ask waits for, and reports whether it is that.
func (p *rpcProgram) answers(m *rpcMessage, line []byte) bool {
	if !m.isResponse() || string(m.ID) != p.awaited {
		return false
	}
	p.awaited = ""
	p.answer <- line
	return true
}

// silence is why a program did not answer a request.
type silence struct{ error }

func (s *silence) Unwrap() error { return s.error }

// rpcMessage is a request, a response or a notification of JSON-RPC 2.0, one per line.
type rpcMessage struct {
	// Version is "2.0", or "" for codex app-server, which omits it.
	Version string          `json:"jsonrpc,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// rpcError is why a request failed.
type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
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

// jsonLine encodes a message as a line to send.
func jsonLine(message any) []byte { return append(mustJSON(message), '\n') }

// mustJSON encodes a value that always has a JSON form.
func mustJSON(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return data
}
