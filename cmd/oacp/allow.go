package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/settings"
)

// An allowCall is a call of allow.
type allowCall struct {
	*call
	list, revoke bool
}

func newAllowCommand(s *command.Streams) *cli.Command {
	c := &allowCall{call: newCall(s)}
	return &cli.Command{
		Name:      "allow",
		Category:  command.CategoryWorkspace,
		Usage:     "let settings of a workspace count",
		ArgsUsage: "[PROJECT]",
		Description: `Others write the files of a workspace. So what workspace.json and agents/AGENT/config.yaml
say about programs, arguments, environments and permissions counts only if you allow it:
allow shows these settings and asks, for each file. It remembers your answer in
$OACP_HOME/allowed (by default ~/oacp/allowed), for this workspace in this folder; if the
settings change, it asks again. It needs a terminal, and no agent can run it. Flags, and
your own $OACP_HOME/config.yaml, need no allowing.

EXAMPLES:
   oacp allow
   oacp allow --list
   oacp allow --revoke`,
		Flags: c.flagsWith(
			&cli.BoolFlag{Name: "list", Usage: "list what is allowed, and what is not", Destination: &c.list},
			&cli.BoolFlag{Name: "revoke", Usage: "allow nothing of the workspace any more", Destination: &c.revoke},
		),
		Action: c.ofProject(c.run),
	}
}

func (c *allowCall) run() error {
	switch {
	case c.list && c.revoke:
		return failure.Usagef("--list and --revoke do not go together")
	case c.list:
		return c.listAllowed()
	case c.revoke:
		return c.revokeAllowed()
	}
	return c.with(nil, c.ask)
}

// checkAlone returns an error unless a person at a terminal runs the command: --as-person is not enough. An agent that clears its
// environment is stopped only by a sandbox in which it cannot write to the user's own folder.
func (c *allowCall) checkAlone() error {
	switch {
	case c.InAgent():
		return &failure.Error{Code: "in_session", Err: errors.New("an agent cannot allow settings: only its user can"), Hint: "run oacp allow in a terminal of your own"}
	case !c.InTerminal:
		return &failure.Error{Code: "no_terminal", Err: errors.New("a person at a terminal decides"), Hint: "oacp allow --list shows the settings that are not allowed yet; flags and $OACP_HOME/config.yaml need no allowing"}
	}
	return nil
}

func (c *allowCall) ask(w *mailbox.Workspace) error {
	if err := c.checkAlone(); err != nil {
		return err
	}
	waiting, allowed, err := settings.Waiting(w)
	if err != nil && len(waiting) == 0 {
		return err
	}
	if err != nil {
		c.Warn(failure.OneLine(err.Error()))
	}
	in, done, left := bufio.NewReader(c.In), []string{}, []string{}
	var refused error
	for _, f := range waiting {
		if err := f.CheckPrograms(w); err != nil {
			refused, left = errors.Join(refused, err), append(left, f.Path)
			continue
		}
		c.Tell("%s in %s\n%sAllow this? [y/N] ", visible.Line(f.Path), visible.Line(w.Dir()), settingLines(f.Refused))
		line, err := in.ReadString('\n')
		if answer := strings.ToLower(strings.TrimSpace(line)); err != nil || answer != "y" && answer != "yes" {
			left = append(left, f.Path)
			continue
		}
		if err := settings.Allow(w, f, c.Now()); err != nil {
			return err
		}
		done = append(done, f.Path)
	}
	err = c.answer(map[string][]string{"allowed": done, "not_allowed": left}, func() {
		for _, path := range done {
			c.Printf("OK: allowed %s\n", visible.Line(path))
		}
		for _, path := range left {
			c.Printf("Not allowed: %s\n", visible.Line(path))
		}
		if len(waiting) == 0 {
			c.Printf("There is nothing to allow: %s allowed\n", spelling.Plural(len(allowed), "file"))
		}
	})
	if err == nil && len(left) > 0 && refused == nil {
		err = failure.ErrReported
	}
	return cmp.Or(err, refused)
}

// An allowance is a file with settings that count only if they are allowed. State is allowed, changed or waiting.
type allowance struct {
	settings.Record
	State    string             `json:"state"`
	Settings []settings.Setting `json:"settings,omitempty"`
}

// listAllowed lists the files that are allowed in any workspace, and those of this workspace that are not allowed yet.
func (c *allowCall) listAllowed() error {
	home, err := c.place.Place(c.Streams).HomeDir()
	if err != nil {
		return err
	}
	records, err := settings.Allowed(home)
	if err != nil {
		return err
	}
	list := make([]allowance, len(records))
	for i, r := range records {
		list[i] = allowance{Record: r, State: "allowed"}
	}
	err = c.with(nil, func(w *mailbox.Workspace) error {
		dir, linkErr := filepath.EvalSymlinks(w.Dir())
		waiting, allowed, err := settings.Waiting(w)
		for n, f := range append(waiting, allowed...) {
			i := slices.IndexFunc(list, func(a allowance) bool { return a.Workspace == dir && a.File == f.Path })
			if i < 0 {
				i, list = len(list), append(list, allowance{Record: settings.Record{Workspace: dir, File: f.Path}, State: "waiting"})
			} else if n < len(waiting) {
				list[i].State = "changed"
			}
			list[i].Settings = f.Refused
		}
		if err != nil { // the files that cannot be read allow nothing
			c.Warn(failure.OneLine(err.Error()))
		}
		return linkErr
	})
	if err != nil && !errors.Is(err, mailbox.ErrNoWorkspace) {
		return err
	}
	return c.answer(list, func() {
		if len(list) == 0 {
			c.Printf("No settings are allowed, and none wait.\n")
		}
		for _, a := range list {
			c.Printf("%-8s %s in %s\n%s", a.State, visible.Line(a.File), visible.Line(a.Workspace), settingLines(a.Settings))
		}
	})
}

// settingLines describes settings, one on each line.
func settingLines(all []settings.Setting) (lines string) {
	for _, s := range all {
		lines += fmt.Sprintf("  %-11s  %s: %s\n", s.Kind, s.Name, unmistakable(s.Value))
	}
	return lines
}

// unmistakable returns a text on one line, with all but ASCII and letters written out: joiners, selectors and fillers are
// harmless in a message, but hide in the name of a program.
func unmistakable(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf || unicode.IsLetter(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) {
			out.WriteRune(r)
		} else {
			out.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return visible.Line(out.String())
}

func (c *allowCall) revokeAllowed() error {
	dir, err := c.place.Place(c.Streams).Find()
	home, homeErr := c.place.Place(c.Streams).HomeDir()
	if err := cmp.Or(err, homeErr); err != nil {
		return err
	}
	gone, err := settings.Revoke(home, dir)
	if err != nil {
		return err
	}
	return c.answer(append([]settings.Record{}, gone...), func() {
		for _, r := range gone {
			c.Printf("OK: no longer allowed: %s in %s\n", visible.Line(r.File), visible.Line(r.Workspace))
		}
		if len(gone) == 0 {
			c.Printf("Nothing was allowed in %s\n", visible.Line(dir))
		}
	})
}
