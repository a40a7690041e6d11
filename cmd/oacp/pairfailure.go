package main

import (
	"errors"
	"fmt"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/pair"
)

// ofPairs fills in code and hint of an error of paired sessions, and reports
// whether it is one.
func (f *failure) ofPairs() bool {
	var (
		busy   *pair.BusyError
		failed *pair.FailedError
	)
	switch err := f.err; {
	case errors.As(err, &busy):
		f.code = "busy"
		f.hint = fmt.Sprintf("one process drives a run; oacp pair --follow AGENT --run-id %d shows what an agent does in it", busy.Run)
	case errors.As(err, &failed):
		f.code = "run_failed"
	case errors.Is(err, pair.ErrNeverBegun):
		f.code, f.hint = "never_begun", "oacp pair PROMPT begins a new run, which gets a number of its own"
	case errors.Is(err, pair.ErrNewerVersion):
		f.code, f.hint = "newer_version", "a newer oacp made the run, and can go on with it"
	case errors.Is(err, pair.ErrForeignRun):
		f.code = "foreign_run"
	case errors.Is(err, pair.ErrDamaged):
		f.code = "damaged_run"
	case errors.Is(err, pair.ErrTimeout):
		f.code = "timeout"
	default:
		return false
	}
	return true
}

// unknownPair is the error of a run that is not there, with advice for a command
// that takes no log by its path.
func unknownPair(repository string, err error) error {
	var missing *noRunError
	if !errors.As(err, &missing) && errors.Is(err, bridge.ErrNoRun) {
		err = &noRunError{err: err, repository: repository}
	}
	if errors.Is(err, bridge.ErrNoRun) {
		err = &hintedError{err, "oacp bridge lists the runs; --repo names another repository, --runs-dir another folder of runs"}
	}
	return err
}
