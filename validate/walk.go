package validate

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// stdinName is the name of standard input in diagnostics.
const stdinName = "<stdin>"

// A target is a file to validate, or the problem of a path that does not lead to one.
type target struct {
	// name is the path that leads to the file from the current folder, or <stdin>.
	name  string
	stdin bool
	// in is the folder in which the file was found. It is nil for a file that was named.
	in      *folder
	problem *Diagnostic
}

// A folder is one in which files were found: the path below a folder that was named.
type folder struct{ base, below string }

// A walker turns paths into the files they stand for, in a fixed order and each once.
type walker struct {
	targets []target
	// seen has the clean path of each target.
	seen map[string]bool
}

// walk returns the files that the paths stand for.
func walk(paths []string) []target {
	w := &walker{seen: make(map[string]bool)}
	for _, path := range paths {
		w.path(path)
	}
	return w.targets
}

func (w *walker) file(t target) {
	clean := filepath.Clean(t.name)
	if !w.seen[clean] {
		w.seen[clean] = true
		w.targets = append(w.targets, t)
	}
}

func (w *walker) fail(name string, problem *Diagnostic) {
	w.targets = append(w.targets, target{name: name, problem: problem})
}

// path adds the files that an argument stands for: standard input, a folder or a file.
func (w *walker) path(path string) {
	if path == "-" {
		w.file(target{name: stdinName, stdin: true})
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		w.fail(path, refused(err))
	case info.IsDir():
		root, err := durable.OpenRoot(path)
		if err != nil {
			w.fail(path, refused(err))
			return
		}
		defer root.Close() // opened for reading
		s := search{w, path, root}
		s.folder(".", roleOf(path))
	case !info.Mode().IsRegular():
		// Opening a device can have side effects.
		w.fail(path, unreadable(notRegular, ""))
	default:
		w.file(target{name: path})
	}
}

// otherFiles are YAML files in the folder of an agent that are not messages.
var otherFiles = []string{"agent_card.yaml", "config.yaml", "status.yaml", "profile.yaml"}

// A role is the part that a folder plays in a workspace.
type role int

const (
	otherFolder role = iota
	workspaceFolder
	agentsFolder
	agentFolder
	mailboxFolder
)

// roleOf returns the role of a folder according to its path, which cannot tell a workspace from other
// folders.
func roleOf(folder string) role {
	if whole, err := filepath.Abs(folder); err == nil {
		folder = whole
	}
	for _, guess := range []struct {
		role role
		file string
	}{
		{mailboxFolder, "/m.yaml"}, {agentFolder, "/inbox/m.yaml"}, {agentsFolder, "/a/inbox/m.yaml"},
	} {
		if _, ok := schema.Locate(filepath.ToSlash(folder) + guess.file); ok {
			return guess.role
		}
	}
	return otherFolder
}

// below returns the role of a folder with the name inside a folder of role r, or false if it does not hold
// messages. The name alone does not tell: an agent may be called inbox or state.
func (r role) below(name string) (role, bool) {
	switch r {
	case workspaceFolder:
		return agentsFolder, name == schema.AgentsName
	case agentsFolder:
		return agentFolder, true
	case agentFolder, mailboxFolder:
		return mailboxFolder, r == mailboxFolder || schema.IsBox(name)
	}
	return otherFolder, name != schema.StateName
}

// A search finds messages below a folder that was named.
type search struct {
	*walker
	base string
	root *os.Root
}

// folder adds the messages in a folder: in a workspace the files in the mailboxes, in any other
// folder all files in and below it whose names are those of messages. It skips hidden entries, and
// follows no links.
func (s *search) folder(below string, known role) {
	path := filepath.Join(s.base, below)
	dir, err := durable.OpenDir(s.root, s.base, below)
	var entries []fs.DirEntry
	if err == nil {
		// Reading the opened folder would stat each entry. This one may have been replaced by a link
		// since, but the reader opens its files through the root.
		entries, err = os.ReadDir(path)
		_ = dir.Close() // opened for reading
	}
	if err != nil {
		s.fail(path, refused(err))
		return
	}
	isAgents := func(e fs.DirEntry) bool { return e.IsDir() && e.Name() == schema.AgentsName }
	if known == otherFolder && slices.ContainsFunc(entries, isAgents) {
		known = workspaceFolder
	}
	holdsFiles := known != workspaceFolder && known != agentFolder
	// The paths are clean, so we need not call filepath.Join, which would take most of the time in a large
	// folder.
	prefix := joinPrefix(path)
	in := &folder{s.base, below}
	s.targets = slices.Grow(s.targets, len(entries))
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case strings.HasPrefix(name, "."):
		case entry.IsDir():
			if inner, ok := known.below(name); ok {
				s.folder(joinPrefix(below)+name, inner)
			}
		case !holdsFiles, !schema.IsMessageFile(name), slices.Contains(otherFiles, name):
		case entry.Type()&fs.ModeSymlink != 0:
			s.fail(prefix+name, unreadable("a link in a folder is not followed", "give the path of the file itself, or replace the link by a copy"))
		case !entry.Type().IsRegular():
			s.fail(prefix+name, unreadable(notRegular, ""))
		default:
			s.file(target{name: prefix + name, in: in})
		}
	}
}

// joinPrefix returns what joins the names in a folder to its clean path.
func joinPrefix(folder string) string {
	switch {
	case folder == ".":
		return ""
	case strings.HasSuffix(folder, string(filepath.Separator)):
		return folder
	}
	return folder + string(filepath.Separator)
}
