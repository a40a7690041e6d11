package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// defaultAgents are those of a workspace whose maker names none.
const defaultAgents = "claude,codex,cursor"

func newInitCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "init",
		Category:  command.CategoryWorkspace,
		Usage:     "create a workspace",
		ArgsUsage: "[PROJECT] [--agents A,B]",
		Description: `init creates a workspace in the current folder, or for a PROJECT below
$OACP_HOME/projects. A project also gets the folders that other tools expect: memory,
packets, checkpoints, artifacts, and a config.yaml for each agent. init keeps existing
files, so you can run it again, for example to add agents. In a git repository it says
how to commit the workspace, and how to keep it out of git.

With --git the workspace is the folder .oacp of the git repository around the current
folder, unless another one is named, and has a git repository of its own, in step with
a branch of a remote. Where others have begun, you join them; oacp sync exchanges mail.

EXAMPLES:
   oacp init --agents claude,codex
   oacp init --git
   oacp init my-project --repo ~/src/my-project`,
		Flags: flagsWith(
			&cli.StringFlag{Name: "agents", Usage: "create mailboxes for `A,B,…`; \"\" for none", DefaultText: defaultAgents + " in a new workspace", Value: defaultAgents},
			&cli.BoolFlag{Name: "git", Usage: "exchange the mail with other machines, with git"},
			&cli.StringFlag{Name: "remote", Usage: "through `REMOTE`, a URL or a remote of the repository (default: that of the branch, then origin)"},
			&cli.StringFlag{Name: "branch", Usage: "through the branch `NAME` of the remote (default oacp)"},
			&cli.BoolFlag{Name: "all", Category: command.Rare, Usage: "take all mail of the branch; by default, what is pending and the last week"},
			&cli.BoolFlag{Name: "pending", Category: command.Rare, Usage: "take only pending mail, as for a CI job"},
			&cli.StringFlag{Name: "ref", Category: command.Rare, Usage: "through `REF` of the remote, such as refs/oacp/mail, not a branch"},
			&cli.StringFlag{Name: "repo", Category: command.Rare, Usage: "record `PATH` as the repository in workspace.json"},
			&cli.StringSliceFlag{Name: "link", Category: command.Rare, Usage: "`SOURCE:NAME` links artifacts/NAME to SOURCE in the repository; requires --repo"}),
		Action: ofProject(s, runInit),
	}
}

// checkInit returns an error if the flags contradict each other.
func checkInit(c *call) error {
	for _, name := range []string{"remote", "branch", "ref", "all", "pending"} {
		switch {
		case c.isSet(name) && !c.isOn("git"):
			return failure.Usagef("--%s needs --git", name)
		case c.isSet(name) && fmt.Sprint(c.flags.Value(name)) == "":
			return failure.Usagef("--%s is empty", name)
		}
	}
	switch {
	case c.place.Dir != "" && c.place.Project != "":
		return failure.Usagef("a project and --dir are mutually exclusive")
	case c.isOn("all") && c.isOn("pending"):
		return failure.Usagef("--all and --pending are mutually exclusive")
	case c.text("branch") != "" && c.text("ref") != "":
		return failure.Usagef("--branch and --ref are mutually exclusive")
	}
	return nil
}

func runInit(c *call) error {
	if err := checkInit(c); err != nil {
		return err
	}
	options, err := initOptions(c)
	if err != nil {
		return err
	}
	dir, err := initFolder(c)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return err
	}
	warnings, err := checkPlace(c, dir)
	if err != nil {
		return err
	}
	var joining *gitInitialized
	if c.isOn("git") {
		defer c.catchSignals()()
		if joining, err = initGit(c, dir, &options); err != nil {
			return cmp.Or(context.Cause(c.ctx), err)
		}
	}
	made, err := project.Init(dir, options)
	made.Warnings = append(made.Warnings, warnings...)
	if err == nil && joining != nil && joining.Joined {
		err = command.Workspace{Dir: dir}.With(c.Streams, nil, func(w *mailbox.Workspace) error { return joining.sync(c, w) })
	}
	if err == nil {
		err = printMade(c, dir, made, joining, nextSteps(c, dir, made)...)
	}
	if err == nil && options.Repository != "" && !c.json() {
		c.printf("  with a link, commands in the repository find the workspace: %s\n", visible.Shell(
			"ln", "-sf", filepath.Join(dir, schema.MarkerName), filepath.Join(options.Repository, ".oacp")))
	}
	return err
}

