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
	"strings"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/convert/mirror"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
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
	hint := visible.Shell(words...) + " continues the run"
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

// pairPrinter prints the entries of a run. An error of the output does not stop the agents.
type pairPrinter struct {
	*pairing
	err error
	// reason is what the last entry gave as one.
	reason string
	// gone, if not nil, is called when the reader of the output is gone.
	gone func()
}

func (p *pairPrinter) print(e pair.Entry) {
	if e.Type.Detail() && !p.config.Verbose {
		return
	}
	var err error
	if p.json() {
		var line []byte
		if line, err = e.Line(); err == nil {
			_, err = p.Out.Write(line)
		}
	} else {
		_, err = fmt.Fprint(p.Out, p.text(e))
	}
	if err = errors.Join(err, p.Out.Flush()); err != nil && p.err == nil {
		if p.err = command.OutputError(err); errors.Is(p.err, failure.ErrOutputClosed) && p.gone != nil {
			p.gone()
		}
	}
}

// text returns what is printed of an entry: a line with the time, and below it a text that may have
// several lines. Either may be missing.
func (p *pairPrinter) text(e pair.Entry) string {
	words, colors := pairWords(e)
	var text strings.Builder
	if words != "" {
		text.WriteString(p.Clock(e.Timestamp) + "  " + paint(p.Streams, colors, visible.Line(words)) + "\n")
	}
	below := ""
	switch {
	case e.Summary != nil:
		below = summaryText(e.Summary, e.RunID)
	case e.Type == pair.EntryState && e.Content != p.reason+"\n":
		below = e.Content
	case e.Type.Detail():
		below = p.detail(e)
	default:
		below, p.reason = e.Reason, e.Reason
	}
	for line := range strings.Lines(strings.TrimRight(below, "\n")) {
		text.WriteString("    " + visible.Lines(strings.TrimRight(line, "\r\n")) + "\n")
	}
	return text.String()
}

// detail returns what an agent says or does during its turn, with its name unless only one agent is
// shown.
func (p *pairPrinter) detail(e pair.Entry) string {
	mark := ""
	if p.follow == "" {
		mark = string(e.Agent) + "  "
	}
	if e.Type == pair.EntryTool {
		return mark + "> " + visible.Line(e.Content)
	}
	var text strings.Builder
	for line := range strings.Lines(e.Content) {
		text.WriteString(mark + line)
	}
	return text.String()
}

// pairWords returns the line about an entry, without its time, "" if there is none.
func pairWords(e pair.Entry) (string, colors) {
	took := e.Duration.Round(time.Second)
	switch e.Type {
	case pair.EntryStart:
		return fmt.Sprintf("run %d: %s", e.RunID, e.Content), nil
	case pair.EntryResume:
		return fmt.Sprintf("goes on in iteration %d: %s", e.Iteration, e.Content), yellow
	case pair.EntryIteration:
		return fmt.Sprintf("iteration %d", e.Iteration), bold
	case pair.EntryExecute:
		return fmt.Sprintf("%s %s", e.Agent, map[pair.State]string{pair.Working: "works", pair.Reviewing: "reviews"}[e.State]), nil
	case pair.EntryResult:
		if len(e.Refused) > 0 {
			return fmt.Sprintf("%s has ended its turn after %v; refused %s", e.Agent, took, refusedText(e.Refused)), yellow
		}
		return fmt.Sprintf("%s has ended its turn after %v", e.Agent, took), nil
	case pair.EntrySignal:
		return fmt.Sprintf("%s says %s", e.Agent, e.Signal), signalColors[e.Signal]
	case pair.EntryProving:
		return "the proof runs: " + e.Content, nil
	case pair.EntryProof:
		if e.Error != "" {
			return e.Error, signalColors[bridge.SignalFail]
		}
		return fmt.Sprintf("the proof has succeeded after %v", took), signalColors[bridge.SignalPass]
	case pair.EntryRestart:
		return fmt.Sprintf("%s is started again: %s", e.Agent, e.Error), yellow
	case pair.EntryRetry:
		return fmt.Sprintf("%s: %s", e.Agent, e.Content), yellow
	case pair.EntryUnclear, pair.EntryNotice:
		return e.Content, yellow
	case pair.EntryEnd:
		switch e.State {
		case pair.Complete:
			return fmt.Sprintf("run %d is completed in iteration %d", e.RunID, e.Iteration), signalColors[bridge.SignalPass]
		case pair.Failed:
			return fmt.Sprintf("run %d has failed in iteration %d", e.RunID, e.Iteration), signalColors[bridge.SignalFail]
		}
		return fmt.Sprintf("run %d has stopped in iteration %d and can be continued", e.RunID, e.Iteration), yellow
	}
	return "", nil // errors go to standard error
}

// listedChanges is how many changed files the end of a run shows.
const listedChanges = 12

// summaryText shows what a run came to.
func summaryText(summary *pair.Summary, run int) string {
	var text strings.Builder
	row := func(name, format string, values ...any) {
		fmt.Fprintf(&text, "%-8s %s\n", name, visible.Line(fmt.Sprintf(format, values...)))
	}
	row("folder", "%s", summary.Folder)
	listed := min(len(summary.Changes), listedChanges)
	name := "changed"
	for _, change := range summary.Changes[:listed] {
		if change.Untracked {
			row(name, "%s (untracked)", change.Path)
		} else {
			row(name, "%s +%d -%d", change.Path, change.Added, change.Deleted)
		}
		name = ""
	}
	if more := len(summary.Changes) - listed + summary.Unlisted; more > 0 {
		row("", "and %d more", more)
	}
	spent := summary.Spent
	used := append([]string{spelling.Count(spent.Turns, "turn") + " in " + spent.Duration.Round(time.Second).String()}, usageDetails(spent.Usage)...)
	row("used", "%s", strings.Join(used, ", "))
	w := summary.Worktree
	if w == nil {
		return text.String()
	}
	// The next steps with the worktree.
	step := func(name string, words ...string) { row(name, "%s", visible.Shell(words...)) }
	if w.Uncommitted {
		step("commit", "git", "-C", w.Path, "add", "-A")
		step("", "git", "-C", w.Path, "commit")
	}
	step("look", "git", "-C", summary.Repository, "diff", fmt.Sprintf("%.12s", w.Base), w.Branch)
	step("merge", "git", "-C", summary.Repository, "merge", w.Branch)
	step("or drop", "oacp", "pair", "remove", "--worktree", fmt.Sprint(run))
	return text.String()
}

var signalColors = map[bridge.Signal]colors{
	bridge.SignalDone: green,
	bridge.SignalPass: green,
	bridge.SignalFail: red,
}
