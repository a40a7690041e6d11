package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// place returns the flags that name the run.
func (o pairOptions) place(session *pair.Session) ([]string, error) {
	root, err := filepath.Abs(filepath.Join(session.Place().Folder, "..", ".."))
	return []string{"--run-id", strconv.Itoa(session.Place().ID), "--repo", session.Manifest().RepoPath, "--runs-dir", root}, err
}

// driveInTmux lets another process drive the run in a tmux session, and prints what that process
// prints. The run does not end with this process.
func (o pairOptions) driveInTmux(ctx context.Context, session *pair.Session, printer *pairPrinter, s *command.Streams) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	place, err := o.place(session)
	if err != nil {
		return err
	}
	t := pair.Tmux{Dir: s.Dir, Env: os.Environ()}
	t.Command = append(append([]string{program, "pair", "--tmux-pane"}, place...), o.inTmux...)
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
			return failure.WithHint(err, "the run goes on in tmux: "+attach+" shows it, and ^C there stops it")
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
		stopped = fmt.Errorf("the process that drove run %d has ended; %s shows its last words", run.ID, attach)
	}
	return o.withResumption(stopped, session)
}

// showAgents shows the agents in panes above the one in which this process drives the run.
func (o pairOptions) showAgents(ctx context.Context, session *pair.Session, s *command.Streams) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	place, err := o.place(session)
	if err != nil {
		return err
	}
	return session.ShowAgents(ctx, s.Getenv("TMUX_PANE"), func(who pair.Agent) []string {
		return append([]string{program, "pair", "--follow", string(who)}, place...)
	})
}
