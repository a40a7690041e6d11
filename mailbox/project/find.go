package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Place says which workspace to use: Dir, else Project, else the one that OACP_WORKSPACE names,
// else the nearest one at or above the working folder. A linked worktree of a git repository uses the
// workspace of the main worktree, if there is one, even if git checked out a copy of it.
type Place struct {
	// Dir is the workspace itself.
	Dir string
	// Project is a project's name: the workspace is <Home>/projects/<Project>.
	Project string
	// Home is the user's home: see HomeDir.
	Home string
	// WorkingDir is where the search upward starts.
	WorkingDir string
	// Getenv reads the environment; nil means os.Getenv.
	Getenv func(string) string
}

func (p Place) getenv(name string) string {
	if p.Getenv == nil {
		return os.Getenv(name)
	}
	return p.Getenv(name)
}

// UnknownProjectError says that a home does not have a project.
type UnknownProjectError struct {
	Project string
	Home    string
	// Known are the projects of the home, the most similar names first.
	Known []string
}

func (e *UnknownProjectError) Error() string {
	known := "it has none"
	if len(e.Known) > 0 {
		known = "it has " + strings.Join(e.Known, ", ")
	}
	return fmt.Sprintf("%s has no project %q: %s", e.Home, e.Project, known)
}

func (e *UnknownProjectError) Explain() (code, hint string) {
	return "unknown_project", spelling.DidYouMean(e.Known, e.Project, "oacp init "+e.Project+" creates it; --agent names an agent")
}

// oacpName is the folder for the workspace of a repository, or a link to one, and oacpBranch the usual branch of mailboxes.
const (
	oacpName   = ".oacp"
	oacpBranch = "oacp"
)

// ErrNested says that commands in the folder of a new workspace would find another one.
var ErrNested = failure.New("nested_workspace", "commands there use another workspace",
	"oacp add-agent NAME adds an agent to it; oacp init --dir DIR makes another one, for commands with --dir DIR")

// ErrTwo says that a folder is a workspace and has another one in .oacp, so that mail for one would wait in the other.
var ErrTwo = failure.New("two_workspaces", "there are two workspaces",
	"--dir or OACP_WORKSPACE names the one to use. To have one: oacp sync --dir .oacp, if it is synced; move .oacp away; oacp init --git --move")

// IsNamed reports whether the place names a workspace, so that none is searched for.
func (p Place) IsNamed() bool {
	return p.Dir != "" || p.Project != "" || p.getenv("OACP_WORKSPACE") != ""
}

// Find returns the folder of the workspace. If there is none, it returns an error matching
// mailbox.ErrNoWorkspace, or an *UnknownProjectError; if there are two, the error matches ErrTwo.
func (p Place) Find() (string, error) {
	switch {
	case p.Dir != "":
		return ExpandHome(p.Dir)
	case p.Project != "":
		return p.findProject()
	}
	if dir := p.getenv("OACP_WORKSPACE"); dir != "" {
		return ExpandHome(dir)
	}
	if dir, err := findUpward(p.WorkingDir); dir != "" || err != nil {
		return dir, err
	}
	err := fmt.Errorf("%w at or above %s", mailbox.ErrNoWorkspace, p.WorkingDir)
	if where, remedy := whereElse(p.WorkingDir); where != "" {
		return "", failure.Wrap("no_workspace", fmt.Errorf("%w; %s", err, where), remedy)
	}
	return "", err
}

// whereElse says where a repository without a workspace has mailboxes, as far as it knows without asking its remotes.
func whereElse(dir string) (where, remedy string) {
	top, err := git.Top(dir)
	if err != nil || top == "" {
		return "", ""
	}
	main := git.MainFolder(top)
	if Moving(main, filepath.Join(main, oacpName)) {
		return "that of " + main + " has moved in part", "oacp init finishes the move"
	}
	for _, branch := range []string{oacpBranch + "-3", oacpBranch} { // earlier versions use the second one
		if remote := git.RemoteWith(top, branch); remote != "" {
			return remote + " has a branch " + branch, "oacp init --git joins its mailboxes"
		}
	}
	if found := Tracked(context.Background(), top); found != "" {
		return "git has the files of one in " + found, visible.ShellCommand("oacp", "inbox", "--dir", found) + " uses it, as other commands do; OACP_WORKSPACE names it for all"
	}
	return "", ""
}