// initOptions returns what the flags say about the workspace, except its folder.
func initOptions(c *call) (options project.InitOptions, err error) {
	options = project.InitOptions{
		Project: c.place.Project, ProjectFolders: c.place.Project != "", AgentsIfNew: !c.isSet("agents"), Now: c.Now(),
	}
	for name := range strings.SplitSeq(c.text("agents"), ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		agent, err := schema.ParseAgentName(name)
		if err != nil {
			return options, err
		}
		options.Agents = append(options.Agents, agent)
	}
	for _, text := range c.texts("link") {
		link, err := project.ParseLink(text)
		if err != nil {
			return options, failure.Usagef("--link: %w", err)
		}
		options.Links = append(options.Links, link)
	}
	if c.text("repo") == "" {
		if len(options.Links) > 0 {
			err = failure.WithHint(errors.New("--link requires --repo"), "a link leads from artifacts to a file or folder of the repository")
		}
		return options, err
	}
	if options.Repository, err = project.ExpandHome(c.text("repo")); err == nil {
		options.Repository, err = filepath.Abs(options.Repository)
	}
	if resolved, err := filepath.EvalSymlinks(options.Repository); err == nil {
		options.Repository = resolved
	}
	return options, err
}

// initFolder returns where the workspace is to be.
func initFolder(c *call) (string, error) {
	switch {
	case c.place.Dir != "":
		return c.place.Place(c.Streams).Find()
	case c.place.Project != "":
		return c.place.Place(c.Streams).ProjectDir()
	case c.isOn("git"):
		return gitFolder(c.Dir)
	}
	return c.Dir, nil
}

// checkPlace returns an error if the workspace cannot be in the folder, and warnings if commands in the
// working folder use another one.
func checkPlace(c *call, dir string) (warnings []string, err error) {
	if c.place.Project != "" {
		return nil, nil // the folder is below a home
	}
	if err := project.CheckFree(dir); err != nil || c.place.Dir != "" {
		return nil, err
	}
	if named := c.Getenv("OACP_WORKSPACE"); named != "" && !sameFolder(named, dir) {
		warnings = append(warnings, "commands use the workspace that OACP_WORKSPACE names, "+named)
	}
	found, err := workspaceAround(c.Dir)
	switch {
	case err != nil || sameFolder(found, dir):
		return warnings, nil // there is none, or this one
	case !c.isOn("git"):
		return nil, fmt.Errorf("no workspace is made in %s: %w, %s", dir, project.ErrNested, found)
	}
	return append(warnings, fmt.Sprintf("the workspace %s stays as it is, with its mail; %s gives that one a repository", found,
		visible.Shell("oacp", "init", "--git", "--dir", found))), nil
}

// nextSteps says what the user can do about git with a new workspace in a repository.
func nextSteps(c *call, dir string, made project.Made) (next []string) {
	top, err := git.Top(dir)
	if err != nil || top == "" || c.isOn("git") || !slices.Contains(made.Paths, filepath.Join(dir, schema.MarkerName)) {
		return nil
	}
	commit := []string{"oacp", "commit"}
	if c.place.Dir != "" {
		commit = append(commit, "--dir", c.place.Dir)
	}
	next = []string{visible.Shell(commit...) + " commits it with the code, and later its new messages"}
	below, err := filepath.Rel(top, dir)
	if around, aroundErr := git.Top(c.Dir); err != nil || aroundErr != nil || around != top {
		return next
	}
	patterns := []string{"/" + filepath.ToSlash(below) + "/"}
	if below == "." {
		patterns = []string{"/agents/"}
		for _, name := range []string{schema.MarkerName, ".gitattributes"} {
			if slices.Contains(made.Paths, filepath.Join(dir, name)) {
				patterns = append(patterns, "/"+name)
			}
		}
	}
	return append(next, visible.Shell(append([]string{"printf", `%s\n`}, patterns...)...)+
		` >> "$(git rev-parse --git-path info/exclude)" keeps it out of git`)
}

// printMade says what init and add-agent made, and what the user can do next.
func printMade(c *call, workspace string, made project.Made, joined *gitInitialized, next ...string) error {
	if joined != nil {
		made.Warnings = append(made.Warnings, joined.warnings...)
	}
	for _, warning := range made.Warnings {
		c.Warn(warning)
	}
	return c.answer(struct {
		Workspace string          `json:"workspace"`
		Made      []string        `json:"made"`
		Git       *gitInitialized `json:"git,omitempty"`
		Warnings  []string        `json:"warnings,omitempty"`
		Next      []string        `json:"next,omitempty"`
	}{workspace, append([]string{}, made.Paths...), joined, made.Warnings, next}, func() {
		c.printf("OK: %s\n", visible.Line(workspace))
		for _, path := range made.Paths {
			if below, err := filepath.Rel(workspace, path); err == nil {
				path = below
			}
			c.printf("  made: %s\n", visible.Line(path))
		}
		if joined != nil {
			joined.print(c)
		} else if len(made.Paths) == 0 {
			c.printf("  everything was there\n")
		}
		for _, text := range next {
			c.printf("  next: %s\n", visible.Line(text))
		}
	})
}

