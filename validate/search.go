package validate

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/schema"
)

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
	above := filepath.Dir(whole)
	name, parent, second := filepath.Base(whole), filepath.Base(above), filepath.Base(filepath.Dir(above))
	isAgent := has("inbox") || has("outbox")
	switch {
	case second == "agents" && parent == "agents" && !isAgent && slices.Contains(mailboxFolders, name):
		return mailboxFolder // of an agent called agents
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

// A search looks for messages below a folder that was named.
type search struct {
	*walker
	base string
	root *os.Root
}

// within opens a folder that was named, for the time of the call.
func (w *walker) within(base string, do func(*search)) {
	root, err := openFolder(base)
	if err != nil {
		w.refuse(base, err)
		return
	}
	defer root.Close() // opened for reading: closing cannot lose anything
	do(&search{walker: w, base: base, root: root})
}

// name returns the path of what is below the base.
func (s *search) name(below string) string { return filepath.Join(s.base, below) }

// file adds the file name, found at below and of the given type.
func (s *search) file(name, below string, of fs.FileMode) {
	if of.Type()&^fs.ModeSymlink != 0 {
		s.fail(name, notRegular, "")
		return
	}
	s.walker.file(target{name: name, base: s.base, below: below})
}

// match adds what matches a pattern.
func (s *search) match(below string) {
	name := s.name(below)
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		s.refuse(name, err)
	case info.IsDir(), isFolder(name, info.Mode()):
		s.folder(below, otherFolder)
	default:
		s.file(name, below, info.Mode())
	}
}

// folder adds the messages in a folder. Of a workspace these are the files
// in the mailboxes, and of any other folder all files with the name of a
// message, to the bottom. Hidden entries and links to folders are left out.
func (s *search) folder(below string, known role) {
	entries, err := s.entries(below)
	if err != nil {
		s.refuse(s.name(below), err)
		return
	}
	if known == otherFolder {
		known = roleOf(s.name(below), func(name string) bool {
			return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.IsDir() && e.Name() == name })
		})
	}
	holdsFiles := known != workspaceFolder && known != agentFolder
	// Joining clean paths needs no filepath.Join, which a large folder would spend most of its time in.
	prefix, prefixBelow := joinPrefix(s.name(below)), joinPrefix(below)
	s.targets = slices.Grow(s.targets, len(entries))
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case strings.HasPrefix(name, "."):
		case entry.IsDir():
			if inner, ok := known.below(name); ok {
				s.folder(prefixBelow+name, inner)
			}
		case holdsFiles && schema.IsMessageFile(name) && !slices.Contains(otherFiles, name) && !isFolder(prefix+name, entry.Type()):
			s.file(prefix+name, prefixBelow+name, entry.Type())
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

// entries lists a folder by name, unless a link leads out of the base to it. A
// folder opened below a root would look at each entry, so it is listed by its
// path; what is found is opened below the root again before it is read.
func (s *search) entries(below string) ([]fs.DirEntry, error) {
	inside, err := openInside(s.root, below)
	if err == nil {
		err = inside.Close()
	}
	if err != nil {
		return nil, err
	}
	return os.ReadDir(s.name(below))
}

// isFolder reports whether an entry that is no folder is a link to one.
func isFolder(path string, entry fs.FileMode) bool {
	if entry&fs.ModeSymlink == 0 {
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
