// Package setup adds oacp to the settings of claude and codex, and removes it again.
//
// It writes the hooks that call oacp hook, the MCP server oacp mcp with the permission to use it, and a section of
// instructions, and makes git ignore the files that have nothing else. Other settings in the files keep their meaning and
// order. Prepare and PrepareRemoval read and check all files before Apply writes them, so that an invalid file stops the
// setup before anything changes.
package setup

import (
	"fmt"
	"slices"

	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A Scope says which sessions a setup is for.
type Scope string

// The scopes: the sessions in one project, or all sessions of the user.
const (
	Project Scope = "project"
	User    Scope = "user"
)

// Options say what to set up.
type Options struct {
	Program live.Program
	Scope   Scope
	// Agent is the agent that the program acts for.
	Agent schema.AgentName
	// Sync is the value of --sync of the hooks: a time, true for the usual one, or empty.
	Sync string
	// Command names this program in hooks: see Command.
	Command string
	// Dir is the folder of the project: see ProjectDir.
	Dir string
	// Workspace is the workspace of the project. It is nil in the scope User.
	Workspace *mailbox.Workspace
	// Commit lets git see the files that the setup makes in a repository, which it otherwise ignores.
	Commit bool
	// Getenv reads the environment.
	Getenv func(string) string
}

// A Plan is what a setup or its removal does.
type Plan struct{ Changes []Change }

// IsEmpty reports whether the plan changes nothing.
func (p *Plan) IsEmpty() bool {
	return !slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Action != Unchanged })
}

// Prepare returns the changes that add oacp to the settings.
func Prepare(o Options) (*Plan, error) { return o.plan(false) }

// PrepareRemoval returns the changes that remove oacp from the settings.
func PrepareRemoval(o Options) (*Plan, error) { return o.plan(true) }

func (o Options) plan(removes bool) (*Plan, error) {
	config, err := o.configDir()
	if err != nil {
		return nil, err
	}
	instructions, change := o.instructions(config)[:1], part.put
	if removes {
		instructions, change = o.instructions(config), part.take
	}
	plan := &Plan{}
	for _, f := range slices.Concat(o.files(config), instructions, o.exclude(plan)) {
		c := Change{Path: f.path, file: f}
		if err := c.prepare(o, change); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		if !slices.ContainsFunc(plan.Changes, func(other Change) bool { return other.real == c.real }) { // not through a link once more
			plan.Changes = append(plan.Changes, c)
		}
	}
	return plan, nil
}

// Apply changes the files, and stops at the first error. Then a new plan has the remaining changes.
func (p *Plan) Apply() error {
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Action != Unchanged {
			if err := c.apply(); err != nil {
				return err
			}
		}
	}
	return nil
}