// gitFolder returns the folder .oacp of the repository around a folder. In a linked worktree, it is
// that of the main one.
func gitFolder(dir string) (string, error) {
	top, err := git.Top(dir)
	if err == nil && top != "" && filepath.Base(top) == ".oacp" {
		top, err = git.Top(filepath.Dir(top)) // the workspace has a repository already
	}
	if err != nil {
		return "", err
	}
	if top == "" {
		return "", &failure.Error{Code: "no_repository", Err: fmt.Errorf("%s is in no git repository", dir),
			Hint: "git init makes one; --dir DIR or a PROJECT names another place for the workspace"}
	}
	folder := filepath.Join(git.MainFolder(top), ".oacp")
	info, err := os.Lstat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return folder, nil
	case err != nil:
		return "", err
	case info.Mode()&fs.ModeSymlink != 0:
		// A link to the workspace.json of a project leads to its workspace.
		target, err := filepath.EvalSymlinks(folder)
		if err == nil && filepath.Base(target) == schema.MarkerName {
			return filepath.Dir(target), nil
		}
		if info, statErr := os.Stat(target); err == nil && statErr == nil && info.IsDir() {
			return target, nil
		}
	case info.IsDir():
		return folder, nil
	}
	return "", failure.WithHint(fmt.Errorf("%s is not a folder", folder), "move it away; a link may lead to a workspace")
}

// gitInitialized is what init --git says of the repository.
type gitInitialized struct {
	Repository string             `json:"repository"`
	Created    bool               `json:"created"`
	Remote     string             `json:"remote,omitempty"`
	URL        string             `json:"url,omitempty"`
	Ref        string             `json:"ref"`
	Excluded   string             `json:"excluded_in,omitempty"`
	Found      bool               `json:"found"`
	Joined     bool               `json:"joined"`
	Reachable  bool               `json:"reachable"`
	Agents     []schema.AgentName `json:"agents,omitempty"`
	Received   int                `json:"received"`
	Sent       int                `json:"sent"`

	warnings []string
}

// initGit gives the workspace its repository, and makes a folder for it if there is none. If no agents
// were named, it decides which ones the workspace gets.
func initGit(c *call, dir string, options *project.InitOptions) (g *gitInitialized, err error) {
	remote, err := project.ExpandHome(c.text("remote"))
	if err != nil {
		return nil, err
	}
	enclosing := options.Repository
	if enclosing == "" {
		if enclosing, err = enclosingOf(c.Dir, dir); err != nil {
			return nil, err
		}
	}
	w, unmake, err := makeWorkspace(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	ref := c.text("ref")
	if branch := c.text("branch"); branch != "" {
		ref = "refs/heads/" + branch
	}
	made, err := gitmail.Init(c.ctx, w, gitmail.InitOptions{Remote: remote, Ref: ref, Enclosing: enclosing, All: c.isOn("all"), Pending: c.isOn("pending")})
	if err != nil {
		unmake()
		return nil, err
	}
	known, err := w.Agents()
	if err != nil {
		return nil, err
	}
	if !c.isSet("agents") && (made.Found || made.Unreachable != nil || len(known) > 0) {
		options.Agents = nil
	}
	g = &gitInitialized{
		Repository: filepath.Join(dir, ".git"), Created: made.Created, Remote: gitmail.PublicURL(made.Remote), URL: gitmail.PublicURL(made.URL), Ref: made.Ref,
		Excluded: made.Excluded, Found: made.Found, Joined: made.Joined, Reachable: made.URL != "" && made.Unreachable == nil, Agents: made.Agents,
	}
	g.warn(made, len(known)+len(options.Agents) > 0)
	return g, nil
}

// enclosingOf returns the top of the user's repository for a workspace: that around the workspace,
// or else, if the workspace is that of the working folder, that around the working folder.
func enclosingOf(workingDir, dir string) (string, error) {
	top, err := git.Top(filepath.Dir(dir))
	if err != nil || top != "" {
		return top, err
	}
	if found, err := workspaceAround(workingDir); err == nil && found == dir {
		if top, err = git.Top(workingDir); err != nil || top == "" || top == dir {
			return "", err
		}
		return git.MainFolder(top), nil
	}
	return "", nil
}

// workspaceAround returns the folder of the workspace that commands in a folder find without a flag or variable.
func workspaceAround(dir string) (string, error) {
	return project.Place{WorkingDir: dir, Getenv: func(string) string { return "" }}.Find()
}

func sameFolder(a, b string) bool {
	first, err := os.Stat(a)
	second, secondErr := os.Stat(b)
	return err == nil && secondErr == nil && os.SameFile(first, second)
}

// makeWorkspace opens the workspace and makes its folder if it is missing. The function that it
// returns removes what it made, as long as that is empty.
func makeWorkspace(dir string) (w *mailbox.Workspace, unmake func(), err error) {
	var missing []string
	for at := filepath.Join(dir, schema.AgentsName); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); err == nil || at == filepath.Dir(at) {
			break
		}
		missing = append(missing, at)
	}
	unmake = func() {
		for _, folder := range missing {
			_ = os.Remove(folder) // it stays if others have put something into it
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, schema.AgentsName), 0o755); err != nil {
		return nil, nil, fmt.Errorf("making workspace %s: %w", dir, err)
	}
	if w, err = mailbox.Open(dir, nil); err != nil {
		unmake()
	}
	return w, unmake, err
}

