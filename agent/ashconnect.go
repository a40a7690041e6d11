package agent

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"

	"github.com/oacp-go/oacp/ash"
	"github.com/oacp-go/oacp/internal/orphans"
)

func (a *Ash) connect(ctx context.Context) (*ash.Client, error) {
	if len(a.options.Command) == 0 {
		if a.options.Socket == "" {
			return nil, errors.New("neither the socket of an Ash bridge nor a command is given")
		}
		return a.join(ctx)
	}
	path, err := findProgram(a.options.Dir, a.options.Command[0])
	if err == nil {
		err = checkFolder(a.options.Dir)
	}
	if err != nil {
		return nil, err
	}
	socket := a.options.Socket
	if socket == "" {
		socket = ash.NewSocketPath()
	}
	cmd := &exec.Cmd{
		Path: path, Args: a.options.Command, Dir: a.options.Dir, Env: environment(a.options.Env, orphans.Environ(ctx)),
		Stderr: &a.complaints,
	}
	client, err := ash.Spawn(ctx, cmd, socket, &ash.ClientOptions{StopTimeout: a.options.Grace})
	return client, a.explain(err)
}

// join connects to a bridge that runs already.
func (a *Ash) join(ctx context.Context) (*ash.Client, error) {
	var options ash.ClientOptions
	if a.options.Greeted.Load() {
		options.ReadyTimeout, options.AssumeReady = silence, true
	}
	client, err := ash.Connect(ctx, a.options.Socket, &options)
	if err == nil {
		a.options.Greeted.Store(true)
	}
	return client, err
}

// explain adds to an error what a bridge of ours said last.
func (a *Ash) explain(err error) error {
	if said := lastLine(a.complaints.String()); err != nil && said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// complaints keeps the end of the error output of a bridge.
type complaints struct {
	mu   sync.Mutex
	tail ring
}

// Write never fails, so that a bridge never dies of it.
func (c *complaints) Write(data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tail.write(data)
	return len(data), nil
}

func (c *complaints) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tail.String()
}

// tail returns the end of what the agent said in the turn and of what its bridge printed, where
// there is room for both.
func (a *Ash) tail(said string) string {
	printed := a.complaints.String()
	if len(said)+len(printed) > maxTail {
		printed = strings.ToValidUTF8(printed[len(printed)-min(len(printed), maxTail/2):], "")
		said = strings.ToValidUTF8(said[len(said)-min(len(said), maxTail/2):], "")
	}
	return said + printed
}
