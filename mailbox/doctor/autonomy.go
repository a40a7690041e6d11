package doctor

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// autonomy checks an agent's config.yaml, and the folder in which other tools record their decisions.
func (i *inspection) autonomy(agent schema.AgentName) {
	i.category = categoryAutonomy
	decisions := project.DecisionsName(agent)
	_, err := i.names(decisions)
	name := strings.TrimPrefix(decisions, schema.AgentsName+"/")
	switch {
	case err == nil:
		i.add(name, SeverityOK, "", "is present")
	case !errors.Is(err, fs.ErrNotExist):
		i.fail(name, err)
	case i.ProjectFolders:
		f := i.add(name, SeverityWarning, "oacp doctor --fix makes it", "is missing")
		f.Mend = mend("made "+decisions, func() error { return i.w.MakeFolder(decisions) })
	}
	i.config(agent)
}

// config checks what oacp reads of an agent's config.yaml. The rest of its section autonomy is for other tools.
func (i *inspection) config(agent schema.AgentName) {
	name := string(agent) + "/" + project.ConfigName
	_, readErr := i.read(project.ConfigPath(agent))
	gives := "oacp run gives turns"
	switch mode, err := i.Autonomy(i.w, agent); {
	case err != nil && i.badMarker:
		gives = "oacp run does not start, see workspace.json"
	case err != nil:
		i.add(name, SeverityError, "oacp run does not start until that is mended", "%v", err)
		return
	case mode.Holds():
		gives = "oacp run holds all messages for a person"
	}
	switch {
	case errors.Is(readErr, fs.ErrNotExist):
		i.add(name, SeverityOK, "", "is absent: %s, and other tools wait for a person", gives)
	case readErr != nil:
		i.fail(name, readErr)
	default:
		i.add(name, SeverityOK, "", "is valid: %s", gives)
	}
}
