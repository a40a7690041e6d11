package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/oacp-go/oacp/ash"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/orphans"
)

// ashDriver is the driver for an agent behind an Ash bridge. The events of a turn are the messages of
// the agent's SDK, byte for byte. If the messages have a session id, SessionID returns that.
type ashDriver struct {
	options Options
	// stderr is the end of the error output of a bridge that the driver started.
	stderr *output
	client *ash.Client
	// name is the bridge's name for the session, session what SessionID returns.
	name, session string
}

// NewAsh returns the driver for an agent behind an Ash bridge. It connects when it is started.
func NewAsh(options Options) Driver {
	a := &ashDriver{options: options, name: options.Session, session: options.Session, stderr: newOutput(nil)}
	if a.name == "" {
		a.name = "oacp-" + strings.ToLower(rand.Text()[:16])
	}
	return a
}

// Start connects to the bridge. If the options have a command, Start runs the bridge first.
func (a *ashDriver) Start(ctx context.Context) (err error) {
	if len(a.options.Command) > 0 {
		a.client, err = a.spawn(ctx)
	} else {
		a.client, err = ash.Connect(ctx, a.options.Socket)
		if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
			err = failure.WithHint(err, "oacp ash serve --driver claude starts a bridge and prints its socket")
		}
	}
	if err != nil && !errors.Is(err, ErrUnavailable) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// spawn runs the bridge and connects to it.
func (a *ashDriver) spawn(ctx context.Context) (*ash.Client, error) {
	path, err := findProgram(a.options.Dir, a.options.Command)
	if err != nil {
		return nil, err
	}
	socket := a.options.Socket
	if socket == "" {
		socket = ash.NewSocketPath()
	}
	cmd := &exec.Cmd{
		Path: path, Args: a.options.Command, Dir: a.options.Dir, Env: a.options.environment(orphans.Environ(ctx)),
		Stderr: a.stderr.stream(true),
	}
	client, err := ash.Spawn(ctx, cmd, socket, a.options.Grace)
	return client, a.explain(err)
}

// Turn sends the prompt as a query, without the variables of the request. If the connection is lost
// before the bridge has the query, the error matches ErrUnavailable. After that it does not, because the
// bridge may have done the work, or died of the query.
func (a *ashDriver) Turn(ctx context.Context, request Request, observe func(Event)) (Result, error) {
	begin := time.Now()
	if a.client == nil {
		return Result{}, errNotStarted
	}
	fold, err := a.query(ctx, request, observe)
	if errors.Is(err, ash.ErrNotSent) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	result, failure := fold.finish()
	a.name = cmp.Or(a.client.SessionID(), a.name)
	a.session = cmp.Or(result.SessionID, a.name)
	result.Duration, result.SessionID = time.Since(begin), a.session
	result.Tail = joinTails(result.Tail, a.stderr.result().Tail)
	var reported ash.Error
	switch {
	case ctx.Err() != nil && err != nil:
		return result, context.Cause(ctx)
	case errors.As(err, &reported):
		return result, &ReportedError{Text: reported.Text}
	case err != nil:
		return result, a.explain(err)
	}
	return result, failure
}

func (a *ashDriver) query(ctx context.Context, request Request, observe func(Event)) (*sdkFold, error) {
	fold := &sdkFold{said: newOutput(nil)}
	query := ash.Query{Prompt: safeText(request.Prompt), SessionID: a.name, Model: a.options.Model}
	for raw, err := range a.client.Query(ctx, query) {
		if err != nil {
			return fold, err
		}
		text := fold.add(readClaude(raw))
		if observe != nil {
			observe(Event{Raw: raw, Text: text})
		}
	}
	return fold, nil
}

// explain adds to an error the last line of the error output of a bridge that the driver started.
func (a *ashDriver) explain(err error) error {
	if said := lastLine(a.stderr.result().Tail); err != nil && said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// SessionID returns the agent's own id of the session, or the bridge's name for it.
func (a *ashDriver) SessionID() string { return a.session }

// Stop ends the connection, and the bridge if the driver started it.
func (a *ashDriver) Stop(ctx context.Context) error {
	client := a.client
	a.client = nil
	switch {
	case client == nil:
		return nil
	case len(a.options.Command) == 0:
		return client.Close()
	}
	err := client.Shutdown(ctx)
	if errors.Is(err, ash.ErrNotSent) {
		return client.Close() // the turn has reported that the connection was lost
	}
	return err
}
