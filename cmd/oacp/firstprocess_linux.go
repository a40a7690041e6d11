package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/oacp-go/oacp/internal/failure"
)

// forwarded are the signals that a first process passes on.
var forwarded = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// runAsFirst runs the command line in a process of its own where this one is
// the first of its container, and reports false where it is not. All processes
// whose parents have ended become the first one's, and stay as zombies unless
// it waits for them; the process that does the work waits for its own alone.
func runAsFirst() (status int, first bool, err error) {
	if os.Getpid() != 1 {
		return 0, false, nil
	}
	signals := make(chan os.Signal, len(forwarded))
	for _, s := range forwarded {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	program, err := os.Executable()
	if err != nil {
		return 0, true, err
	}
	child, err := startSelf(program, term.IsTerminal(0))
	if err != nil {
		return 0, true, err
	}
	go func() { // which ends with the process
		for s := range signals {
			number, _ := s.(syscall.Signal)
			_ = syscall.Kill(child, number) // one that has ended needs no signal
		}
	}()
	status, err = reapUntil(child)
	return status, true, err
}

// startSelf starts this command line again. The terminal's signals are for the
// one that works, so that they come once.
func startSelf(program string, terminal bool) (child int, err error) {
	attributes := &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Foreground: terminal, Ctty: 0},
	}
	child, err = syscall.ForkExec(program, os.Args, attributes)
	if terminal && errors.Is(err, syscall.ENOTTY) { // it is not the one that controls this process
		return startSelf(program, false)
	}
	return child, err
}

// reapUntil waits for every process that ends, until the child has, and
// returns its exit status.
func reapUntil(child int) (status int, err error) {
	for {
		var ended syscall.WaitStatus
		process, err := syscall.Wait4(-1, &ended, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR) || err == nil && process != child:
		case err != nil:
			return 0, os.NewSyscallError("wait4", err)
		case ended.Signaled():
			return failure.ExitSignal + int(ended.Signal()), nil
		default:
			return ended.ExitStatus(), nil
		}
	}
}
