package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/mailbox/watch"
)

// A stream is the connection to a client that writes its messages one per line. That of the SDK ends at a line that is no
// message, and cancels the calls in progress when the input ends. A stream answers such a line with an error, and those
// calls as usual, for scripts that write their calls and close the pipe.
type stream struct {
	in  io.ReadCloser
	out io.WriteCloser
	// endInput is called when the input ends.
	endInput func()
	// lines are those of the input. After the last one, readErr says why there are no more.
	lines   chan []byte
	readErr error
	closing chan struct{}
	close   func() error

	writing sync.Mutex
	mu      sync.Mutex
	calls   map[jsonrpc.ID]bool // those in progress
	written chan struct{}       // receives after each write
}

func newStream(in io.ReadCloser, out io.WriteCloser, endInput func()) *stream {
	s := &stream{
		in: in, out: out, endInput: endInput, lines: make(chan []byte), closing: make(chan struct{}),
		calls: make(map[jsonrpc.ID]bool), written: make(chan struct{}, 1),
	}
	s.close = sync.OnceValue(func() error {
		close(s.closing)
		return errors.Join(in.Close(), out.Close())
	})
	return s
}

// Connect starts to read.
func (s *stream) Connect(context.Context) (mcp.Connection, error) {
	go s.readLines()
	return s, nil
}

// SessionID returns "": there is one session.
func (s *stream) SessionID() string { return "" }

// Close closes both ends. It may be called more than once.
func (s *stream) Close() error { return s.close() }

// readLines reads until the input ends or the stream is closed. A read that closing the input does not end lasts as long as
// the process.
func (s *stream) readLines() {
	defer close(s.lines)
	in := bufio.NewReader(s.in)
	for s.readErr == nil {
		var line []byte
		line, s.readErr = nextLine(in)
		select {
		case s.lines <- line:
		case <-s.closing:
			return
		}
	}
}

// nextLine returns the next line. Of one that is longer than a message may be, it returns the beginning.
func nextLine(in *bufio.Reader) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line) <= maxRequest {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// Read returns the next message. At the end of the input it returns io.EOF only after the earlier calls are
// answered or cannot be answered.
func (s *stream) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.closing:
			return nil, io.EOF
		case line, more := <-s.lines:
			if !more {
				s.endInput()
				s.finish(ctx)
				return nil, s.readErr
			}
			if message := s.parse(line); message != nil {
				return message, nil
			}
		}
	}
}

// parse returns the message on a line. It answers another line with an error, unless it is blank.
func (s *stream) parse(line []byte) jsonrpc.Message {
	line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\uFEFF")))
	switch {
	case len(line) == 0:
		return nil
	case len(line) > maxRequest:
		s.refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message has at most %d bytes", maxRequest))
		return nil
	case bytes.HasPrefix(bytes.ToLower(line), []byte("content-")):
		s.refuse(jsonrpc.CodeParseError, "each line is one message, without the headers of LSP")
		return nil
	case !json.Valid(line):
		s.refuse(jsonrpc.CodeParseError, "the line is not JSON")
		return nil
	case line[0] == '[': // only one version of MCP had batches
		s.refuse(jsonrpc.CodeInvalidRequest, "batches are not supported; each line is one message")
		return nil
	}
	message, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		s.refuse(jsonrpc.CodeInvalidRequest, cut(err.Error(), frameTokens))
		return nil
	}
	if request, ok := message.(*jsonrpc.Request); ok && request.IsCall() && request.Method != "subscriptions/listen" { // that call never ends
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls[request.ID] = true
	}
	return message
}

// refuse answers a line whose message has no id that could be read.
func (s *stream) refuse(code int, problem string) {
	text, _ := json.Marshal(problem)                                                                              // text always becomes JSON
	_ = s.writeLine(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%s}}`, code, text)) // the next answer fails, too
}

func (s *stream) writeLine(line []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.out.Write(append(line, '\n'))
	return err
}

// Write writes a message.
func (s *stream) Write(ctx context.Context, message jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	line, err := jsonrpc.EncodeMessage(message)
	if err == nil {
		err = s.writeLine(line)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if response, ok := message.(*jsonrpc.Response); ok {
		delete(s.calls, response.ID)
	}
	if err != nil {
		clear(s.calls) // nobody reads the answers
	}
	select {
	case s.written <- struct{}{}:
	default:
	}
	return err
}

// finish waits until all calls are answered.
func (s *stream) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout+seconds(maxWait).wait())
	defer cancel()
	for s.inProgress() && ctx.Err() == nil {
		select {
		case <-s.written:
		case <-ctx.Done():
		}
	}
}

func (s *stream) inProgress() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls) > 0
}

// inputKey is the key of the context of a client's input in the context of its calls. It is done when the input has ended.
type inputKey struct{}

// whileInput returns a context for a wait. It ends with watch.ErrTimeout when the input of the client has ended: the client may
// be gone, and would get what arrives later. Over HTTP, the input has no end.
func whileInput(ctx context.Context) (waiting context.Context, end func()) {
	input, ok := ctx.Value(inputKey{}).(context.Context)
	if !ok {
		return ctx, func() {}
	}
	waiting, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(input, func() { cancel(watch.ErrTimeout) })
	return waiting, func() { stop(); cancel(nil) }
}