// Tracked returns the folder, below the top of a repository, of a workspace whose files git has under version control. It is
// empty if there is none, or if git cannot tell.
func Tracked(ctx context.Context, top string) string {
	files, _ := (&git.Repository{Dir: top}).Run(ctx, "ls-files", "-z", "--", ":(glob)*/**/"+schema.MarkerName)
	for file := range git.Records(files) {
		if dir := filepath.Join(top, filepath.Dir(filepath.FromSlash(file))); isWorkspace(dir) {
			return dir
		}
	}
	return ""
}

// ProjectDir returns the folder of the project's workspace, which need not exist.
func (p Place) ProjectDir() (string, error) {
	if err := checkProjectName(p.Project); err != nil {
		return "", err
	}
	home, err := p.HomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, "projects", p.Project), nil
}

func checkProjectName(name string) error {
	switch {
	case name == "":
		return errors.New("a project name is missing")
	case strings.HasPrefix(name, "."), strings.HasPrefix(name, "-"):
		return fmt.Errorf("project name %q starts with %q", name, name[:1])
	case strings.ContainsAny(name, "/\\\x00"):
		return fmt.Errorf("project name %q contains a path separator", name)
	case strings.TrimSpace(name) != name, strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("project name %q starts or ends with a space, or contains a control character", name)
	}
	return nil
}

// HomeDir returns the user's home, which holds the projects, the keys and what the user allows: Home, else OACP_HOME, else
// ~/oacp. It need not exist. Where a workspace lies, or what it holds, does not matter: a clone could bring a home of its own.
func (p Place) HomeDir() (string, error) {
	home, err := ExpandHome(cmp.Or(p.Home, p.getenv("OACP_HOME"), "~/oacp"))
	switch {
	case err != nil:
		return "", failure.WithHint(fmt.Errorf("keys, and what the user allows, are in the user's folder: %w", err), "set HOME, or OACP_HOME to an absolute path")
	case p.Home == "" && !filepath.IsAbs(home):
		return "", fmt.Errorf("OACP_HOME is %q: make the path absolute, or each folder could bring a home of its own", home)
	}
	return filepath.Abs(home)
}

// ExpandHome replaces a ~ at the beginning of a path with the user's home folder. A shell does
// not do that in --dir=~/x or in a file.
func ExpandHome(path string) (string, error) {
	rest, found := strings.CutPrefix(path, "~")
	switch {
	case !found:
		return path, nil
	case rest != "" && !os.IsPathSeparator(rest[0]):
		return "", fmt.Errorf("path %s: only ~ alone is a home folder; write ./%s for a folder with that name", path, path)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("path %s: %w", path, err)
	}
	return filepath.Join(home, rest), nil
}

func inProjects(dir string) bool { return filepath.Base(filepath.Dir(dir)) == "projects" }

func (p Place) findProject() (string, error) {
	dir, err := p.ProjectDir()
	if err != nil {
		return "", err
	}
	if Exists(dir) {
		return dir, nil
	}
	known, err := p.Projects()
	if err != nil {
		return "", err
	}
	spelling.SortByDistance(known, p.Project)
	return "", &UnknownProjectError{Project: p.Project, Home: filepath.Dir(filepath.Dir(dir)), Known: known}
}

