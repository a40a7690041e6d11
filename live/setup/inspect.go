package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mattn/go-shellwords"
	"github.com/pelletier/go-toml/v2"

	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/schema"
)

// Category is the category of the findings of Inspect.
const Category = "Live Sessions"

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
		for _, f := range setups {
			findings = append(findings, f.findings()...)
		}
		if len(setups) == 2 && (program == live.Codex || setups[0].command() != setups[1].command()) {
			findings = append(findings, doctor.Finding{
				Category: Category, Name: string(program), Severity: doctor.SeverityWarning,
				Message: "it is set up for the project and for the user: both hooks run for each event",
				Hint:    "oacp setup " + string(program) + " --remove, or with --user, takes one out",
			})
		}
		if len(setups) == 0 {
			findings = append(findings, doctor.Finding{
				Category: Category, Name: string(program), Severity: doctor.SeveritySkipped,
				Message: "is not set up: mail does not reach its sessions", Hint: "oacp setup " + string(program) + " does that",
			})
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
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// command returns the command line of the hooks.
func (f found) command() string {
	if len(f.hooks) == 0 {
		return ""
	}
	return f.hooks[0].command
}

// claudeDisabled returns why claude does not run hooks.
func (f found) claudeDisabled(config string) (problems []string) {
	paths := []string{filepath.Join(config, "settings.json")}
	if f.Scope == Project {
		paths = append(paths, filepath.Join(f.Dir, ".claude", "settings.json"), f.hooksPath)
	}
	for _, path := range paths {
		data, err := readFile(path)
		if err != nil {
			continue
		}
		d, err := parseJSON(data)
		if err != nil {
			continue // the hooks' own file was reported, and claude reports the others
		}
		if v := d.find("disableAllHooks"); v != nil && d.equal(v, true) {
			problems = append(problems, "disableAllHooks in "+path+" switches hooks off")
		}
	}
	return problems
}

// codexDisabled returns why codex does not run hooks.
func (f found) codexDisabled(config string) (problems []string) {
	path := filepath.Join(config, "config.toml")
	var settings codexConfig
	data, err := readFile(path)
	if err == nil {
		err = toml.Unmarshal(data, &settings)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []string{path + ": " + err.Error()}
	}
	if settings.Features["hooks"] == false {
		problems = append(problems, "features.hooks in "+path+" switches hooks off")
	}
	if f.Scope == Project && !settings.trusts(f.Dir) {
		problems = append(problems, "codex does not read the settings of "+f.Dir+" until you trust the folder, for which it asks when it starts there")
	}
	wanted, missing := reviews(f.hooksPath, f.hooks), 0
	for place, hash := range wanted {
		state := settings.Hooks.State[place]
		if state.TrustedHash != hash {
			missing++
		}
		if state.Enabled != nil && !*state.Enabled {
			problems = append(problems, "the hook "+place+" is switched off in "+path)
		}
	}
	if missing > 0 {
		problems = append(problems, fmt.Sprintf("%d of %d hooks wait for your review, for which codex asks when it starts or at the first prompt", missing, len(wanted)))
	}
	slices.Sort(problems)
	return problems
}

// findings reports one setup: a line with what is there, and one for each thing that is wrong.
func (f found) findings() []doctor.Finding {
	name := fmt.Sprintf("%s (%s)", f.Program, f.Scope)
	again := "oacp setup " + string(f.Program)
	if f.Scope == User {
		again += " --user"
	}
	var all []doctor.Finding
	add := func(severity doctor.Severity, hint, format string, args ...any) {
		all = append(all, doctor.Finding{Category: Category, Name: name, Severity: severity, Message: fmt.Sprintf(format, args...), Hint: hint})
	}
	agent := agentIn(f.command())
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
		add(doctor.SeverityWarning, "oacp add-agent "+string(agent)+", or "+again+" --agent NAME",
			"the workspace has no agent %s, so sessions act for %s, if there is one", agent, f.Program)
	}
	if problem := f.commandProblem(); problem != "" && len(f.hooks) > 0 {
		add(doctor.SeverityWarning, "install oacp there, or run "+again+" with the oacp that hooks are to call", "%s", problem)
	}
	switch {
	case f.server == nil:
		add(doctor.SeverityWarning, again+" registers it", "the MCP server is not registered in %s", f.serverPath)
	case !f.server.isOurs():
		add(doctor.SeverityWarning, "take it out, and "+again+" writes it again", "the MCP server oacp in %s does not call oacp mcp --agent NAME", f.serverPath)
	case agent != "" && f.serverAgent() != agent:
		add(doctor.SeverityWarning, again+" --agent NAME makes them one", "the MCP server acts for %s, the hooks for %s", f.serverAgent(), agent)
	}
	if f.server != nil && !f.startsServer() {
		add(doctor.SeverityWarning, "go install ./cmd/... in a clone of the repository installs it",
			"the MCP server does not start: the program oacp-mcp is neither beside oacp nor on the PATH")
	}
	if !f.section {
		add(doctor.SeveritySkipped, again+" writes it", "the instructions have no section about mail")
	}
	for _, problem := range f.problems {
		add(doctor.SeverityWarning, "", "%s", problem)
	}
	return all
}

// serverAgent returns the agent for which the MCP server acts.
func (f found) serverAgent() schema.AgentName {
	agent := f.server.Args[2]
	if name, ok := strings.CutPrefix(agent, fromEnvironment); ok {
		agent = strings.TrimSuffix(name, "}")
	}
	return schema.AgentName(agent)
}

// commandProblem says why hooks cannot run their command.
func (f found) commandProblem() string {
	words, err := shellwords.Parse(f.command())
	if err != nil || len(words) == 0 {
		return ""
	}
	if words[0] != "oacp" {
		if info, err := os.Stat(words[0]); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return "hooks call " + words[0] + ", which is no program"
		}
		return ""
	}
	if _, ok := lookPath("oacp", f.Getenv); !ok {
		return "hooks call oacp, which is not on the PATH"
	}
	return ""
}

// startsServer reports whether the program that the server calls finds oacp-mcp. If there is no such
// program, another finding says so.
func (f found) startsServer() bool {
	path, ok := f.server.Command, true
	if path == "oacp" {
		path, ok = lookPath(path, f.Getenv)
	}
	real, err := filepath.EvalSymlinks(path)
	if !ok || err != nil {
		return true
	}
	_, beside := findIn(filepath.Dir(real), "oacp-mcp")
	_, onPath := lookPath("oacp-mcp", f.Getenv)
	return beside || onPath
}

// agentIn returns the agent that the command line of a hook names.
func agentIn(command string) schema.AgentName {
	words, err := shellwords.Parse(command)
	if err != nil {
		return ""
	}
	for i, word := range words {
		if value, ok := strings.CutPrefix(word, "--agent="); ok {
			return schema.AgentName(value)
		}
		if word == "--agent" && i+1 < len(words) {
			return schema.AgentName(words[i+1])
		}
	}
	if len(words) > 2 {
		return schema.AgentName(words[2])
	}
	return ""
}
