package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// drainTimeout is for how long calls under way may go on when the input has ended.
const drainTimeout = callTimeout

// mostHeld is how many calls may wait for their turn before no more input is read.
const mostHeld = 64

// Methods that the stream knows.
const (
	methodInitialize = "initialize"
	methodCall       = "tools/call"
	methodListen     = "subscriptions/listen" // answered when it is cancelled, so never waited for
	methodCancelled  = "notifications/cancelled"
)

// A stream is a client on a pair of streams, one message a line. The SDK's own transport ends at the first line that
// is no message, and gives up calls under way when the input ends; this one answers such lines itself, and lets
// the calls finish. Calls of tools are handed on one after the other, in the order in which they came.
type stream struct {
	in  io.ReadCloser
	out io.Writer

	lines  chan inputLine
	closed chan struct{}
	close  sync.Once
	// changed has a token when an answer was written that Read may wait for.
	changed chan struct{}

	// What Read alone knows.
	queue  []jsonrpc.Message // admitted, to be handed on next
	held   []*jsonrpc.Request
	ended  <-chan time.Time // fires when calls have had their time after the end; nil before that
	stop   <-chan struct{}  // says that the server is to end; nil when it was heard
	within time.Duration    // for which calls may go on then

	writing sync.Mutex // guards out

	mu      sync.Mutex // guards what follows
	pending map[jsonrpc.ID]*pendingCall
	writes  int          // answers that are being written
	calling *pendingCall // the call of a tool that was handed on
	batches bool         // the version that was agreed on has them
}

// pendingCall is a call that has not been answered.
type pendingCall struct {
	method string
	batch  *batchOfCalls // that it came in, or nil
}

// endsWith makes the stream end with the context: calls that came in by then are answered, within the time.
func (s *stream) endsWith(ctx context.Context, within time.Duration) *stream {
	s.stop, s.within = ctx.Done(), within
	return s
}

// Connect begins to read.
func (s *stream) Connect(context.Context) (mcp.Connection, error) {
	go readLines(s.in, s.lines, s.closed)
	return s, nil
}

func newStream(in io.ReadCloser, out io.Writer) *stream {
	return &stream{
		in: in, out: out, lines: make(chan inputLine), closed: make(chan struct{}), changed: make(chan struct{}, 1),
		pending: make(map[jsonrpc.ID]*pendingCall),
	}
}

// SessionID is empty: there is but one session.
func (s *stream) SessionID() string { return "" }

// Close ends Read, and closes the input.
func (s *stream) Close() (err error) {
	s.close.Do(func() {
		close(s.closed)
		err = s.in.Close()
	})
	return err
}

// Read returns the next message. It ends with io.EOF when the input has ended and all calls are answered.
func (s *stream) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		if message := s.next(); message != nil {
			return message, nil
		}
		if s.ended != nil && s.idle() {
			return nil, io.EOF
		}
		lines := s.lines
		if s.ended != nil || len(s.held) >= mostHeld {
			lines = nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.closed:
			return nil, io.EOF
		case <-s.ended:
			return nil, io.EOF
		case <-s.stop:
			s.stop, s.ended = nil, time.After(s.within)
		case <-s.changed:
		case line := <-lines:
			switch {
			case errors.Is(line.err, io.EOF):
				s.ended = time.After(drainTimeout)
			case line.err != nil && !errors.Is(line.err, errLongLine):
				return nil, line.err
			default:
				if err := s.take(line); err != nil {
					return nil, err
				}
			}
		}
	}
}

// next returns the message to be handed on now, if there is one.
func (s *stream) next() jsonrpc.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) > 0 && s.calling == nil {
		call := s.held[0]
		s.held = s.held[1:]
		s.calling = s.pending[call.ID]
		return call
	}
	for len(s.queue) > 0 {
		message := s.queue[0]
		s.queue = s.queue[1:]
		request, ok := message.(*jsonrpc.Request)
		if !ok || !request.IsCall() || request.Method != methodCall {
			return message
		}
		if s.calling == nil && len(s.held) == 0 {
			s.calling = s.pending[request.ID]
			return request
		}
		s.held = append(s.held, request)
	}
	return nil
}

// idle reports whether everything that is answered at all has been answered.
func (s *stream) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes > 0 {
		return false
	}
	for _, call := range s.pending {
		if call.method != methodListen {
			return false
		}
	}
	return true
}

