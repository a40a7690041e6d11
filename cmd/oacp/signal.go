package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// untilSignal returns a context that is cancelled when the process is told to
// stop (SIGINT, SIGTERM), with a *signalError as its cause; a second signal
// then kills. Commands with nothing to put away do without: they just die.
// The function returned must be called; it gives the signals back.
func untilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case got := <-signals:
			signal.Stop(signals)
			number, _ := got.(syscall.Signal)
			cancel(&signalError{number})
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
		waiting.Wait()
	}
}
