package validate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/schema"
)

// stdinName stands for standard input: as a path, and in findings.
const (
	stdinPath = "-"
	stdinName = "<stdin>"
)

// A target is a file to validate, or a finding about a path that leads to
// none.
type target struct {
	name    string
	problem *Diagnostic
}

// A walker turns paths into the files they stand for, in a fixed order and
// each once.
type walker struct {
	targets []target
	seen    map[string]bool
}

// walk returns the files that the paths stand for.
func walk(paths []string) []target {
	w := &walker{seen: make(map[string]bool)}
	for _, path := range paths {
		w.path(path)
	}
	return w.targets
}

func (w *walker) file(name string) {
	if clean := filepath.Clean(name); !w.seen[clean] {
		w.seen[clean] = true
		w.targets = append(w.targets, target{name: name})
	}
}

func (w *walker) fail(name, message, fix string) {
	problem := treeProblem(0, 0, nil, RuleFileUnreadable, message, fix)
	w.targets = append(w.targets, target{name: name, problem: &problem})
}

// path adds what an argument stands for: standard input, a folder, a file,
// or where there is neither, the matches of a pattern.
func (w *walker) path(path string) {
	if path == stdinPath {
		w.file(path)
		return
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		w.folder(path, otherFolder)
	case err == nil:
		w.file(path)
	case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path, "*?["):
		w.pattern(path)
	default:
		w.fail(path, reason(err), "")
	}
}

// pattern adds the matches of a pattern, files and folders, as if each had
// been given.
func (w *walker) pattern(pattern string) {
	matches, err := filepath.Glob(pattern)
	switch {
	case err != nil:
		w.fail(pattern, "the pattern is malformed", "close every bracket")
	case len(matches) == 0 && strings.Contains(pattern, "**"):
		w.fail(pattern, "nothing matches the pattern", "give the folder instead of **; folders are searched to the bottom")
	case len(matches) == 0:
		w.fail(pattern, "nothing matches the pattern", "")
	}
	for _, match := range matches {
		w.path(match)
	}
}

// mailboxFolders are the folders of an agent that hold messages.
var mailboxFolders = []string{"inbox", "outbox", "dead_letter", "archive"}

// otherFiles are YAML files in the folder of an agent that are no messages.
var otherFiles = []string{"agent_card.yaml", "config.yaml", "status.yaml", "profile.yaml"}

// A role is what a folder is to a workspace.
type role int

const (
	otherFolder role = iota
	workspaceFolder
	agentsFolder
	agentFolder
	mailboxFolder
)

// roleOf guesses what a folder is from its place and from what is in it.
func roleOf(folder string, has func(name string) bool) role {
	whole := absolute(folder)
	name, parent := filepath.Base(whole), filepath.Base(filepath.Dir(whole))
	isAgent := has("inbox") || has("outbox")
	switch {
	case name == "agents" && !(parent == "agents" && isAgent):
		return agentsFolder
	case has("agents"):
		return workspaceFolder
	case isAgent, parent == "agents":
		return agentFolder
	}
	return otherFolder
}

// below returns what a folder of the name in a folder of the role is. Below a
// workspace that is known and not guessed: agents may be called like any of
// these folders. It returns false for a folder that holds no messages.
func (r role) below(name string) (role, bool) {
	switch r {
	case workspaceFolder:
		return agentsFolder, name == "agents"
	case agentsFolder:
		return agentFolder, true
	case agentFolder, mailboxFolder:
		return mailboxFolder, r == mailboxFolder || slices.Contains(mailboxFolders, name)
	}
	return otherFolder, name != "state"
}

// folder adds the messages in a folder. Of a workspace these are the files
// in the mailboxes, and of any other folder all files with the name of a
// message, to the bottom. Hidden entries and links to folders are left out.
func (w *walker) folder(folder string, known role) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		w.fail(folder, reason(err), "")
		return
	}
	if known == otherFolder {
		known = roleOf(folder, func(name string) bool {
			return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.IsDir() && e.Name() == name })
		})
	}
	holdsFiles := known != workspaceFolder && known != agentFolder
	for _, entry := range entries {
		name := entry.Name()
		path := filepath.Join(folder, name)
		switch {
		case strings.HasPrefix(name, "."):
		case entry.IsDir():
			if inner, ok := known.below(name); ok {
				w.folder(path, inner)
			}
		case holdsFiles && schema.IsMessageFile(name) && !slices.Contains(otherFiles, name) && !isFolder(path, entry):
			w.file(path)
		}
	}
}

// isFolder reports whether an entry that is no folder is a link to one.
func isFolder(path string, entry fs.DirEntry) bool {
	if entry.Type()&fs.ModeSymlink == 0 {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// reason returns what an error of the operating system says besides the
// path, which the finding names itself.
func reason(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such file or folder"
	}
	return fmt.Sprintf("it cannot be read: %v", err)
}
