package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// maxFileSize bounds the size of the files that are read, in bytes.
const maxFileSize = 1 << 20

// staleStatus is how long the status file of an agent at work may stay as it is.
const staleStatus = time.Hour

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

// schemas checks the status files. Messages are checked with the inbox.
func (i *inspection) schemas() {
	i.category = categorySchemas
	for _, agent := range i.agents {
		name := string(agent) + "/" + project.StatusName
		status, err := project.ReadStatus(i.w, agent)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		problems := statusProblems(status)
		if err != nil {
			problems = []string{err.Error()}
		}
		if len(problems) > 0 {
			i.add(name, SeverityError, "", "%s", strings.Join(problems, "; "))
		} else {
			i.add(name, SeverityOK, "", "is valid")
		}
	}
}

// statusProblems says what a status file lacks.
func statusProblems(s project.Status) (problems []string) {
	for _, field := range []struct {
		name   string
		absent bool
	}{
		{"runtime", s.Runtime == nil}, {"status", s.Status == nil},
		{"capabilities", s.Capabilities == nil}, {"updated_at", s.UpdatedAt == nil},
	} {
		if field.absent {
			problems = append(problems, "missing required field "+field.name)
		}
	}
	oneOf := func(field, value string, values []string) {
		if !slices.Contains(values, value) {
			problems = append(problems, fmt.Sprintf("%s %q is not one of %s", field, value, strings.Join(values, ", ")))
		}
	}
	if s.Runtime != nil {
		oneOf("runtime", *s.Runtime, append(slices.Clone(project.Runtimes), "unknown"))
	}
	if s.Status != nil {
		oneOf("status", *s.Status, []string{"available", "busy", "offline"})
	}
	if s.Capabilities != nil {
		for _, capability := range *s.Capabilities {
			oneOf("capability", capability, project.Capabilities)
		}
	}
	if s.UpdatedAt != nil {
		if _, err := schema.ParseTimestamp(schema.Timestamp(*s.UpdatedAt)); err != nil {
			problems = append(problems, "updated_at: "+err.Error())
		}
	}
	return problems
}

// status checks that an agent says what it does, and has said so lately. Only tools for projects
// keep that file up to date, so nothing else needs one.
func (i *inspection) status(agent schema.AgentName) {
	i.category = categoryStatus
	name, file := string(agent)+"/"+project.StatusName, schema.AgentsName+"/"+string(agent)+"/"+project.StatusName
	status, err := project.ReadStatus(i.w, agent)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if !i.ProjectFolders {
			return
		}
		f := i.add(name, SeverityWarning, "oacp doctor --fix makes it", "not found")
		f.Mend = mend("made "+file, func() error { return project.AddStatus(i.w, agent, i.Now) })
		return
	case err != nil || status.UpdatedAt == nil:
		i.add(name, SeverityOK, "", "is present; see Schemas")
		return
	}
	updated, err := schema.ParseTimestamp(schema.Timestamp(*status.UpdatedAt))
	if i.ProjectFolders && err == nil && i.Now.Sub(updated) > staleStatus {
		f := i.add(name, SeverityWarning, "is the agent running? oacp doctor --fix refreshes the timestamp", "is stale: last updated at %s", *status.UpdatedAt)
		f.Mend = mend("refreshed the timestamp in "+file, func() error { return i.refresh(file) })
		return
	}
	i.add(name, SeverityOK, "", "is present")
}

// refresh writes the current time into a status file, and nothing else.
func (i *inspection) refresh(name string) error {
	data, err := i.read(name)
	if err != nil {
		return err
	}
	line := regexp.MustCompile(`(?m)^updated_at:.*$`)
	if !line.Match(data) {
		return fmt.Errorf("%s has no line that begins with updated_at", filepath.Join(i.w.Dir(), name))
	}
	data = line.ReplaceAll(data, fmt.Appendf(nil, "updated_at: %q", schema.NewTimestamp(i.Now)))
	return durable.ReplaceFile(i.w.Root(), i.w.Dir(), name, data, 0o644)
}
