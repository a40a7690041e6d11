package project

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A project of the reference implementation has folders and files that messages do not need: the
// shared memory of its agents, packets, checkpoints and artifacts, and for each agent the rules by
// which it accepts work. Init makes them for projects below a home, where that implementation's
// tools look for them, and leaves them out of a workspace in any other folder.

// Git has to keep the folders in projectFolders while they are empty, and not those in plainFolders.
var (
	projectFolders = []string{"packets/review", "packets/findings", "packets/test", "packets/deploy", "checkpoints", "merges", "artifacts"}
	plainFolders   = []string{"memory", "memory/archive", "state", "logs"}
)

// HasProjectFolders reports whether the workspace has the folders of a project of the reference
// implementation.
func HasProjectFolders(w *mailbox.Workspace) bool {
	info, err := w.Root().Stat(projectFolders[0])
	return err == nil && info.IsDir()
}

// DecisionsName returns the folder, below the workspace, in which the reference implementation's
// tools record which messages an agent accepted by itself.
func DecisionsName(agent schema.AgentName) string {
	return schema.AgentPath(agent, "audit/autonomy_decisions")
}

// addProjectFolders makes the missing folders and files of a project, except those of its agents.
func addProjectFolders(w *mailbox.Workspace, now time.Time) (made []string, err error) {
	if made, err = addFolders(w, true, projectFolders...); err != nil {
		return made, err
	}
	plain, err := addFolders(w, false, plainFolders...)
	if made = append(made, plain...); err != nil {
		return made, err
	}
	decisions := fmt.Sprintf(decisionsTemplate, now.Format(time.DateOnly))
	paths, err := addFiles(w, "memory",
		newFile{"project_facts.md", []byte(factsTemplate)}, newFile{"decision_log.md", []byte(decisions)},
		newFile{"open_threads.md", []byte(threadsTemplate)}, newFile{"known_debt.md", []byte(debtTemplate)},
	)
	return append(made, paths...), err
}

// A Link makes a file or folder of the repository known as an artifact of the workspace.
type Link struct {
	// Source is a path below the repository, or an absolute one.
	Source string
	// Name is the path of the link below artifacts.
	Name string
}

// ParseLink reads a link written as SOURCE:NAME.
func ParseLink(text string) (Link, error) {
	source, name, found := strings.Cut(text, ":")
	if !found || source == "" || name == "" {
		return Link{}, fmt.Errorf("%q is not of the form SOURCE:NAME", text)
	}
	link := Link{source, name}
	return link, link.check()
}

func (l Link) check() error {
	if !filepath.IsLocal(l.Name) || path.Clean(filepath.ToSlash(l.Name)) == "." {
		return fmt.Errorf("link %q leads out of artifacts", l.Name)
	}
	return nil
}

// addLinks makes the links in artifacts. It replaces a link that leads elsewhere, but no file and no
// folder. A source that does not exist is a warning.
func addLinks(w *mailbox.Workspace, repository string, links []Link) (made Made, err error) {
	for _, link := range links {
		source := link.Source
		if !filepath.IsAbs(source) {
			source = filepath.Join(repository, source)
		}
		name := path.Join("artifacts", filepath.ToSlash(link.Name))
		target := filepath.Join(w.Dir(), name)
		if _, err := os.Stat(source); err != nil {
			made.Warnings = append(made.Warnings, fmt.Sprintf("no link %s: %s does not exist", name, source))
			continue
		}
		before, err := w.Root().Readlink(name)
		if err == nil && before == source {
			continue
		}
		if err == nil {
			err = w.Root().Remove(name)
		} else if _, missing := w.Root().Lstat(name); missing == nil {
			err = errors.New("a file that is not a link exists")
		} else {
			err = nil
		}
		if err = cmp.Or(err, w.MakeFolder(path.Dir(name))); err == nil {
			err = w.Root().Symlink(source, name)
		}
		if err != nil {
			return made, fmt.Errorf("linking %s to %s: %w", target, source, err)
		}
		made.Paths = append(made.Paths, target)
	}
	return made, nil
}
