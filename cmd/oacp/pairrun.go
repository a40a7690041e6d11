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

// drive drives the run, and carries messages between it and the workspace unless that is nil.
func (p *pairing) drive(w *mailbox.Workspace) (err error) {
	printer := &pairPrinter{pairing: p}
	var session *pair.Session
	options := pair.Options{
		Observe: printer.print, Warn: func(err error) { p.Warn(err.Error()) },
		Timeout: p.config.Timeout, ProofTimeout: p.proofTimeout, Now: p.Now,
	}
	if options.NewDriver, err = p.drivers(func() *pair.Session { return session }); err != nil {
		return err
	}
	if w != nil {
		mail := &pairMail{workspace: w, s: p.Streams, session: func() *pair.Session { return session }}
		options.Exchange, options.Acknowledge = mail.exchange, mail.acknowledge
	}
	if p.config.Tmux {
		if err := checkTmux(); err != nil {
			return err
		}
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
	over := session.Manifest().State.Final()
	if p.config.Tmux && !over {
		return p.driveInTmux(ctx, session, printer)
	}
	if p.pane && !over {
		err = p.showAgents(ctx, session)
	}
	return p.withResumption(errors.Join(err, session.Run(ctx), printer.err), session)
}

// withResumption adds to the error of a run that can be continued how to do that.
func (p *pairing) withResumption(err error, session *pair.Session) error {
	var failed *pair.FailedError
	if err == nil || errors.As(err, &failed) || session.Manifest().State.Final() {
		return err
	}
	words := append([]string{"oacp", "pair", "--run-id", strconv.Itoa(session.Place().ID)}, p.repeated...)
	hint := visible.ShellCommand(words...) + " continues the run"
	var service *agent.APIError
	if errors.As(err, &service) && service.Kind == agent.NotLoggedIn {
		hint = service.Advice + "; then " + hint
	}
	return failure.WithHint(err, hint)
}

// drivers returns the maker of drivers. Claude and Codex get the tools of oacp mcp for the bridge
// log.
func (p *pairing) drivers(session func() *pair.Session) (func(pair.Agent, string, string) agent.Driver, error) {
	permission, err := agent.ParsePermission(p.text("allow"))
	if err != nil {
		return nil, failure.Usagef("--allow: %w", err)
	}
	kinds := make(map[pair.Agent]agent.Kind)
	for _, name := range []pair.Agent{pair.Claude, pair.Codex} {
		kind := string(name)
		if p.commands[name] != nil {
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
			Command: p.commands[name], Dir: dir, Session: id, Allow: permission, MayRun: mayRun,
			MCP: oacpTools(p.Streams, kinds[name].Name, "--agent", string(name), "--bridge", session().Place().BridgePath()),
		})
	}, nil
}

// start creates a run, or resumes the one that the flags name.
func (p *pairing) start(options pair.Options) (*pair.Session, error) {
	if !p.resumed {
		root, repository, err := p.log.Runs(p.Streams)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(repository); err != nil {
			return nil, err
		}
		return pair.Create(root, repository, p.config.Settings, options)
	}
	run, err := p.run()
	if err != nil {
		return nil, err
	}
	session, err := pair.Resume(run, options)
	if err == nil && p.isSet("max-iterations") {
		if err = session.SetMaxIterations(p.flags.Int("max-iterations")); err != nil {
			err = errors.Join(failure.Usagef("%w", err), session.Close())
		}
	}
	return session, err
}

// run returns the run that --run-id or --session names.
func (p *pairing) run() (run bridge.Run, err error) {
	if p.text("session") == "" {
		run, err = p.log.Run(p.Streams)
	} else {
		var root, repository string
		if root, repository, err = p.log.Runs(p.Streams); err != nil {
			return run, err
		}
		run, err = pair.FindSession(root, repository, p.text("session"))
	}
	if errors.Is(err, bridge.ErrNoRun) {
		err = failure.WithHint(err,
			"oacp pair list lists the runs; --repo names another repository, --runs-dir another folder of runs")
	}
	return run, err
}

// showAgent prints one agent's part of a run until the run stops.
func (p *pairing) showAgent() error {
	run, err := p.run()
	if err != nil {
		return err
	}
	p.config.Verbose = true
	printer := &pairPrinter{pairing: p}
	for entry, err := range pair.Follow(p.ctx, pair.Following{Run: run, Agent: pair.Agent(p.follow)}) {
		if err != nil {
			return err
		}
		if printer.print(entry); printer.err != nil {
			return printer.err
		}
	}
	return nil
}

// checkTmux makes sure that tmux can be started.
func checkTmux() error {
	if _, err := exec.LookPath("tmux"); err != nil {
		return failure.WithHint(fmt.Errorf("--tmux: %w", err), "install tmux with your system's package manager, or leave --tmux out")
	}
	return nil
}

// itself is the command line that runs this program on the run.
func (p *pairing) itself(session *pair.Session) ([]string, error) {
	run := session.Place()
	program, err := os.Executable()
	root, rootErr := filepath.Abs(filepath.Join(run.Folder, "..", ".."))
	return []string{
		program, "pair", "--run-id", strconv.Itoa(run.ID), "--repo", session.Manifest().RepoPath, "--runs-dir", root,
	}, errors.Join(err, rootErr)
}

// driveInTmux lets another process drive the run in a tmux session, and prints what that process
// prints. The run does not end with this process.
func (p *pairing) driveInTmux(ctx context.Context, session *pair.Session, printer *pairPrinter) error {
	itself, err := p.itself(session)
	if err != nil {
		return err
	}
	t := pair.Tmux{Dir: p.Dir, Env: os.Environ(), Command: append(append(itself, "--tmux-pane"), p.inTmux...)}
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
	if p.Getenv("TMUX") != "" {
		attach = "tmux switch-client -t " + t.Name
	}
	if p.json() {
		p.Note(attach + " shows the run")
	} else {
		fmt.Fprintf(p.Out, "%s  shows the run; it goes on if this terminal is closed\n", attach)
		if err := p.Out.Flush(); err != nil {
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
	return p.withResumption(stopped, session)
}

// showAgents shows the agents in panes above the one in which this process drives the run.
func (p *pairing) showAgents(ctx context.Context, session *pair.Session) error {
	itself, err := p.itself(session)
	if err != nil {
		return err
	}
	m := session.Manifest()
	return pair.ShowAgents(ctx, m.Agents(), p.Getenv("TMUX_PANE"), func(who pair.Agent) []string {
		return append(slices.Clip(itself), "--follow", string(who))
	})
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
