package setup

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/schema"
)

// category is the category of the findings of Inspect.
const category = "Live Sessions"

// found is what a program's settings have of oacp in one scope.
type found struct {
	Options
	// hooksPath is the file with the hooks, serverPath that with the MCP server.
	hooksPath, serverPath string
	hooks                 []foundHook
	// server is the command line of the MCP server, or nil.
	server   *mcpCall
	section  bool
	problems []string
}

// Inspect reports whether mail reaches the sessions of each program that has a setup, in the project
// and for the user. Of the options, it sets program, scope and folder itself.
func Inspect(o Options, workingDir string) []doctor.Finding {
	var findings []doctor.Finding
	for _, program := range live.Programs() {
		add := func(severity doctor.Severity, hint, message string) {
			findings = append(findings, doctor.Finding{Category: category, Name: string(program), Severity: severity, Message: message, Hint: hint})
		}
		o.Program = program
		var setups []found
		for _, scope := range []Scope{Project, User} {
			if o.Scope = scope; scope == Project {
				var err error
				if o.Dir, err = ProjectDir(program, workingDir); err != nil {
					continue
				}
			}
			if f, ok := o.look(); ok {
				setups = append(setups, f)
			}
		}
		if len(setups) > 1 { // a server alone is one that the user registered
			setups = slices.DeleteFunc(setups, func(f found) bool { return f.hooks == nil && f.problems == nil })
		}
		for _, f := range setups {
			findings = append(findings, f.findings()...)
		}
		if len(setups) == 0 {
			add(doctor.SeveritySkipped, "oacp setup "+string(program)+" does that", "is not set up: mail does not reach its sessions")
		}
		if len(setups) == 2 && setups[0].hooks != nil && setups[1].hooks != nil &&
			(program == live.Codex || !slices.Equal(setups[0].words(), setups[1].words())) {
			add(doctor.SeverityWarning, "oacp setup "+string(program)+" --remove, or with --user, takes one out",
				"it is set up for the project and for the user: both hooks run for each event")
		}
	}
	return findings
}

// look reads the settings of one program and scope. It reports whether they have anything of oacp.
func (o Options) look() (found, bool) {
	f := found{Options: o}
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
	if d, err := parseJSON(read(f.hooksPath)); err != nil {
		f.problems = append(f.problems, fmt.Sprintf("%s: %v", f.hooksPath, err))
	} else {
		f.hooks = hooks{program: o.Program}.find(d, events[o.Program]...)
	}
	servers := files[1].parts[0].(interface{ registered([]byte) (mcpCall, bool) })
	if call, ok := servers.registered(read(f.serverPath)); ok {
		f.server = &call
	}
	for _, file := range o.instructions(config) {
		f.section = f.section || holds(section{}, read(file.path))
	}
	if o.Program == live.Codex {
		f.problems = append(f.problems, f.codexDisabled(config)...)
	} else {
		f.problems = append(f.problems, f.claudeDisabled(config)...)
	}
	return f, len(f.hooks) > 0 || f.server != nil
}

// Obstacles returns why claude would not use what a setup writes.
func (o Options) Obstacles() []string {
	f, _ := o.look()
	return f.problems
}

// words returns the command line of the hooks, or nil.
func (f found) words() []string {
	if len(f.hooks) == 0 {
		return nil
	}
	return f.hooks[0].words
}

// agent returns the agent that the hooks name, or "".
func (f found) agent() schema.AgentName {
	words := f.words()
	for i, word := range words {
		if value, ok := strings.CutPrefix(word, "--agent="); ok {
			return schema.AgentName(value)
		}
		if word == "--agent" && i+1 < len(words) {
			return schema.AgentName(words[i+1])
		}
	}
	if words == nil {
		return ""
	}
	return schema.AgentName(f.Program)
}

// again returns the command line of this setup.
func (f found) again() string {
	words := []string{"oacp", "setup", string(f.Program)}
	if f.Scope == User {
		words = append(words, "--user")
	}
	if own := f.words(); own != nil && !slices.Equal(own[3:], []string{"--agent", string(f.Program)}) {
		words = append(words, own[3:]...)
	}
	return visible.Shell(words...)
}

// managed is the folder with the settings that an organization prescribes for claude. Tests replace it.
var managed = cmp.Or(map[string]string{"darwin": "/Library/Application Support/ClaudeCode", "windows": `C:\Program Files\ClaudeCode`}[runtime.GOOS], "/etc/claude-code")

// An mcpRule allows or denies an MCP server by its name or command line.
type mcpRule struct {
	Name    string   `json:"serverName"`
	Command []string `json:"serverCommand"`
}

func (r mcpRule) isAboutUs() bool {
	return r.Name == serverName || len(r.Command) > 0 && isOACP(r.Command[0])
}

