package mcpserver

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A drainingTransport finishes calls and sends their answers when the input ends or stop is done. The SDK's
// own transport cancels them at once and writes no answer.
type drainingTransport struct {
	mcp.Transport
	stop     context.Context
	patience time.Duration // how long calls may take after stop is done
	ending   func()        // ends waits for messages
}

// Connect connects the underlying transport.
func (t *drainingTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	connection, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &drainingConnection{
		Connection: connection, drainingTransport: t, calls: map[jsonrpc.ID]bool{}, answered: make(chan struct{}, 1),
	}, nil
}

type drainingConnection struct {
	mcp.Connection
	*drainingTransport

	mu       sync.Mutex
	calls    map[jsonrpc.ID]bool // calls that are not answered
	broken   bool                // answers cannot be written
	answered chan struct{}       // receives after each write
}

// Read returns the next message. It returns io.EOF when the calls before it are answered.
func (c *drainingConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stop, cancel)()
	message, err := c.Connection.Read(reading)
	switch {
	case err != nil && c.stop.Err() != nil && ctx.Err() == nil:
		c.drain(ctx, c.patience)
		return nil, io.EOF
	case errors.Is(err, io.EOF):
		c.drain(ctx, callTimeout)
	}
	if request, ok := message.(*jsonrpc.Request); ok && request.IsCall() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls[request.ID] = true
	}
	return message, err
}

// Write writes a message.
func (c *drainingConnection) Write(ctx context.Context, message jsonrpc.Message) error {
	err := c.Connection.Write(ctx, message)
	c.mu.Lock()
	defer c.mu.Unlock()
	if response, ok := message.(*jsonrpc.Response); ok {
		delete(c.calls, response.ID)
	}
	c.broken = c.broken || err != nil
	select {
	case c.answered <- struct{}{}:
	default:
	}
	return err
}

// drain waits until all calls are answered, at most for the time.
func (c *drainingConnection) drain(ctx context.Context, most time.Duration) {
	c.ending()
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for !c.drained() && ctx.Err() == nil {
		select {
		case <-c.answered:
		case <-ctx.Done():
		}
	}
}

func (c *drainingConnection) drained() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) == 0 || c.broken
}
