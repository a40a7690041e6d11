// Package client does what one agent or person does with its mail, under every rule that the commands of oacp follow: who may
// act, one answer to a message, no keys in a text, schemas, signatures, and the end of a chain of turns. A program that
// embeds oacp begins here.
//
// The commands, the MCP server, the web pages and the other fronts parse and print; what happens to a message is decided
// here. Only this package calls mailbox.Workspace.Send and Acknowledge.
//
// Four examples show the way in: an agent that answers each message once, even if it is killed (Open, Next, Request.Answer);
// a CI job that asks for a review and waits for it (Send with a key, track.Await); what an agent owes and is owed
// (track.OwedBy); and a watcher that takes nothing (package watch). Explain gives the code and the hint of an error.
package client

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
)

// A Client acts for one agent in one workspace. Its methods may be called by several goroutines at once.
type Client struct {
	w      *mailbox.Workspace
	agent  schema.AgentName
	caller Caller
	// process is the program that acts for the agent, zero for a person, who may use several fronts at once.
	process process.Process
	owns    bool
}

// A Caller is the process that acts.
type Caller struct {
	// Getenv returns a variable of its environment; nil means os.Getenv.
	Getenv func(string) string
	// Dir is its working folder; empty for that of this process.
	Dir string
	// IsPerson reports whether a person acts: she sits at the terminal or has opened the page, or she let the program act for
	// her.
	IsPerson bool
	// PID is the number of the program that acts, 0 for the one that called this process.
	PID int
}

func (c Caller) getenv(name string) string {
	if c.Getenv == nil {
		return os.Getenv(name)
	}
	return c.Getenv(name)
}

// Options select the workspace and the agent of Open. The zero value selects what a command of oacp without flags uses.
type Options struct {
	// Dir is the workspace. Project names one below the user's home instead.
	Dir, Project string
	// Agent acts; empty for the agent that the environment names.
	Agent schema.AgentName
	// AsPerson lets the program act for a person, who has agreed to that.
	AsPerson bool
}

// Open opens a workspace for an agent. The caller closes the client.
func Open(o Options) (*Client, error) {
	w, err := OpenWorkspace(project.Place{Dir: o.Dir, Project: o.Project, WorkingDir: "."}, nil, o.AsPerson)
	if err != nil {
		return nil, err
	}
	c, err := As(w, o.Agent, Caller{IsPerson: o.AsPerson, PID: os.Getpid()})
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	c.owns = true
	return c, nil
}

// OpenWorkspace opens the workspace of a place. The settings of agents decide which messages it signs and which it holds. The
// keys are in the home of the place. Of the options, it takes NoSync and Screen; nil sets neither. IsPerson is that of the Caller.
// The error may be a *trust.PlaceError.
func OpenWorkspace(place project.Place, options *mailbox.Options, isPerson bool) (*mailbox.Workspace, error) {
	dir, err := place.Find()
	if err != nil {
		return nil, err
	}
	home, err := place.HomeDir()
	if err != nil { // without it, nothing would need a signature
		return nil, err
	}
	from := place.WorkingDir
	if place.IsNamed() {
		from = ""
	}
	if err := trust.CheckPlace(home, dir, from); err != nil {
		return nil, err
	}
	trusting := trust.Options(place.HomeDir)
	caller := Caller{Getenv: place.Getenv, IsPerson: isPerson}
	trusting.Viewer = func(w *mailbox.Workspace) schema.AgentName { return caller.viewer(w) }
	if options != nil {
		trusting.NoSync = options.NoSync
		if options.Screen != nil {
			trusting.Screen = options.Screen
		}
	}
	return mailbox.Open(dir, &trusting)
}

// As returns a client for an agent of an open workspace, which stays the caller's to close. The errors are those of Acting,
// and one with the code person if a program would act for a person.
func As(w *mailbox.Workspace, name schema.AgentName, caller Caller) (*Client, error) {
	agent, err := Acting(w, name, caller)
	if err != nil {
		return nil, err
	}
	return For(w, agent, caller)
}

