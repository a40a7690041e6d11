// Package setup adds oacp to the settings of claude and codex, and removes it again.
//
// What it writes are parts: the hooks that call oacp hook, the MCP server oacp mcp with the
// permission to use it, and a section of instructions. What others wrote into the files keeps its
// bytes. Prepare and PrepareRemoval read and check all files, and Apply writes them, so that a file
// that cannot be changed stops everything before anything has changed.
package setup

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A Scope says for which sessions a setup is.
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
	// Workspace is that of the project. It is nil for the user's scope.
	Workspace *mailbox.Workspace
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

// plan prepares the changes of all files.
func (o Options) plan(removes bool) (*Plan, error) {
	config, err := o.configDir()
	if err != nil {
		return nil, err
	}
	instructions, prepare := o.instructions(config)[:1], (*Change).prepareSetup
	if removes {
		instructions, prepare = o.instructionsToRemove(config), (*Change).prepareRemoval
	}
	plan := &Plan{}
	for _, f := range append(o.files(config), instructions...) {
		c := Change{Path: f.path, Action: Unchanged, file: f, removes: removes}
		for _, p := range f.parts {
			c.Parts = append(c.Parts, p.name())
		}
		if err := c.read(o); err != nil {
			return nil, err
		}
		err := prepare(&c)
		if err == nil && c.Action != Unchanged {
			err = c.checkWritable()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		plan.Changes = append(plan.Changes, c)
	}
	return plan, nil
}

// Apply changes the files. If one fails, those before it are changed, and applying a new plan changes
// the others.
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

func (c *Change) prepareSetup() (err error) {
	if c.After, err = each(c.parts, part.put, c.Before); err != nil {
		return err
	}
	c.fresh = !holds(c.parts[0], c.Before)
	switch {
	case c.Before == nil:
		c.Action = Made
	case !bytes.Equal(c.Before, c.After):
		c.Action = Changed
	}
	if c.Before != nil && c.original != nil || c.Action == Changed && c.fresh {
		c.Backup = c.backup
	}
	return nil
}

func (c *Change) prepareRemoval() error {
	original := c.original
	if original != nil && holds(c.parts[0], original) {
		original = nil // another setup in the same file has made it
	}
	// A permission that was there before stays.
	ours := slices.DeleteFunc(slices.Clone(c.parts), func(p part) bool { return original != nil && holds(p, original) })
	rest, err := each(ours, part.take, c.Before)
	if c.After = rest; err != nil || bytes.Equal(rest, c.Before) {
		return err
	}
	if original == nil {
		if c.Action = Changed; len(rest) == 0 {
			c.Action = Removed
		}
		return nil
	}
	if again, err := each(c.parts, part.put, original); err == nil {
		if again, err = each(ours, part.take, again); err == nil && bytes.Equal(again, rest) {
			c.Action, c.After = Restored, original
			return nil
		}
	}
	if c.Action = Changed; len(rest) == 0 {
		c.After = c.empty // the file was there before
	}
	return nil
}
