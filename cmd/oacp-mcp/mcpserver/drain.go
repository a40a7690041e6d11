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

// methodListen is a call that has no answer before it is cancelled.
const methodListen = "subscriptions/listen"

// A drainingTransport lets calls finish and be answered when the input ends or stop is done. The
// SDK's own transport cancels them at once and writes no answer.
type drainingTransport struct {
	mcp.Transport
	stop     context.Context
	patience time.Duration // how long calls may take after stop is done
}

// Connect connects the underlying transport.
func (t *drainingTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	connection, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &drainingConnection{
		Connection: connection, stop: t.stop, patience: t.patience, pending: make(map[jsonrpc.ID]bool),
	}, nil
}

type drainingConnection struct {
	mcp.Connection
	stop     context.Context
	patience time.Duration

	mu       sync.Mutex
	pending  map[jsonrpc.ID]bool // calls that are not answered
	answered chan struct{}       // closed when there are none, if drain waits
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
	if request, ok := message.(*jsonrpc.Request); ok && request.IsCall() && request.Method != methodListen {
		c.mu.Lock()
		c.pending[request.ID] = true
		c.mu.Unlock()
	}
	return message, err
}

// Write writes a message.
func (c *drainingConnection) Write(ctx context.Context, message jsonrpc.Message) error {
	err := c.Connection.Write(ctx, message)
	if response, ok := message.(*jsonrpc.Response); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pending, response.ID)
		if len(c.pending) == 0 && c.answered != nil {
			close(c.answered)
			c.answered = nil
		}
	}
	return err
}

// drain waits until all calls are answered, at most for the time.
func (c *drainingConnection) drain(ctx context.Context, most time.Duration) {
	answered := make(chan struct{})
	c.mu.Lock()
	if len(c.pending) == 0 {
		close(answered)
	} else {
		c.answered = answered
	}
	c.mu.Unlock()
	select {
	case <-answered:
	case <-time.After(most):
	case <-ctx.Done():
	}
}
