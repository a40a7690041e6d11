package setup

import (
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/schema"
)

// pluginID names the plugin and its marketplace in settings.
const pluginID = "oacp@oacp"

// scopes returns the options for each scope whose settings sessions in a folder read.
func (o Options) scopes(workingDir string) []Options {
	project, user, err := o, o, error(nil)
	project.Scope, user.Scope = Project, User
	if project.Dir, err = ProjectDir(o.Program, workingDir); err != nil {
		return []Options{user}
	}
	user.Dir = project.Dir
	return []Options{project, user}
}

// IsSetUp reports whether oacp setup wrote hooks that sessions in a folder run: the plugin leaves these sessions to it.
// Settings that cannot be read have none. IsSetUp ignores the scope and folder of the options.
func (o Options) IsSetUp(workingDir string) bool {
	return slices.ContainsFunc(o.scopes(workingDir), func(o Options) bool {
		config, err := o.configDir()
		if err != nil {
			return false
		}
		data, err := readFile(o.files(config)[0].path)
		found, findErr := hooks{program: o.Program}.find(data)
		return err == nil && findErr == nil && len(found) > 0
	})
}

// Plugin returns the settings file that enables the plugin, or an empty string.
func (o Options) Plugin() (enabling string) {
	config, err := o.configDir()
	if err != nil {
		return ""
	}
	paths, decode := o.claudeSettings(config), json.Unmarshal
	if o.Program == live.Codex {
		paths, decode = []string{filepath.Join(config, "config.toml")}, toml.Unmarshal
	}
	for _, path := range paths {
		var settings struct {
			Claude map[string]bool                   `json:"enabledPlugins" toml:"-"`
			Codex  map[string]struct{ Enabled bool } `json:"-" toml:"plugins"`
		}
		data, _ := readFile(path)
		_ = decode(data, &settings) // the program reports a file that is not valid
		if on, known := settings.Claude[pluginID]; on || settings.Codex[pluginID].Enabled {
			enabling = path
		} else if known {
			enabling = ""
		}
	}
	return enabling
}

// pluginFindings reports the plugin if it is enabled, and what prevents it from bringing mail unless oacp setup does.
func (o Options) pluginFindings(isSetUp bool) []doctor.Finding {
	f := doctor.Finding{Category: category, Name: string(o.Program) + " (plugin)", Severity: doctor.SeverityOK, Message: "is enabled in " + o.Plugin()}
	switch {
	case o.Plugin() == "":
		return nil
	case isSetUp:
		f.Message += ", and leaves the sessions to oacp setup"
		return []doctor.Finding{f}
	}
	all, problems := []doctor.Finding{f}, o.Obstacles()
	if o.Workspace != nil {
		if agent, known := live.AgentOf(o.Workspace, o.Getenv, schema.AgentName(o.Program)); !known {
			problems = append(problems, "the workspace has no agent "+string(agent)+", and OACP_AGENT names no other")
		}
	}
	for _, f.Message = range problems {
		f.Severity = doctor.SeverityWarning
		all = append(all, f)
	}
	return all
}
