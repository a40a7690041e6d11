package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// untilSignal returns a context that is cancelled when the process is told to
// stop (SIGINT, SIGTERM, or SIGHUP when its terminal goes away), with a
// *signalError as its cause; a second signal then kills. Commands with nothing
// to put away do without: they just die. The function returned must be called;
// it gives the signals back.
//
// A SIGHUP never kills as the second: a terminal that is closed sends several.
// Where it is ignored, as nohup has it, it stays so.
func untilSignal(parent context.Context) (context.Context, func()) {
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
		cancel(&signalError{number})
	})
	return ctx, func() {
		signal.Stop(signals)
		signal.Stop(hangups)
		cancel(nil)
		waiting.Wait()
	}
}

// errOutputGone says that nobody reads the output any more. The command ends
// as if SIGPIPE had killed it, without a word.
var errOutputGone = errors.New("nobody reads the output")

// outputError is the error of writing output, which matches errOutputGone if
// that is the reason.
func outputError(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("%w: %w", errOutputGone, err)
	}
	return err
}

// outliveOutput has the process live on when nobody reads its output, so that
// it can put away what it is doing. What it starts dies of a SIGPIPE as ever.
// The function returned must be called.
func outliveOutput() func() {
	// Nobody receives it: that it is asked for makes writes fail instead.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	return func() { signal.Stop(pipes) }
}
