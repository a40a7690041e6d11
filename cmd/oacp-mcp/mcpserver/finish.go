package mcpserver

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A finishingTransport still answers the calls in progress when the input ends, for scripts that write their calls
// and close the pipe. The SDK's own transport cancels them and writes no answer. The transport also answers a message that
// the SDK refuses with an error, and goes on.
type finishingTransport struct {
	mcp.Transport
	out *lineWriter
	// endInput is called when the input ends.
	endInput func()
}

// Connect connects the underlying transport.
func (t finishingTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	connection, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &finishingConnection{Connection: connection, transport: t, calls: make(map[jsonrpc.ID]bool), written: make(chan struct{}, 1)}, nil
}

type finishingConnection struct {
	mcp.Connection
	transport finishingTransport

	mu      sync.Mutex
	calls   map[jsonrpc.ID]bool // those in progress
	written chan struct{}       // receives after each write
}

// Read returns the next message. At the end of the input it returns io.EOF only after the earlier calls are
// answered or cannot be answered.
func (c *finishingConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := c.Connection.Read(ctx)
	for err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) && !isInputError(err) {
		c.transport.out.refuse(jsonrpc.CodeInvalidRequest, cut(err.Error(), frameTokens))
		message, err = c.Connection.Read(ctx)
	}
	if errors.Is(err, io.EOF) {
		c.transport.endInput()
		c.finish(ctx)
	}
	if request, ok := message.(*jsonrpc.Request); ok && request.IsCall() && request.Method != "subscriptions/listen" { // that call never ends
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls[request.ID] = true
	}
	return message, err
}

func isInputError(err error) bool {
	_, ok := errors.AsType[inputError](err)
	return ok
}

// Write writes a message.
func (c *finishingConnection) Write(ctx context.Context, message jsonrpc.Message) error {
	err := c.Connection.Write(ctx, message)
	c.mu.Lock()
	defer c.mu.Unlock()
	if response, ok := message.(*jsonrpc.Response); ok {
		delete(c.calls, response.ID)
	}
	if err != nil {
		clear(c.calls) // nobody reads the answers
	}
	select {
	case c.written <- struct{}{}:
	default:
	}
	return err
}

// finish waits until all calls are answered.
func (c *finishingConnection) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout+seconds(maxWait).wait())
	defer cancel()
	for c.inProgress() && ctx.Err() == nil {
		select {
		case <-c.written:
		case <-ctx.Done():
		}
	}
}

func (c *finishingConnection) inProgress() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) > 0
}

// errInputEnded ends the waits of a client whose input has ended: it may be gone, and would get what arrives later.
var errInputEnded = errors.New("the input of the client has ended")

// inputKey is the key of the context of a client's input in the context of its calls. It is done when the input has ended.
type inputKey struct{}

// untilInputEnds returns a context that ends with the input of the client, and whether it has ended. Over HTTP it does not.
func untilInputEnds(ctx context.Context) (waiting context.Context, end context.CancelFunc, ended bool) {
	waiting, cancel := context.WithCancelCause(ctx)
	input, ok := ctx.Value(inputKey{}).(context.Context)
	if !ok {
		input = context.Background()
	}
	if input.Err() != nil {
		return waiting, func() { cancel(nil) }, true
	}
	stop := context.AfterFunc(input, func() { cancel(errInputEnded) })
	return waiting, func() { stop(); cancel(nil) }, false
}
