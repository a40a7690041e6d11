package validate

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/schema"
)

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

// roleOf guesses the role of a folder from its path and its content.
func roleOf(folder string, has func(name string) bool) role {
	whole, err := filepath.Abs(folder)
	if err != nil {
		whole = folder
	}
	above := filepath.Dir(whole)
	name, parent, second := filepath.Base(whole), filepath.Base(above), filepath.Base(filepath.Dir(above))
	isAgent := has(string(schema.Inbox)) || has(string(schema.Outbox))
	switch {
	case second == schema.AgentsName && parent == schema.AgentsName && !isAgent && schema.IsBox(name):
		return mailboxFolder // of an agent called agents
	case name == schema.AgentsName && !(parent == schema.AgentsName && isAgent):
		return agentsFolder
	case has(schema.AgentsName):
		return workspaceFolder
	case isAgent, parent == schema.AgentsName:
		return agentFolder
	}
	return otherFolder
}

// below returns the role of a folder of that name inside a folder of role r. Inside a workspace the
// role is known, not guessed, because an agent may have the name of any of these folders. It
// returns false for a folder that does not hold messages.
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

// within opens a folder that was named for the duration of the call.
func (w *walker) within(base string, do func(*search)) {
	root, err := openFolder(base)
	if err != nil {
		w.fail(base, refused(err))
		return
	}
	defer root.Close() // opened for reading: closing cannot lose anything
	do(&search{walker: w, base: base, root: root})
}

// name returns the path of an entry below the base.
func (s *search) name(below string) string { return filepath.Join(s.base, below) }

// file adds a file of the given type, found in the folder.
func (s *search) file(name string, in *folder, of fs.FileMode) {
	if of.Type()&^fs.ModeSymlink != 0 {
		s.fail(name, unreadable(notRegular, ""))
		return
	}
	s.walker.file(target{name: name, in: in})
}

// folder adds the messages in a folder: in a workspace the files in the mailboxes, in any other
// folder all files in and below it whose names are those of messages. It skips hidden entries and
// links to folders.
func (s *search) folder(below string, known role) {
	entries, err := s.entries(below)
	if err != nil {
		s.fail(s.name(below), refused(err))
		return
	}
	if known == otherFolder {
		known = roleOf(s.name(below), func(name string) bool {
			return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.IsDir() && e.Name() == name })
		})
	}
	holdsFiles := known != workspaceFolder && known != agentFolder
	// Joining clean paths needs no filepath.Join, which a large folder would spend most of its time
	// in.
	prefix := joinPrefix(s.name(below))
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
		case !holdsFiles, !schema.IsMessageFile(name), slices.Contains(otherFiles, name), isFolder(prefix+name, entry.Type()):
		default:
			s.file(prefix+name, in, entry.Type())
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

// entries lists a folder in the order of names. It returns an error if a link on the way leads out
// of the base. It lists the folder by its path, because a folder opened through a root would stat
// each entry; files are opened through the root again before they are read.
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

// isFolder reports whether an entry is a link to a folder.
func isFolder(path string, entry fs.FileMode) bool {
	if entry&fs.ModeSymlink == 0 {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
