package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/convert/mirror"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
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

// drive drives the run, and carries messages between it and the workspace unless that is nil.
func (o pairOptions) drive(ctx context.Context, w *mailbox.Workspace, s *command.Streams) (err error) {
	printer := &pairPrinter{o: o, s: s}
	var session *pair.Session
	options := pair.Options{
		Observe: printer.print, Warn: func(err error) { s.Warn(err.Error()) },
		Timeout: o.config.Timeout, ProofTimeout: o.proofTimeout, Now: s.Now,
	}
	if options.NewDriver, err = o.drivers(s, func() *pair.Session { return session }); err != nil {
		return err
	}
	if w != nil {
		mail := &pairMail{workspace: w, s: s, session: func() *pair.Session { return session }}
		options.Exchange, options.Acknowledge = mail.exchange, mail.acknowledge
	}
	if o.config.Tmux {
		if err := checkTmux(); err != nil {
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
	over := session.Manifest().State.Final()
	if o.config.Tmux && !over {
		return o.driveInTmux(ctx, session, printer, s)
	}
	if o.pane && !over {
		err = o.showAgents(ctx, session, s)
	}
	return o.withResumption(errors.Join(err, session.Run(ctx), printer.err), session)
}

// withResumption adds to the error of a run that can be continued how to do that.
func (o pairOptions) withResumption(err error, session *pair.Session) error {
	var failed *pair.FailedError
	if err == nil || errors.As(err, &failed) || session.Manifest().State.Final() {
		return err
	}
	words := append([]string{"oacp", "pair", "--run-id", strconv.Itoa(session.Place().ID)}, o.repeated...)
	hint := visible.Shell(words...) + " continues the run"
	var service *agent.APIError
	if errors.As(err, &service) && service.Kind == agent.NotLoggedIn {
		hint = service.Advice + "; then " + hint
	}
	return failure.WithHint(err, hint)
}

// drivers returns the maker of drivers. Claude and Codex get the tools of oacp mcp for the bridge
// log.
func (o pairOptions) drivers(s *command.Streams, session func() *pair.Session) (func(pair.Agent, string, string) agent.Driver, error) {
	permission, err := agent.ParsePermission(o.allow)
	if err != nil {
		return nil, failure.Usagef("--allow: %w", err)
	}
	kinds := make(map[pair.Agent]agent.Kind)
	for _, name := range []pair.Agent{pair.Claude, pair.Codex} {
		kind := string(name)
		if o.commands[name] != nil {
			kind = "exec"
		}
		if kinds[name], err = agent.FindKind(kind); err != nil {
			return nil, err
		}
	}
	return func(name pair.Agent, dir, id string) agent.Driver {
		var mayRun []string
		if permission == agent.PermitEdits {
			mayRun = pair.Settings{Proof: session().Manifest().ProofCommand}.MayRun()
		}
		return kinds[name].New(agent.Options{
			Command: o.commands[name], Dir: dir, Session: id, Allow: permission, MayRun: mayRun,
			MCP: oacpTools(s, kinds[name].Name, "--agent", string(name), "--bridge", session().Place().BridgePath()),
		})
	}, nil
}

// open creates a run, or resumes the one that the flags name.
func (o pairOptions) open(options pair.Options, s *command.Streams) (*pair.Session, error) {
	if !o.resumed {
		root, repository, err := o.log.Runs(s)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(repository); err != nil {
			return nil, err
		}
		return pair.Create(root, repository, o.config.Settings, options)
	}
	run, err := o.run(s)
	if err != nil {
		return nil, err
	}
	session, err := pair.Resume(run, options)
	if err == nil && o.maxIterations != 0 {
		if err = session.SetMaxIterations(o.maxIterations); err != nil {
			err = errors.Join(failure.Usagef("%w", err), session.Close())
		}
	}
	return session, err
}

// run returns the run that --run-id or --session names.
func (o pairOptions) run(s *command.Streams) (run bridge.Run, err error) {
	if o.session == "" {
		run, err = o.log.Run(s)
	} else {
		var root, repository string
		if root, repository, err = o.log.Runs(s); err != nil {
			return run, err
		}
		run, err = pair.FindSession(root, repository, o.session)
	}
	if errors.Is(err, bridge.ErrNoRun) {
		err = failure.WithHint(err,
			"oacp pair list lists the runs; --repo names another repository, --runs-dir another folder of runs")
	}
	return run, err
}

// runPairFollow prints one agent's part of a run until the run stops.
func runPairFollow(ctx context.Context, o pairOptions, s *command.Streams) error {
	run, err := o.run(s)
	if err != nil {
		return err
	}
	o.config.Verbose = true
	printer := &pairPrinter{o: o, s: s}
	for entry, err := range pair.Follow(ctx, pair.Following{Run: run, Agent: pair.Agent(o.follow)}) {
		if err != nil {
			return err
		}
		if printer.print(entry); printer.err != nil {
			return printer.err
		}
	}
	return nil
}

// pairMail carries messages between a run and the mailboxes of a workspace.
type pairMail struct {
	workspace *mailbox.Workspace
	s         *command.Streams
	// session returns the session, which is open before the first exchange.
	session func() *pair.Session
	mirror  *mirror.Mirror
	// members are the agents of the run and the sender of the task.
	members []schema.AgentName
	// completed is when a resumed run was completed, or nil.
	completed *time.Time
}

// exchange carries new messages and records both ways.
func (p *pairMail) exchange(ctx context.Context) error {
	if p.mirror == nil {
		session := p.session()
		manifest := session.Manifest()
		p.members = []schema.AgentName{pair.User}
		for _, name := range manifest.Agents() {
			p.members = append(p.members, schema.AgentName(name))
		}
		p.completed = manifest.CompletedAt
		p.mirror = &mirror.Mirror{Workspace: p.workspace, Log: session.Log(), Only: p.concerns}
	}
	report, err := p.mirror.Run(ctx)
	for _, letter := range report.DeadLetters {
		p.s.Warn(fmt.Sprintf("a record could not be delivered and became the dead letter %s: %s", letter.Path, letter.Reason))
	}
	for _, text := range report.Warnings {
		p.s.Warn(text)
	}
	return err
}

// concerns reports whether a message is from or to a member of the run and not from after its end.
// The mirror itself omits messages from before the run.
func (p *pairMail) concerns(m *schema.Message) bool {
	if p.completed != nil && m.CreatedAt.Time().After(*p.completed) {
		return false
	}
	isMember := func(name schema.AgentName) bool { return slices.Contains(p.members, name) }
	return isMember(m.From) || slices.ContainsFunc(m.To, isMember)
}

// acknowledge removes from an agent's inbox what the agent has handled.
func (p *pairMail) acknowledge(ctx context.Context, name pair.Agent, given []bridge.Record) error {
	_, err := mirror.Acknowledge(ctx, p.workspace, schema.AgentName(name), given)
	return err
}