// take puts the messages of a line into the queue, and answers those that are none. The error is one of the output.
func (s *stream) take(line inputLine) error {
	if line.err != nil {
		return s.refuse(badMessage{nil, jsonrpc.CodeInvalidRequest, line.err.Error()}, nil)
	}
	texts, isBatch, err := splitBatch(line.text)
	if err == nil && isBatch && !s.hasBatches() {
		err = badMessage{nil, jsonrpc.CodeInvalidRequest, "a line is one message: this version of the protocol has no batches"}
	}
	if err != nil {
		return s.refuse(err, nil)
	}
	var batch *batchOfCalls
	if isBatch {
		// One more until all are admitted, so that no early answer completes it.
		batch = &batchOfCalls{missing: 1}
	}
	var failed error
	for _, text := range texts {
		message, err := parseMessage(text)
		if err == nil {
			err = s.admit(message, batch)
		}
		if err != nil {
			failed = errors.Join(failed, s.refuse(err, batch))
			continue
		}
		s.queue = append(s.queue, message)
	}
	if batch != nil {
		failed = errors.Join(failed, s.complete(batch, nil))
	}
	return failed
}

// admit takes note of a call, so that its answer is waited for. A call that waits and is given up is none any more.
func (s *stream) admit(message jsonrpc.Message, batch *batchOfCalls) error {
	request, ok := message.(*jsonrpc.Request)
	if !ok {
		return nil
	}
	if request.Method == methodCancelled {
		return s.giveUp(request)
	}
	if !request.IsCall() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending[request.ID] != nil {
		return badMessage{nil, jsonrpc.CodeInvalidRequest, "the id is that of a call that has not been answered yet"}
	}
	s.pending[request.ID] = &pendingCall{request.Method, batch}
	if batch != nil {
		batch.missing++
	}
	return nil
}

// giveUp drops a call that waits for its turn. It gets no answer; those that were handed on are the SDK's to cancel.
func (s *stream) giveUp(request *jsonrpc.Request) error {
	var params struct {
		ID any `json:"requestId"`
	}
	if json.Unmarshal(request.Params, &params) != nil {
		return nil // the SDK says what is wrong with it
	}
	id, err := jsonrpc.MakeID(params.ID)
	if err != nil || !id.IsValid() {
		return nil
	}
	before := len(s.held) + len(s.queue)
	s.held = slices.DeleteFunc(s.held, func(call *jsonrpc.Request) bool { return call.ID == id })
	// In a batch, what stands before the cancellation has not been looked at yet.
	s.queue = slices.DeleteFunc(s.queue, func(message jsonrpc.Message) bool {
		request, ok := message.(*jsonrpc.Request)
		return ok && request.Method == methodCall && request.IsCall() && request.ID == id
	})
	if len(s.held)+len(s.queue) == before {
		return nil
	}
	s.mu.Lock()
	call := s.pending[id]
	delete(s.pending, id)
	s.mu.Unlock()
	return s.complete(call.batch, nil)
}

// refuse answers what is no message.
func (s *stream) refuse(err error, batch *batchOfCalls) error {
	var bad badMessage
	if !errors.As(err, &bad) {
		return err
	}
	answer, err := bad.answer()
	if err != nil {
		return err
	}
	if batch == nil {
		return s.write(answer)
	}
	s.mu.Lock()
	batch.answers = append(batch.answers, answer)
	s.mu.Unlock()
	return nil
}

// Write writes an answer, or what the server has to say.
func (s *stream) Write(ctx context.Context, message jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	text, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	response, ok := message.(*jsonrpc.Response)
	if !ok {
		return s.write(text)
	}
	// Before the answer is written: who has read it may use its id again.
	s.mu.Lock()
	call := s.pending[response.ID]
	delete(s.pending, response.ID)
	if call != nil && call.method == methodInitialize {
		s.batches = allowsBatches(response.Result)
	}
	s.writes++
	s.mu.Unlock()
	if call != nil && call.batch != nil {
		err = s.complete(call.batch, text)
	} else {
		err = s.write(text)
	}
	s.mu.Lock()
	s.writes--
	if call != nil && s.calling == call {
		s.calling = nil
	}
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return err
}

func (s *stream) write(text []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.out.Write(append(text, '\n'))
	return err
}
