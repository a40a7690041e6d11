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
// and close the pipe. The SDK's own transport cancels them and writes no answer.
type finishingTransport struct{ mcp.Transport }

// Connect connects the underlying transport.
func (t finishingTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	connection, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &finishingConnection{Connection: connection, calls: make(map[jsonrpc.ID]bool), written: make(chan struct{}, 1)}, nil
}

type finishingConnection struct {
	mcp.Connection

	mu      sync.Mutex
	calls   map[jsonrpc.ID]bool // those in progress
	written chan struct{}       // receives after each write
}

// Read returns the next message. At the end of the input it returns io.EOF only after the earlier calls are
// answered or cannot be answered.
func (c *finishingConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := c.Connection.Read(ctx)
	if errors.Is(err, io.EOF) {
		c.finish(ctx)
	}
	if request, ok := message.(*jsonrpc.Request); ok && request.IsCall() && request.Method != "subscriptions/listen" { // that call never ends
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls[request.ID] = true
	}
	return message, err
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