// warn notes what the user should know about the remote.
func (g *gitInitialized) warn(made gitmail.Initialized, hasAgents bool) {
	if made.Unreachable != nil {
		g.warnings = append(g.warnings, "the remote does not answer, oacp sync tries again: "+failure.OneLine(made.Unreachable.Error()))
		if !hasAgents {
			g.warnings = append(g.warnings, "no agents were made, because the remote may have some: oacp add-agent NAME makes one")
		}
	}
	if made.URL == "" && len(made.Remotes) > 1 {
		g.warnings = append(g.warnings, "the repository has several remotes, "+strings.Join(made.Remotes, ", ")+": oacp init --git --remote NAME chooses one")
	}
}

// sync brings the mail of a workspace that has just joined. What fails is a warning, because the next
// sync does it.
func (g *gitInitialized) sync(c *call, w *mailbox.Workspace) error {
	r, err := gitmail.Open(c.ctx, w)
	if err != nil {
		return err
	}
	bar := newProgress(c.Streams, "exchanging mail")
	result, err := r.Sync(c.ctx, gitmail.Options{Progress: bar.update, Waiting: bar.waiting})
	bar.clear()
	if c.ctx.Err() != nil {
		return err
	}
	if err != nil {
		g.warnings = append(g.warnings, "the mail has not come, oacp sync tries again: "+failure.OneLine(err.Error()))
	}
	for _, change := range result.Changes {
		switch {
		case change.Kind == gitmail.Sent && change.Direction == gitmail.In:
			g.Received++
		case change.Kind == gitmail.Sent:
			g.Sent++
		}
	}
	g.warnings = append(g.warnings, passedOver(result.Problems)...)
	return nil
}

// print says what init did.
func (g *gitInitialized) print(c *call) {
	say := func(format string, args ...any) { c.printf("  "+format+"\n", args...) }
	if g.Created {
		say("made: .git, a repository of its own")
	}
	name, isBranch := strings.CutPrefix(g.Ref, "refs/heads/")
	if isBranch {
		name = "branch " + name
	}
	switch {
	case g.Remote == "":
		say("in step with: nothing yet")
	case g.Remote == g.URL:
		say("in step with: %s of %s", visible.Line(name), visible.Line(g.URL))
	default:
		say("in step with: %s of %s, %s", visible.Line(name), visible.Line(g.Remote), visible.Line(g.URL))
	}
	if g.Excluded != "" {
		say("excluded from the code: listed in %s", visible.Line(g.Excluded))
	}
	if g.Found {
		say("agents on the branch: %s", cmp.Or(joinNames(g.Agents), "none"))
	}
	switch {
	case g.Remote == "":
		say("next: oacp init --git --remote NAME-OR-URL adds a remote; until then, oacp sync keeps a history here")
	case g.Joined:
		text := spelling.Count(g.Received, "message") + " came"
		if g.Sent > 0 {
			text += fmt.Sprintf(", %d went", g.Sent)
		}
		say("joined: %s", text)
	case g.Reachable && !g.Found:
		say("next: oacp sync publishes it")
	}
}

