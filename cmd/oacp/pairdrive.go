package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/pair"
	"github.com/oacp-go/oacp/schema"
)

func runPair(ctx context.Context, o pairOptions, s *command.Streams) error {
	if !o.mailbox {
		return o.drive(ctx, nil, s)
	}
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		for _, name := range []pair.Agent{pair.Claude, pair.Codex} {
			if err := w.CheckAgent(schema.AgentName(name)); err != nil {
				return err
			}
		}
		return o.drive(ctx, w, s)
	})
}

// drive drives the run, and carries messages between it and the workspace if
// there is one.
func (o pairOptions) drive(ctx context.Context, w *mailbox.Workspace, s *command.Streams) (err error) {
	printer := &pairPrinter{o: o, s: s}
	var session *pair.Session
	options := pair.Options{
		Observe: printer.print, Warn: func(err error) { s.Warn(err.Error()) },
		Timeout: o.timeout, ProofTimeout: o.proofTimeout, Now: s.Now,
	}
	if options.NewDriver, err = o.reach.drivers(func() string { return session.Place().BridgePath() }); err != nil {
		return err
	}
	if w != nil {
		mail := &pairMail{workspace: w, s: s, session: func() *pair.Session { return session }}
		options.Exchange, options.Acknowledge = mail.exchange, mail.acknowledge
	}
	if o.tmux {
		if err := pair.FindTmux(); err != nil {
			return err
		}
	}
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	defer command.OutliveOutput()()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	printer.gone = func() { cancel(failure.ErrOutputClosed) }
	if session, err = o.open(options, s); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	if o.tmux && !session.Manifest().State.Final() {
		err = o.showInTmux(ctx, session, s)
	}
	if err == nil {
		err = errors.Join(session.Run(ctx), printer.err)
	}
	if err != nil && !session.Manifest().State.Final() {
		return o.hintResumption(err, session.Place().ID)
	}
	return err
}

func (o pairOptions) hintResumption(err error, run int) error {
	return failure.WithHint(err, o.resumption(run)+" goes on where it stopped")
}

// open makes a new run or takes up the one that is named.
func (o pairOptions) open(options pair.Options, s *command.Streams) (*pair.Session, error) {
	root, repository, err := o.log.Runs(s)
	if err != nil {
		return nil, err
	}
	if !o.resumed {
		if _, err := os.Stat(repository); err != nil {
			return nil, err
		}
		return pair.Create(root, repository, o.settings, options)
	}
	run, err := o.run(root, repository, s)
	if err != nil {
		return nil, err
	}
	session, err := pair.Resume(run, options)
	if err == nil && o.most != 0 {
		if err = session.SetMaxIterations(o.most); err != nil {
			err = errors.Join(failure.Usagef("%w", err), session.Close())
		}
	}
	return session, err
}

// run returns the run that is named by its number or a session.
func (o pairOptions) run(root, repository string, s *command.Streams) (run bridge.Run, err error) {
	if o.session == "" {
		run, err = o.log.Run(s)
	} else {
		run, err = findSession(root, repository, o.session)
	}
	if errors.Is(err, bridge.ErrNoRun) {
		err = failure.WithHint(err,
			"oacp bridge lists the runs; --repo names another repository, --runs-dir another folder of runs")
	}
	return run, err
}

func findSession(root, repository, session string) (bridge.Run, error) {
	repositoryID, err := bridge.RepositoryID(repository)
	if err != nil {
		return bridge.Run{}, err
	}
	run, err := pair.FindSession(root, repositoryID, session)
	if err != nil {
		err = fmt.Errorf("%s: %w", repository, err)
	}
	return run, err
}
