package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/history"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// gitInitialized is the answer of init --git about the repository.
type gitInitialized struct {
	Repository string             `json:"repository"`
	Moved      string             `json:"moved_from,omitempty"`
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
	// asked is set by --git.
	asked bool
}

// initGit makes the repository of the workspace, and its folder if that is missing. Without --agents, it
// clears options.Agents if the branch or the workspace exists, or the remote does not answer.
func (c *initCall) initGit(p initPlace, options *project.InitOptions) (g *gitInitialized, err error) {
	remote, err := project.ExpandHome(c.remote)
	if err != nil {
		return nil, err
	}
	enclosing, err := project.Enclosing(c.Dir, p.dir)
	if err != nil {
		return nil, err
	}
	w, unmake, err := makeWorkspace(p.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	ref := c.ref
	if branch := c.branch; branch != "" {
		ref = "refs/heads/" + branch
	}
	made, err := gitmail.Init(c.ctx, w, gitmail.InitOptions{
		Remote: remote, Ref: ref, Local: !c.git, Enclosing: enclosing, All: c.all, Pending: c.pending,
	})
	if err != nil {
		unmake()
		return nil, err
	}
	known, err := w.Agents()
	if err != nil {
		return nil, err
	}
	if !c.given(&c.agents) && (made.Found || made.Unreachable != nil || len(known) > 0) {
		options.Agents = nil
	}
	g = &gitInitialized{
		Repository: filepath.Join(p.dir, ".git"), Moved: p.from, Created: made.Created, Remote: git.PublicURL(made.Remote), URL: git.PublicURL(made.URL), Ref: made.MailRef(),
		Excluded: made.Excluded, Found: made.Found, Joined: made.Joined || made.Found && len(known) == 0, Reachable: made.URL != "" && made.Unreachable == nil, Agents: made.Agents, asked: c.git,
	}
	g.warn(made, len(known)+len(options.Agents) > 0)
	if remote := cmp.Or(git.RemoteWith(enclosing, "oacp-3"), git.RemoteWith(enclosing, "oacp")); remote != "" && made.Remote == "" && !c.git {
		g.warnings = append(g.warnings, remote+" has a branch of mailboxes: oacp init --git joins them")
	}
	return g, nil
}

// makeWorkspace opens the workspace and makes its folder if it is missing. The function unmake removes the
// folders that it made, if they are still empty.
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
			_ = os.Remove(folder) // a folder that is not empty stays
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

// warn adds warnings about the remote.
func (g *gitInitialized) warn(made gitmail.Initialized, hasAgents bool) {
	if made.Unreachable != nil {
		g.warnings = append(g.warnings, "the remote does not answer; oacp sync tries again: "+failure.OneLine(made.Unreachable.Error()))
		if !hasAgents {
			g.warnings = append(g.warnings, "no agents were made, because the remote may have some: oacp add-agent NAME makes one")
		}
	}
	if made.URL == "" && len(made.Remotes) > 1 {
		g.warnings = append(g.warnings, "the repository has several remotes, "+strings.Join(made.Remotes, ", ")+": oacp init --git --remote NAME chooses one")
	}
}

// sync fetches the mail of a workspace that has just joined. A failure is a warning, because the next sync
// tries again.
func (g *gitInitialized) sync(c *call, w *mailbox.Workspace) error {
	r, err := gitmail.Open(c.ctx, w)
	if err != nil {
		return err
	}
	bar := newProgress(c.Streams)
	result, err := r.Sync(c.ctx, gitmail.Options{Progress: bar.update, Waiting: bar.waiting})
	bar.clear()
	if c.ctx.Err() != nil {
		return err
	}
	if err != nil {
		g.warnings = append(g.warnings, "fetching the mail failed; oacp sync tries again: "+failure.OneLine(err.Error()))
	}
	g.Received, g.Sent = result.In[history.Sent], result.Out[history.Sent]
	g.warnings = append(g.warnings, skippedFiles(result.Problems)...)
	return nil
}

// print prints what init did.
func (g *gitInitialized) print(c *call) {
	say := func(format string, args ...any) { c.Printf("  "+format+"\n", args...) }
	if g.Moved != "" {
		say("moved: the workspace of %s, with its mail", visible.Line(g.Moved))
	}
	if g.Created {
		say("made: .git, a repository of its own")
	}
	name, isBranch := strings.CutPrefix(g.Ref, "refs/heads/")
	if isBranch {
		name = "branch " + name
	}
	switch {
	case g.Remote == "":
		if g.asked {
			say("synced with: nothing yet")
		}
	case g.Remote == g.URL:
		say("synced with: %s of %s", visible.Line(name), visible.Line(g.URL))
	default:
		say("synced with: %s of %s, %s", visible.Line(name), visible.Line(g.Remote), visible.Line(g.URL))
	}
	if g.Excluded != "" {
		say("excluded from the code: listed in %s", visible.Line(g.Excluded))
	}
	if g.Found {
		say("agents on the branch: %s", cmp.Or(spelling.Join(g.Agents), "none"))
	}
	switch {
	case g.Remote == "" && !g.asked:
		say("next: %s shares it with other machines", c.inPlace("oacp", "init", "--git"))
	case g.Remote == "":
		say("next: %s adds a remote; until then, oacp sync keeps a history here", c.inPlace("oacp", "init", "--git", "--remote", "NAME-OR-URL"))
	case g.Joined:
		text := spelling.Plural(g.Received, "message") + " received"
		if g.Sent > 0 {
			text += fmt.Sprintf(", %d sent", g.Sent)
		}
		say("joined: %s", text)
	case g.Reachable && !g.Found:
		say("next: oacp sync publishes it")
	}
}
