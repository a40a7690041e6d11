package setup

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/schema"
)

// category is the category of the findings of Inspect.
const category = "Live Sessions"

// found is what oacp has in a program's settings in one scope.
type found struct {
	Options
	// hooksPath is the file for the hooks, and serverPath the file for the MCP server.
	hooksPath, serverPath string
	// hooks are the words of the hooks, by event.
	hooks map[string][]string
	// registered reports whether the MCP server is registered.
	registered bool
	problems   []string
}

// Inspect reports whether mail reaches the sessions of each program, with the setups of the project and of the
// user. It ignores the program, scope and folder of the options.
func Inspect(o Options, workingDir string) []doctor.Finding {
	var findings []doctor.Finding
	for _, program := range live.Programs() {
		o.Program = program
		add := func(severity doctor.Severity, hint, message string) {
			findings = append(findings, doctor.Finding{Category: category, Name: string(program), Severity: severity, Message: message, Hint: hint})
		}
		setups, scopes := 0, o.scopes(workingDir)
		for _, o := range scopes {
			if f, ok := o.look(); ok {
				findings = append(findings, f.findings()...)
				setups++
			}
		}
		plugin := scopes[0].pluginFindings(setups > 0)
		findings = append(findings, plugin...)
		if setups == 0 && plugin == nil {
			add(doctor.SeveritySkipped, "oacp setup "+string(program)+" sets it up", "is not set up: mail does not reach its sessions")
		}
		if setups == 2 {
			add(doctor.SeverityWarning, "oacp setup "+string(program)+" --remove removes that of the project, and with --user that of the user",
				"it is set up for the project and for the user: codex runs both hooks for each event, and claude does if they differ")
		}
	}
	return findings
}

// look reads the settings of one program and scope. It reports whether they have hooks of oacp, or problems.
func (o Options) look() (f found, ok bool) {
	f.Options = o
	config, err := o.configDir()
	if err != nil {
		return f, false
	}
	read := func(path string) []byte {
		data, err := readFile(path)
		if err != nil {
			f.problems = append(f.problems, err.Error())
		}
		return data
	}
	files := o.files(config)
	f.hooksPath, f.serverPath = files[0].path, files[1].path
	if f.hooks, err = (hooks{program: o.Program}).find(read(f.hooksPath)); err != nil {
		f.problems = append(f.problems, fmt.Sprintf("%s: %v", f.hooksPath, err))
	}
	f.registered = holds(files[1].parts[0], read(f.serverPath))
	ok = len(f.hooks) > 0 || f.problems != nil
	f.problems = append(f.problems, o.Obstacles()...)
	return f, ok
}

// managed is the folder of the settings that an organization prescribes for claude. Tests replace it.
var managed = cmp.Or(map[string]string{"darwin": "/Library/Application Support/ClaudeCode", "windows": `C:\Program Files\ClaudeCode`}[runtime.GOOS], "/etc/claude-code")

// claudeSettings returns the settings files of claude: a later one has precedence.
func (o Options) claudeSettings(config string) []string {
	return []string{
		filepath.Join(config, "settings.json"), filepath.Join(o.Dir, ".claude", "settings.json"),
		filepath.Join(o.Dir, ".claude", "settings.local.json"), filepath.Join(managed, "managed-settings.json"),
	}
}

// Obstacles returns the settings that switch hooks off.
func (o Options) Obstacles() (problems []string) {
	config, err := o.configDir()
	if err != nil {
		return nil
	}
	if o.Program == live.Codex {
		path := filepath.Join(config, "config.toml")
		var settings struct{ Features map[string]any }
		data, err := readFile(path)
		if err == nil && toml.Unmarshal(data, &settings) == nil && settings.Features["hooks"] == false {
			problems = append(problems, "features.hooks in "+path+" switches hooks off")
		}
		return problems
	}
	for _, path := range o.claudeSettings(config) {
		data, _ := readFile(path) // claude reports a file that is not valid
		var s struct {
			NoHooks   bool `json:"disableAllHooks"`
			OnlyHooks bool `json:"allowManagedHooksOnly"`
		}
		_ = json.Unmarshal(data, &s)
		if s.NoHooks {
			problems = append(problems, "disableAllHooks in "+path+" switches hooks off")
		}
		if s.OnlyHooks && filepath.Dir(path) == managed {
			problems = append(problems, "allowManagedHooksOnly in "+path+" switches hooks off")
		}
	}
	return problems
}

// findings reports one setup: a line with its hooks, and one for each problem.
func (f found) findings() []doctor.Finding {
	var all []doctor.Finding
	add := func(severity doctor.Severity, hint, format string, args ...any) {
		all = append(all, doctor.Finding{
			Category: category, Name: fmt.Sprintf("%s (%s)", f.Program, f.Scope), Severity: severity, Message: fmt.Sprintf(format, args...), Hint: hint,
		})
	}
	again := []string{"oacp", "setup", string(f.Program)}
	if f.Scope == User {
		again = append(again, "--user")
	}
	var missing, words []string
	for _, event := range events[f.Program] {
		if f.hooks[event] == nil {
			missing = append(missing, event)
		} else {
			words = f.hooks[event]
		}
	}
	if words != nil {
		again = append(again, words[3:]...)
	}
	setup := visible.ShellCommand(again...)
	if missing == nil {
		add(doctor.SeverityOK, "", "hooks in %s: %s", f.hooksPath, visible.ShellCommand(words...))
	} else {
		add(doctor.SeverityWarning, setup+" writes them", "no hook for %s in %s", strings.Join(missing, ", "), f.hooksPath)
	}
	if words != nil {
		if _, err := exec.LookPath(words[0]); err != nil {
			add(doctor.SeverityWarning, "install oacp, and run "+setup, "hooks call %s, and there is no such program on the PATH", words[0])
		}
	}
	if i := slices.Index(words, "--agent") + 1; i > 0 && i < len(words) && f.Workspace != nil && !f.Workspace.Knows(schema.AgentName(words[i])) {
		add(doctor.SeverityWarning, "oacp add-agent "+visible.ShellCommand(words[i])+" adds it", "the workspace has no agent %s", words[i])
	}
	if !f.registered {
		add(doctor.SeverityWarning, setup+" registers it", "the MCP server is not registered in %s", f.serverPath)
	}
	for _, problem := range f.problems {
		add(doctor.SeverityWarning, "", "%s", problem)
	}
	return all
}

// lastErrors is how many errors of hooks InspectErrors reports, and errorsAge how old they may be.
const (
	lastErrors = 3
	errorsAge  = 24 * time.Hour
)

// InspectErrors reports the latest errors of hooks in a workspace.
func InspectErrors(w *mailbox.Workspace, now time.Time) (findings []doctor.Finding, err error) {
	lines, err := live.Errors(w, now.Add(-errorsAge))
	for _, line := range lines[max(0, len(lines)-lastErrors):] {
		findings = append(findings, doctor.Finding{
			Category: category, Name: "hook", Severity: doctor.SeverityWarning, Message: line, Hint: live.ErrorsFile + " has them all",
		})
	}
	return findings, err
}
