package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/pair"
)

// drive drives the run.
func (p *pairing) drive() (err error) {
	if err := p.prepare(); err != nil {
		return err
	}
	printer := &pairPrinter{pairing: p}
	var session *pair.Session
	options := pair.Options{
		Observe: printer.print, Warn: func(err error) { p.Warn(err.Error()) },
		Timeout: p.config.Timeout, ProofTimeout: p.proofTimeout, Now: p.Now,
	}
	p.inherit.override(p.call, &options.Inherit)
	if options.NewDriver, err = p.drivers(options.Inherit, func() *pair.Session { return session }); err != nil {
		return err
	}
	defer p.catchSignals()()
	defer command.OutliveOutput()()
	ctx, cancel := context.WithCancelCause(p.ctx)
	defer cancel(nil)
	printer.gone = func() { cancel(failure.ErrOutputClosed) }
	if session, err = p.start(options); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	return p.withResumption(errors.Join(session.Run(ctx), printer.err), session)
}

// withResumption adds a hint to the error of a run that can be continued.
func (p *pairing) withResumption(err error, session *pair.Session) error {
	_, failed := errors.AsType[*pair.FailedError](err)
	if err == nil || failed || session.Manifest().State.Final() {
		return err
	}
	words := append([]string{"oacp", "pair", "--run-id", strconv.Itoa(session.Place().ID)}, p.repeated...)
	advice := ""
	for i, word := range words {
		if strings.HasSuffix(word, "-command") && errors.Is(err, agent.ErrUnavailable) {
			words[i+1], advice = "COMMAND", "name a program that is there, a relative path being one in the agents' folder; then "
		}
	}
	hint := advice + visible.ShellCommand(words...) + " continues the run"
	if service, ok := errors.AsType[*agent.APIError](err); ok && service.Kind == agent.NotLoggedIn {
		hint = service.Advice + "; then " + hint
	}
	return failure.WithHint(err, hint)
}

// drivers returns the function that makes drivers. Claude and Codex get the tools of oacp mcp for the
// bridge log.
func (p *pairing) drivers(inherit agent.Inherit, session func() *pair.Session) (func(pair.Agent, string, string) agent.Driver, error) {
	kinds := make(map[pair.Agent]agent.Kind)
	for _, name := range []pair.Agent{pair.Claude, pair.Codex} {
		kind := string(name)
		if p.commandOf(name) != nil {
			kind = p.driver
		}
		var err error
		if kinds[name], err = agent.FindKind(kind); err != nil {
			return nil, err
		}
		if err := kinds[name].Check(agent.Options{Command: p.commandOf(name), Allow: p.allow}); err != nil {
			return nil, failure.Usagef("%w", err)
		}
	}
	return func(name pair.Agent, dir, id string) agent.Driver {
		var mayRun []string
		if p.allow == agent.PermitEdits {
			mayRun = pair.Settings{Proof: session().Manifest().ProofCommand}.MayRun()
		}
		return kinds[name].New(agent.Options{
			Command: p.commandOf(name), Dir: dir, Session: id, Allow: p.allow, MayRun: mayRun, Inherit: inherit,
			MCP: oacpTools(p.Streams, kinds[name].Name, "--agent", string(name), "--bridge", session().Place().BridgePath()),
		})
	}, nil
}

// start creates a run, or resumes the one that the flags name.
func (p *pairing) start(options pair.Options) (*pair.Session, error) {
	if !p.resumed {
		root, repository, _, err := p.log.RepositoryIDs(p.Streams, false)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(repository); err != nil {
			return nil, err
		}
		return pair.Create(root, repository, p.config.Settings, options)
	}
	run, err := p.log.Run(p.Streams)
	if errors.Is(err, bridge.ErrNoRun) {
		err = failure.WithHint(err, "oacp pair list lists the runs; --repo names another repository, --runs-dir another folder of runs")
	}
	if err != nil {
		return nil, err
	}
	session, err := pair.Resume(run, options)
	if err == nil && p.given(&p.maxIterations) {
		if err = session.SetMaxIterations(p.maxIterations); err != nil {
			err = errors.Join(failure.Usagef("%w", err), session.Close())
		}
	}
	return session, err
}