// claudeDisabled returns why claude does not use what setup writes.
func (f found) claudeDisabled(config string) (problems []string) {
	prescribed, _ := filepath.Glob(filepath.Join(managed, "managed-settings.d", "*.json"))
	prescribed = append(prescribed, filepath.Join(managed, "managed-settings.json"), filepath.Join(config, "remote-settings.json"))
	paths := append(slices.Clip(prescribed), filepath.Join(config, "settings.json"))
	if f.Scope == Project {
		paths = append(paths, filepath.Join(f.Dir, ".claude", "settings.json"), f.hooksPath)
	}
	for i, path := range paths {
		data, _ := readFile(path) // claude reports a file that is not valid
		var s struct {
			NoHooks   bool      `json:"disableAllHooks"`
			OnlyHooks bool      `json:"allowManagedHooksOnly"`
			OnlyRules bool      `json:"allowManagedPermissionRulesOnly"`
			Denied    []mcpRule `json:"deniedMcpServers"`
			Allowed   []mcpRule `json:"allowedMcpServers"`
		}
		_ = json.Unmarshal(bytes.TrimPrefix(data, []byte(byteOrderMark)), &s)
		note := func(is bool, name, effect string) {
			if is {
				problems = append(problems, name+" in "+path+" "+effect)
			}
		}
		note(s.NoHooks, "disableAllHooks", "switches hooks off")
		note(s.OnlyHooks && i < len(prescribed), "allowManagedHooksOnly", "switches hooks off")
		note(s.OnlyRules && i < len(prescribed), "allowManagedPermissionRulesOnly", "makes claude ask before each command and tool of oacp")
		note(slices.ContainsFunc(s.Denied, mcpRule.isAboutUs), "deniedMcpServers", "switches the MCP server off")
		note(s.Allowed != nil && !slices.ContainsFunc(s.Allowed, mcpRule.isAboutUs), "allowedMcpServers", "switches the MCP server off")
	}
	path := filepath.Join(managed, "managed-mcp.json")
	if _, err := os.Stat(path); err == nil {
		problems = append(problems, path+" switches other MCP servers off")
	}
	return problems
}

// findings reports one setup: a line with its parts, and one for each problem.
func (f found) findings() []doctor.Finding {
	name, again, agent := fmt.Sprintf("%s (%s)", f.Program, f.Scope), f.again(), f.agent()
	var all []doctor.Finding
	add := func(severity doctor.Severity, hint, format string, args ...any) {
		all = append(all, doctor.Finding{Category: category, Name: name, Severity: severity, Message: fmt.Sprintf(format, args...), Hint: hint})
	}
	var missing []string
	for _, event := range events[f.Program] {
		if !slices.ContainsFunc(f.hooks, func(h foundHook) bool { return h.event == event }) {
			missing = append(missing, event)
		}
	}
	switch {
	case len(missing) == 0:
		add(doctor.SeverityOK, "", "hooks for agent %s in %s", agent, f.hooksPath)
	case len(f.hooks) == 0:
		add(doctor.SeverityWarning, again+" writes them", "no hooks in %s: sessions learn nothing of new mail", f.hooksPath)
	default:
		add(doctor.SeverityWarning, again+" writes them", "no hook for %s in %s", strings.Join(missing, ", "), f.hooksPath)
	}
	if f.Workspace != nil && agent != "" && !f.Workspace.Knows(agent) {
		add(doctor.SeverityWarning, "oacp add-agent "+string(agent)+" adds it",
			"the workspace has no agent %s, so sessions act for %s, if there is one", agent, f.Program)
	}
	if words := f.words(); words != nil {
		where := ", and there is no such program"
		if words[0] == "oacp" {
			where = ", which is not on the PATH"
		}
		if _, err := exec.LookPath(words[0]); err != nil {
			add(doctor.SeverityWarning, "install oacp there, or run "+again+" with the oacp that hooks are to call", "hooks call %s%s", words[0], where)
		}
	}
	switch {
	case f.server == nil:
		add(doctor.SeverityWarning, again+" registers it", "the MCP server is not registered in %s", f.serverPath)
	case !f.server.isOurs():
		add(doctor.SeverityWarning, "take it out, and "+again+" writes it again", "the MCP server oacp in %s does not call oacp mcp --agent NAME", f.serverPath)
	case agent != "" && f.server.agent() != string(agent):
		add(doctor.SeverityWarning, again+" makes them one", "the MCP server acts for %s, the hooks for %s", f.server.agent(), agent)
	}
	if !f.section {
		add(doctor.SeveritySkipped, again+" writes it", "the instructions have no section about mail")
	}
	for _, problem := range f.problems {
		add(doctor.SeverityWarning, "", "%s", problem)
	}
	return all
}