func newAddAgentCommand(s *command.Streams) *cli.Command {
	runtimes := strings.Join(project.Runtimes, ", ")
	return &cli.Command{
		Name:      "add-agent",
		Category:  command.CategoryWorkspace,
		Usage:     "add an agent's mailbox",
		ArgsUsage: "[PROJECT] NAME",
		Description: `With --runtime, add-agent also writes a card and a status file. Commands that run in
that runtime read the card to find out which agent they act for. The model and the
description come from agents/NAME/profile.yaml in the home, if it exists. add-agent
keeps existing files. oacp remove-agent removes an agent.

EXAMPLES:
   oacp add-agent reviewer
   oacp add-agent my-project codex --runtime codex`,
		Flags: flagsWith(&cli.StringFlag{Name: "runtime", Usage: "the agent runs in `RUNTIME`: " + runtimes}),
		Action: ofAgent(s, func(c *call, agent schema.AgentName) error {
			options := project.AgentOptions{Runtime: c.text("runtime"), ProjectFolders: c.place.Project != "", Now: c.Now()}
			if options.Runtime != "" && !slices.Contains(project.Runtimes, options.Runtime) {
				return failure.Usagef("--runtime: there is no runtime %s", visible.Quote(options.Runtime)).
					WithHint("the runtimes are " + runtimes)
			}
			if _, err := schema.ParseAgentName(string(agent)); err != nil {
				return err
			}
			place, err := c.place.Place(s), error(nil)
			if options.Runtime != "" {
				options.Home, err = place.HomeDir()
			}
			if err == nil && place.Project != "" {
				err = place.ClaimProject()
			}
			if err != nil {
				return err
			}
			return c.open(func(c *call, w *mailbox.Workspace) error {
				made, err := project.AddAgent(w, agent, options)
				if err != nil {
					return err
				}
				return printMade(c, w.Dir(), made, nil)
			})
		}),
	}
}

// ofAgent returns the action of a command whose last argument is an agent. A project may stand before it.
func ofAgent(s *command.Streams, run func(*call, schema.AgentName) error) cli.ActionFunc {
	return func(flags *cli.Context) error {
		c := newCall(s, flags)
		last := len(c.words) - 1
		if last < 0 {
			return failure.Usagef("needs the name of the agent")
		}
		if err := c.place.TakeProject(c.words[:last]); err != nil {
			return err
		}
		return run(c, schema.AgentName(c.words[last]))
	}
}

func newRemoveAgentCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "remove-agent",
		Hidden:    true, // add-agent and sync name it
		Category:  command.CategoryWorkspace,
		Usage:     "remove an agent's mailbox",
		ArgsUsage: "[PROJECT] NAME",
		Description: `remove-agent moves the folder of an agent out of the workspace, to state/removed, with
all its mail. If the workspace is synced by git, the agent goes from the branch, and with
the next sync from all other machines; their folders move to state/removed, too.
Messages that the agent sent to others stay with them. add-agent adds it again, empty.

EXAMPLES:
   oacp remove-agent cursor --dry-run
   oacp remove-agent cursor`,
		Flags: flagsWith(
			&cli.BoolFlag{Name: "dry-run", Usage: "say what would go, and remove nothing"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask"}),
		Action: ofAgent(s, func(c *call, agent schema.AgentName) error {
			defer c.catchSignals()()
			return c.open(func(c *call, w *mailbox.Workspace) error { return removeAgent(c, w, agent) })
		}),
	}
}

func removeAgent(c *call, w *mailbox.Workspace, agent schema.AgentName) error {
	if err := w.CheckAgent(agent); err != nil {
		return err
	}
	pending, err := w.Inbox(c.ctx, agent)
	if err != nil {
		return err
	}
	repository, err := openRepository(c.ctx, w)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s here", agent)
	if repository != nil {
		what = fmt.Sprintf("%s from all machines", agent)
	}
	withMail := fmt.Sprintf("%s, with %s pending", what, spelling.Count(len(pending), "message"))
	text := "would remove " + withMail
	if !c.isOn("dry-run") {
		if err := c.confirm("remove " + withMail + "?"); err != nil {
			return err
		}
		if repository == nil {
			err = gitmail.SetAside(w, agent, c.Now())
		} else {
			options := command.SyncOptions(w)
			options.RemoveAgent, options.Waiting = agent, c.NoteWaiting
			_, err = repository.Sync(c.ctx, options)
		}
		if err != nil {
			return cmp.Or(context.Cause(c.ctx), err)
		}
		text = "removed " + what + "; its folder is in state/removed"
	}
	answer := map[string]any{"agent": agent, "pending": len(pending), "dry_run": c.isOn("dry-run")}
	return c.answer(answer, func() { c.printf("%s\n", text) })
}