// Projects returns the names of the projects in the home that have a workspace, sorted.
func (p Place) Projects() ([]string, error) {
	home, err := p.HomeDir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(home, "projects"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listing projects: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if Exists(filepath.Join(home, "projects", entry.Name())) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Exists reports whether the folder of a project or workspace has one, with or without agents.
func Exists(dir string) bool {
	return isFolder(filepath.Join(dir, schema.AgentsName)) || isWorkspace(dir)
}

// findUpward looks for a workspace at or above a folder, and returns an empty path if there is none. In a linked worktree
// of a git repository, it first looks in the main worktree.
func findUpward(dir string) (found string, err error) {
	if top, err := git.Top(dir); err == nil && top != "" {
		if main := git.MainFolder(top); main != top {
			if found, err := findBetween(filepath.Join(main, strings.TrimPrefix(dir, top)), main); found != "" || err != nil {
				return found, err
			}
		}
	}
	return findBetween(dir, "")
}

// findBetween looks for a workspace in a folder and those above it, up to the last one.
func findBetween(dir, last string) (found string, err error) {
	for {
		if found, err := workspaceIn(dir); found != "" || err != nil {
			return found, err
		}
		parent := filepath.Dir(dir)
		if dir == last || parent == dir {
			return "", nil
		}
		dir = parent
	}
}

// workspaceIn returns the workspace of a folder: a folder .oacp in it, or what a link .oacp to a
// workspace.json leads to, or the folder itself.
func workspaceIn(dir string) (found string, err error) {
	if isWorkspace(dir) {
		found = dir
	}
	marked, err := OwnFolder(dir)
	if notFile := cmp.Or(checkMarker(dir), checkMarker(marked)); notFile != nil {
		return "", notFile
	}
	switch {
	case err != nil || !isMarker(marked): // its mailboxes may be missing, and other programs have no folder of this name
		return found, nil
	case found != "" && !SameFolder(found, marked):
		return "", fmt.Errorf("%w: %s and %s", ErrTwo, found, marked)
	}
	return marked, nil
}

// OwnFolder returns the folder .oacp of a folder, or the folder that a link .oacp leads to: a workspace, or its workspace.json.
// The error matches fs.ErrNotExist if there is neither.
func OwnFolder(dir string) (string, error) {
	path := filepath.Join(dir, oacpName)
	if _, err := os.Lstat(path); err != nil {
		return path, err
	}
	found, err := filepath.EvalSymlinks(path)
	if err == nil && filepath.Base(found) == schema.MarkerName {
		found = filepath.Dir(found)
	}
	if err != nil || !isFolder(found) {
		return "", fmt.Errorf("%s is not a folder", path)
	}
	return found, nil
}

// isWorkspace reports whether a folder is a workspace. Other programs also have files named workspace.json, so
// the folder must have a folder agents, unless it is a project.
func isWorkspace(dir string) bool {
	return isMarker(dir) && (inProjects(dir) || isFolder(filepath.Join(dir, schema.AgentsName)))
}

// checkMarker returns an error for a folder with mailboxes whose workspace.json is no file.
func checkMarker(dir string) error {
	path := filepath.Join(dir, schema.MarkerName)
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() || !isFolder(filepath.Join(dir, schema.AgentsName)) {
		return nil
	}
	return fmt.Errorf("%s: %w", path, durable.ErrNotRegular)
}

// isMarker reports whether a folder has a file workspace.json.
func isMarker(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, schema.MarkerName))
	return err == nil && info.Mode().IsRegular()
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Around returns the folder of the workspace that commands in a folder find without a flag or variable. The error matches
// mailbox.ErrNoWorkspace if there is none.
func Around(dir string) (string, error) {
	return Place{WorkingDir: dir, Getenv: func(string) string { return "" }}.Find()
}

// Enclosing returns the top of the user's repository for a workspace: that around the workspace, or else, if the
// workspace is that of the working folder, that around the working folder. It is empty if there is none.
func Enclosing(workingDir, dir string) (string, error) {
	top, err := git.Top(filepath.Dir(dir))
	if err != nil || top != "" {
		return top, err
	}
	if found, err := Around(workingDir); err == nil && found == dir {
		if top, err = git.Top(workingDir); err != nil || top == "" || top == dir {
			return "", err
		}
		return git.MainFolder(top), nil
	}
	return "", nil
}