// Acting returns the agent that acts: the named one or, for an empty name, the one that the environment names. From then on,
// the workspace shows only what that agent may read. The error matches project.ErrNoSender if no agent is named. Its code is
// other_agent if the live session that runs this process belongs to another agent.
func Acting(w *mailbox.Workspace, name schema.AgentName, caller Caller) (schema.AgentName, error) {
	agent, err := Viewer(w, name, caller)
	own, inSession := caller.Session(w)
	switch {
	case inSession && errors.Is(err, project.ErrNoSender):
		return own, nil
	case inSession && agent != own:
		return "", cmp.Or(err, failure.New("other_agent", fmt.Sprintf("this session acts for %s, not for %s", own, agent),
			"its user does that in a terminal"))
	}
	return agent, err
}

// For is As for the agent that is known to act, as in a program that was started for it.
func For(w *mailbox.Workspace, agent schema.AgentName, caller Caller) (*Client, error) {
	c := &Client{w: w, agent: agent, caller: caller}
	if !caller.IsPerson {
		if err := project.CheckProgram(w, agent); err != nil {
			return nil, err
		}
		c.process = process.Read(caller.PID).Process
		if caller.PID == 0 {
			c.process = process.Caller(caller.getenv).Process
		}
	}
	return c, nil
}

// Viewer returns the agent whose mail is shown: the named one or, for an empty name, the one that the environment names.
// From then on, the workspace shows only what that agent may read.
func Viewer(w *mailbox.Workspace, name schema.AgentName, caller Caller) (agent schema.AgentName, err error) {
	if name != "" {
		agent, err = schema.ParseAgentName(string(name))
	} else {
		agent, err = caller.infer(w)
	}
	if err == nil {
		w.ViewAs(agent)
	}
	return agent, err
}

// errUnnamed is returned where the agent must be named.
var errUnnamed = failure.New("no_sender", "settings of agents are signed here, so files of the workspace, which others can write, do not say who acts",
	"use --agent AGENT, or set OACP_AGENT")

// infer returns the agent that the environment names. Others can write the files that say which agent a session or a program is. So
// where settings are signed, only an agent that reads only verified messages is inferred from them.
func (c Caller) infer(w *mailbox.Workspace) (schema.AgentName, error) {
	agent, err := project.AgentFromEnvironment(c.getenv)
	if !errors.Is(err, project.ErrNoSender) {
		return agent, err
	}
	if agent, err = project.InferAgent(w, c.getenv); err != nil {
		return agent, err
	}
	if some, its, signErr := trust.Signed(w, agent); some {
		mode, _ := trust.ModeOf(w, agent)
		if signErr != nil || !its || mode != trust.Enforce {
			return "", cmp.Or(signErr, errUnnamed)
		}
	}
	return agent, nil
}

// viewer returns the agent that looks at a workspace, empty for a person. Where settings are signed, a program that names no agent
// sees what an agent sees that reads only verified messages.
func (c Caller) viewer(w *mailbox.Workspace) schema.AgentName {
	agent, err := c.infer(w)
	if err == nil || c.IsPerson {
		return agent
	}
	agents, _ := w.Agents() // without them, there is nothing to look at
	for _, agent := range agents {
		_, its, _ := trust.Signed(w, agent)
		if mode, _ := trust.ModeOf(w, agent); its && mode == trust.Enforce {
			return agent
		}
	}
	return ""
}

// Session returns the agent of the live session that runs this process, and whether one does. A program may run commands
// without asking its user, so every command counts as one of the session, whatever workspace it names, unless a person
// acts.
func (c Caller) Session(w *mailbox.Workspace) (agent schema.AgentName, inSession bool) {
	if c.IsPerson || c.getenv(orphans.Variable) != "" {
		return "", false
	}
	agent, err := project.SessionAgent(w, c.getenv)
	if err == nil {
		return agent, true
	}
	dir, err := project.Place{WorkingDir: cmp.Or(c.Dir, "."), Getenv: c.Getenv}.Find()
	if err != nil || dir == w.Dir() {
		return "", false
	}
	here, err := mailbox.Open(dir, nil)
	if err != nil {
		return "", false
	}
	agent, err = project.SessionAgent(here, c.getenv)
	return agent, errors.Join(err, here.Close()) == nil
}

// Agent is the agent for which the client acts.
func (c *Client) Agent() schema.AgentName { return c.agent }

// Close closes the workspace if Open opened it.
func (c *Client) Close() error {
	if !c.owns {
		return nil
	}
	return c.w.Close()
}
