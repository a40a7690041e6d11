package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// An initPlace says where init makes a workspace.
type initPlace struct {
	dir string
	// isRepository says that the workspace gets a git repository of its own, or keeps it.
	isRepository bool
	// from is the folder of a workspace that moves to dir, or empty.
	from string
}

// findPlace returns the place that the flags name, or else the folder .oacp of the repository around the working folder,
// or else that folder. A new workspace inside a repository gets one of its own, unless it is to be committed with the code.
func (c *initCall) findPlace() (p initPlace, err error) {
	top, err := git.Top(c.Dir)
	if err != nil {
		return p, err
	}
	switch {
	case c.place.Dir != "":
		p.dir, err = c.place.Place(c.Streams).Find()
	case c.place.Project != "":
		p.dir, err = c.place.Place(c.Streams).ProjectDir()
	case top == "" && (c.git || c.commit):
		err = &failure.Error{Code: "no_repository", Err: fmt.Errorf("%s is in no git repository", c.Dir),
			Hint: "git init makes one; --dir DIR or a PROJECT names another place for the workspace"}
	case top == "":
		p.dir = c.Dir
	default:
		if p.dir = top; !c.commit {
			p, err = c.placeInRepository(top)
		}
		if err == nil && p.from == "" && !project.Exists(p.dir) {
			if found := project.Tracked(c.ctx, top); found != "" { // a new one at the top would hide it
				err = &failure.Error{Code: "nested_workspace", Err: fmt.Errorf("git has the files of a workspace in %s", found),
					Hint: visible.ShellCommand("oacp", "inbox", "--dir", found) + " uses it, as other commands do; with --dir, such as --dir .oacp, init makes another one"}
			}
		}
	}
	if err == nil {
		p.dir, err = filepath.Abs(p.dir)
	}
	if err != nil {
		return p, err
	}
	around, err := git.Top(p.dir)
	p.isRepository = c.git || around != "" && !c.commit && !project.Exists(p.dir) || p.from != ""
	return p, err
}

// placeInRepository returns the folder .oacp of the repository with the top; in a linked worktree, that of the main one. A
// workspace at the top stays there, but with --git it moves. A move that was interrupted is finished in any case.
func (c *initCall) placeInRepository(top string) (p initPlace, err error) {
	if _, err := os.Stat(filepath.Join(top, schema.StateName, "git")); err == nil && project.Exists(top) {
		p.dir = top // the repository is that of a workspace
		return p, nil
	}
	main := git.MainFolder(top)
	if p.dir, err = project.OwnFolder(main); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, failure.WithHint(err, "move it away; a link may lead to a workspace")
	}
	switch found, err := project.Around(main); {
	case project.Moving(main, p.dir), err == nil && found == main && c.git:
		p.from = main
	case err == nil && found == main:
		p.dir = main
	}
	return p, nil
}

// moveWorkspace moves a workspace after its user agreed, unless an agent works there or git has files of it.
func (c *initCall) moveWorkspace(p initPlace) error {
	others, err := fs.Glob(os.DirFS(p.from), contract.Folder+"/*"+contract.Suffix)
	others = append(others, "trust/catalog.yaml")
	names := append([]string{schema.AgentsName, schema.MarkerName}, others...)
	if err = cmp.Or(err, git.CheckUntracked(c.ctx, p.from, names...)); err != nil {
		return failure.WithHint(err, visible.ShellCommand(append([]string{"git", "-C", p.from, "rm", "-r", "--cached", "--ignore-unmatch"}, names...)...)+
			" takes them out of the next commit, and keeps the files; or stay with oacp commit, which commits mail with the code")
	}
	if !project.Moving(p.from, p.dir) {
		switch {
		case c.move:
		case !c.InTerminal || !c.ErrTerminal:
			return &failure.Error{Code: "needs_move", Err: fmt.Errorf("%s is a workspace, and another one in .oacp would hide its mail", p.from),
				Hint: "oacp init --git --move moves it into .oacp, with its mail and state"}
		default:
			if err := c.confirm(false, fmt.Sprintf("move the workspace %s, with its mail and state, to %s?", p.from, p.dir)); err != nil {
				return err
			}
		}
		if err := (command.Workspace{Dir: p.from}).With(c.Streams, nil, checkIdle); err != nil {
			return err
		}
	}
	home, err := c.place.Place(c.Streams).HomeDir()
	if err != nil {
		return err
	}
	err = project.Move(p.from, p.dir, home, others...)
	if project.Moving(p.from, p.dir) {
		err = fmt.Errorf("%s has moved to %s in part, and no message is lost: %w", p.from, p.dir, err)
		err = failure.WithHint(err, "remove the cause, such as a full disk; then oacp init finishes the move")
	}
	return err
}

// checkIdle returns an error if a runner works an inbox of the workspace.
func checkIdle(w *mailbox.Workspace) error {
	agents, err := w.Agents()
	for _, agent := range agents {
		if running, err := track.IsRunning(w, agent); err != nil || running {
			return cmp.Or(err, failure.WithHint(fmt.Errorf("%s cannot move while oacp run works the inbox of %s", w.Dir(), agent), "stop oacp run, and try again"))
		}
	}
	return err
}
