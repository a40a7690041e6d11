package doctor

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// maxFileSize bounds the size of the files that are read, in bytes.
const maxFileSize = 1 << 20

// read returns the bytes of a file below the workspace.
func (i *inspection) read(name string) ([]byte, error) {
	return durable.ReadFile(i.w.Root(), i.w.Dir(), name, maxFileSize)
}

// names returns the names of the entries of a folder below the workspace, sorted.
func (i *inspection) names(folder string) ([]string, error) {
	names, err := durable.ListFolder(i.w.Root(), i.w.Dir(), folder)
	slices.Sort(names)
	return names, err
}

// schemas checks that the status files can be read. What they say is for other tools. Messages are checked with
// the inbox.
func (i *inspection) schemas() {
	i.category = categorySchemas
	for _, agent := range i.agents {
		name := string(agent) + "/" + project.StatusName
		switch _, err := project.ReadStatus(i.w, agent); {
		case err == nil:
			i.add(name, SeverityOK, "", "is valid")
		case !errors.Is(err, fs.ErrNotExist):
			i.fail(name, err)
		}
	}
}

// status checks that an agent of a project has a status file. Only tools for projects use it.
func (i *inspection) status(agent schema.AgentName) {
	i.category = categoryStatus
	name, file := string(agent)+"/"+project.StatusName, schema.AgentPath(agent, project.StatusName)
	if _, err := i.w.Root().Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		i.add(name, SeverityOK, "", "is present")
		return
	}
	if i.ProjectFolders {
		f := i.add(name, SeverityWarning, "oacp doctor --fix makes it", "not found")
		f.Mend = mend("made "+file, func() error { return project.AddStatus(i.w, agent, i.Now) })
	}
}
