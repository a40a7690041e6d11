package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/oacp-go/oacp/internal/failure"
)

// UntilSignal returns a context that SIGINT, SIGTERM or SIGHUP cancels, with a *failure.SignalError
// as its cause. A second SIGINT or SIGTERM kills the process. The caller must call stop, which
// restores the signals. Commands that have nothing to clean up do not need UntilSignal.
//
// A second SIGHUP never kills, because a terminal that closes sends several. A SIGHUP that is
// ignored, as under nohup, stays ignored.
func UntilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals, hangups := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(hangups, syscall.SIGHUP)
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		var got os.Signal
		select {
		case got = <-signals:
		case got = <-hangups:
		case <-ctx.Done():
			return
		}
		signal.Stop(signals)
		number, _ := got.(syscall.Signal)
		cancel(&failure.SignalError{Signal: number})
	})
	return ctx, func() {
		signal.Stop(signals)
		signal.Stop(hangups)
		cancel(nil)
		waiting.Wait()
	}
}

// OutputError returns the error of a write. It matches failure.ErrOutputClosed if the reader of the
// output is gone.
func OutputError(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("%w: %w", failure.ErrOutputClosed, err)
	}
	return err
}

// OutliveOutput lets the process continue after the reader of its output is gone, so that it can
// finish its work: writes fail instead of raising SIGPIPE. Processes that it starts still die of
// SIGPIPE. The caller must call the function returned.
func OutliveOutput() func() {
	pipes := make(chan os.Signal, 1) // nobody receives from it
	signal.Notify(pipes, syscall.SIGPIPE)
	return func() { signal.Stop(pipes) }
}
