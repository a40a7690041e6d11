package setup

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/schema"
)

// pluginID begins the name of the plugin in settings; the name of its marketplace follows.
const pluginID = "oacp@"

// scopes returns the options for each scope whose settings sessions in a folder read.
func (o Options) scopes(workingDir string) []Options {
	dir, err := ProjectDir(o.Program, workingDir)
	project, user := o, o
	project.Scope, user.Scope = Project, User
	if err != nil {
		return []Options{user}
	}
	project.Dir, user.Dir = dir, dir
	return []Options{project, user}
}

// HasHook reports whether oacp setup wrote a hook for an event of sessions in a folder: the plugin's hook leaves the
// event to it. Settings that cannot be read have none. HasHook ignores the scope and folder of the options.
func (o Options) HasHook(event, workingDir string) bool {
	return slices.ContainsFunc(o.scopes(workingDir), func(o Options) bool {
		config, err := o.configDir()
		if err != nil {
			return false
		}
		data, err := readFile(o.files(config)[0].path)
		if err != nil {
			return false
		}
		found, _ := (hooks{program: o.Program}).find(data) // nil after an error
		return found[event] != nil
	})
}

// HasServer reports whether oacp setup registered the MCP server for sessions in a folder: the plugin's server leaves
// the tools to it. It ignores the scope and folder of the options.
func (o Options) HasServer(workingDir string) bool {
	return slices.ContainsFunc(o.scopes(workingDir), func(o Options) bool {
		f, _ := o.look()
		return f.registered
	})
}

// Plugin returns the settings file that enables the plugin, or an empty string.
func (o Options) Plugin() string {
	config, err := o.configDir()
	if err != nil {
		return ""
	}
	enabled := make(map[string]string) // the file, by the name of the plugin
	note := func(path, name string, on bool) {
		if delete(enabled, name); on && strings.HasPrefix(name, pluginID) {
			enabled[name] = path
		}
	}
	if o.Program == live.Codex {
		path := filepath.Join(config, "config.toml")
		var settings struct{ Plugins map[string]map[string]any }
		data, _ := readFile(path)
		_ = toml.Unmarshal(data, &settings) // codex reports a file that is not valid
		for name, plugin := range settings.Plugins {
			note(path, name, plugin["enabled"] == true)
		}
	} else {
		for _, path := range o.claudeSettings(config) {
			var settings struct {
				Plugins map[string]any `json:"enabledPlugins"`
			}
			data, _ := readFile(path)
			_ = json.Unmarshal(data, &settings) // claude reports a file that is not valid
			for name, on := range settings.Plugins {
				note(path, name, on == true)
			}
		}
	}
	for _, path := range enabled {
		return path
	}
	return ""
}

// pluginFindings reports the plugin if it is enabled, and what prevents it from bringing mail unless oacp setup does.
func (o Options) pluginFindings(isSetUp bool) (all []doctor.Finding) {
	add := func(severity doctor.Severity, hint, message string) {
		all = append(all, doctor.Finding{Category: category, Name: string(o.Program) + " (plugin)", Severity: severity, Message: message, Hint: hint})
	}
	path := o.Plugin()
	switch {
	case path == "":
		return nil
	case isSetUp:
		add(doctor.SeverityOK, "", "is enabled in "+path+", and leaves the sessions to oacp setup")
		return all
	}
	add(doctor.SeverityOK, "", "is enabled in "+path)
	if _, err := exec.LookPath("oacp"); err != nil {
		add(doctor.SeverityWarning, "install oacp", "its hooks call oacp, and there is no such program on the PATH")
	}
	if o.Workspace != nil {
		if agent, known := live.AgentOf(o.Workspace, o.Getenv, schema.AgentName(o.Program)); !known {
			add(doctor.SeverityWarning, "oacp add-agent "+string(agent)+" adds it, or set OACP_AGENT", "the workspace has no agent "+string(agent))
		}
	}
	for _, problem := range o.Obstacles() {
		add(doctor.SeverityWarning, "", problem)
	}
	return all
}
