package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/pair"
)

// checkTmux makes sure that tmux can be started.
func checkTmux() error {
	if _, err := exec.LookPath("tmux"); err != nil {
		return failure.WithHint(fmt.Errorf("--tmux: %w", err), "install tmux with your system's package manager, or leave --tmux out")
	}
	return nil
}

// itself is the command line that runs this program on the run.
func (o pairOptions) itself(session *pair.Session) ([]string, error) {
	run := session.Place()
	program, err := os.Executable()
	root, rootErr := filepath.Abs(filepath.Join(run.Folder, "..", ".."))
	return []string{
		program, "pair", "--run-id", strconv.Itoa(run.ID), "--repo", session.Manifest().RepoPath, "--runs-dir", root,
	}, errors.Join(err, rootErr)
}

// driveInTmux lets another process drive the run in a tmux session, and prints what that process
// prints. The run does not end with this process.
func (o pairOptions) driveInTmux(ctx context.Context, session *pair.Session, printer *pairPrinter, s *command.Streams) error {
	itself, err := o.itself(session)
	if err != nil {
		return err
	}
	t := pair.Tmux{Dir: s.Dir, Env: os.Environ(), Command: append(append(itself, "--tmux-pane"), o.inTmux...)}
	if t.Name, err = session.TmuxName(); err != nil {
		return err
	}
	run := session.Place()
	following := pair.Following{Run: run, MayBegin: func() bool { return t.Alive(ctx) }}
	if following.From, err = session.Pass(); err != nil {
		return err
	}
	if err := t.Start(ctx); err != nil {
		return err
	}
	attach := "tmux attach -t " + t.Name
	if s.Getenv("TMUX") != "" {
		attach = "tmux switch-client -t " + t.Name
	}
	if o.json {
		s.Note(attach + " shows the run")
	} else {
		fmt.Fprintf(s.Out, "%s  shows the run; it goes on if this terminal is closed\n", attach)
		if err := s.Out.Flush(); err != nil {
			return command.OutputError(err)
		}
	}
	var stopped error
	for entry, err := range pair.Follow(ctx, following) {
		if err != nil {
			return failure.WithHint(err, "the run continues in tmux: "+attach+" shows it, and ^C there stops it")
		}
		if printer.print(entry); printer.err != nil {
			return printer.err
		}
		if entry.Type == pair.EntryError {
			stopped = errors.New(entry.Error)
		}
	}
	m, err := pair.ReadManifest(run)
	switch {
	case err != nil:
		return err
	case m.State == pair.Failed:
		return &pair.FailedError{Run: run.ID, Reason: m.Error}
	case m.State.Final():
		return nil
	case stopped == nil:
		stopped = fmt.Errorf("the process that drove run %d has ended; %s shows its last output", run.ID, attach)
	}
	return o.withResumption(stopped, session)
}

// showAgents shows the agents in panes above the one in which this process drives the run.
func (o pairOptions) showAgents(ctx context.Context, session *pair.Session, s *command.Streams) error {
	itself, err := o.itself(session)
	if err != nil {
		return err
	}
	m := session.Manifest()
	return pair.ShowAgents(ctx, m.Agents(), s.Getenv("TMUX_PANE"), func(who pair.Agent) []string {
		return append(slices.Clip(itself), "--follow", string(who))
	})
}
