package project

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Place says which workspace is meant: Dir, else Project, else the one that OACP_WORKSPACE names,
// else the nearest one at or above the working folder.
type Place struct {
	// Dir is the workspace itself.
	Dir string
	// Project is a project's name: the workspace is <Home>/projects/<Project>.
	Project string
	// Home is the folder that holds projects. The default is OACP_HOME, else the home of the
	// workspace at or above the working folder if that one is a project, else ~/oacp.
	Home string
	// WorkingDir is where the search upward starts.
	WorkingDir string
	// Getenv reads the environment; nil means os.Getenv.
	Getenv func(string) string
}

func (p Place) getenv(name string) string {
	if p.Getenv == nil {
		return os.Getenv(name)
	}
	return p.Getenv(name)
}

// UnknownProjectError says that a home does not have a project.
type UnknownProjectError struct {
	Project string
	Home    string
	// Known are the projects of the home, the most similar names first.
	Known []string
}

// Error names the project, the home, and the known projects.
func (e *UnknownProjectError) Error() string {
	known := "it has none"
	if len(e.Known) > 0 {
		known = "it has " + strings.Join(e.Known, ", ")
	}
	return fmt.Sprintf("%s has no project %q: %s", e.Home, e.Project, known)
}

// Find returns the folder of the workspace. It returns an error matching mailbox.ErrNoWorkspace, or
// an *UnknownProjectError, if there is none.
func (p Place) Find() (string, error) {
	switch {
	case p.Dir != "":
		return p.Dir, nil
	case p.Project != "":
		return p.findProject()
	}
	if dir := p.getenv("OACP_WORKSPACE"); dir != "" {
		return dir, nil
	}
	if dir, ok := findUpward(p.WorkingDir); ok {
		return dir, nil
	}
	return "", fmt.Errorf("%w at or above %s", mailbox.ErrNoWorkspace, p.WorkingDir)
}

// ProjectDir returns the folder of the project's workspace, which need not exist.
func (p Place) ProjectDir() (string, error) {
	if err := checkProjectName(p.Project); err != nil {
		return "", err
	}
	home, err := p.home()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, "projects", p.Project), nil
}

func checkProjectName(name string) error {
	switch {
	case name == "":
		return errors.New("a project name is missing")
	case strings.HasPrefix(name, "."), strings.HasPrefix(name, "-"):
		return fmt.Errorf("project name %q starts with %q", name, name[:1])
	case strings.ContainsAny(name, "/\\\x00"):
		return fmt.Errorf("project name %q holds a path separator", name)
	}
	return nil
}

func (p Place) home() (string, error) {
	if p.Home != "" {
		return p.Home, nil
	}
	if home := p.getenv("OACP_HOME"); home != "" {
		return home, nil
	}
	if dir, ok := findUpward(p.WorkingDir); ok && filepath.Base(filepath.Dir(dir)) == "projects" {
		return filepath.Dir(filepath.Dir(dir)), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding the folder of projects: %w", err)
	}
	return filepath.Join(home, "oacp"), nil
}

func (p Place) findProject() (string, error) {
	dir, err := p.ProjectDir()
	if err != nil {
		return "", err
	}
	if isFolder(filepath.Join(dir, agentsName)) {
		return dir, nil
	}
	known, err := p.Projects()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	spelling.SortByDistance(known, p.Project)
	return "", &UnknownProjectError{Project: p.Project, Home: filepath.Dir(filepath.Dir(dir)), Known: known}
}

// Projects returns the names of the projects in the home that have a workspace, sorted.
func (p Place) Projects() ([]string, error) {
	home, err := p.home()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(home, "projects"))
	if err != nil {
		return nil, fmt.Errorf("listing projects: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if isFolder(filepath.Join(home, "projects", entry.Name(), agentsName)) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// findUpward looks for a workspace at or above a folder: the folder itself, or a folder .oacp in
// it, or what a link .oacp to a workspace.json leads to.
func findUpward(dir string) (string, bool) {
	for {
		if marked, err := filepath.EvalSymlinks(filepath.Join(dir, ".oacp")); err == nil {
			if filepath.Base(marked) == MarkerName {
				marked = filepath.Dir(marked)
			}
			if isWorkspace(marked) {
				return marked, true
			}
		}
		if isWorkspace(dir) {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

func isWorkspace(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, MarkerName))
	return err == nil && info.Mode().IsRegular() && isFolder(filepath.Join(dir, agentsName))
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// cardName is the file in an agent's folder that describes the agent.
const cardName = "agent_card.yaml"

// maxCardSize bounds the size of a card, in bytes.
const maxCardSize = 1 << 20

// ErrNoSender is returned if nothing says which agent is acting.
var ErrNoSender = errors.New("nothing says which agent this is")

// runtimeMarks are the environment variables that the runtimes set.
var runtimeMarks = []struct{ variable, runtime string }{
	{"CODEX_CI", "codex"}, {"CODEX_SHELL", "codex"}, {"CODEX_THREAD_ID", "codex"},
	{"CLAUDECODE", "claude"}, {"CLAUDE_CODE", "claude"},
	{"GEMINI_CLI", "gemini"}, {"GEMINI_AGENT", "gemini"},
}

// AgentFromEnvironment returns the agent that OACP_AGENT, or else AGENT_NAME, names. If neither is
// set, the error matches ErrNoSender.
func AgentFromEnvironment(getenv func(string) string) (schema.AgentName, error) {
	for _, variable := range []string{"OACP_AGENT", "AGENT_NAME"} {
		if name := getenv(variable); name != "" {
			agent, err := schema.ParseAgentName(name)
			if err != nil {
				return "", fmt.Errorf("%s: %w", variable, err)
			}
			return agent, nil
		}
	}
	return "", ErrNoSender
}

// InferAgent returns the agent that is acting: the one of AgentFromEnvironment, else the only one
// whose card names the current runtime. That is OACP_RUNTIME if it is one of Runtimes, else the
// runtime whose variables Claude Code, Codex or Gemini has set. The error matches ErrNoSender if no
// agent, or more than one, matches.
func InferAgent(w *mailbox.Workspace, getenv func(string) string) (schema.AgentName, error) {
	agent, err := AgentFromEnvironment(getenv)
	if !errors.Is(err, ErrNoSender) {
		return agent, err
	}
	runtime := currentRuntime(getenv)
	if runtime == "" {
		return "", ErrNoSender
	}
	agents, err := w.Agents()
	if err != nil {
		return "", err
	}
	var matching []string
	for _, agent := range agents {
		// Agents without a readable card do not match.
		if r, err := runtimeOf(w, agent); err == nil && r == runtime {
			matching = append(matching, string(agent))
		}
	}
	switch len(matching) {
	case 0:
		return "", fmt.Errorf("%w: no agent's card has the runtime %s", ErrNoSender, runtime)
	case 1:
		return schema.AgentName(matching[0]), nil
	}
	return "", fmt.Errorf("%w: %s all have the runtime %s", ErrNoSender, strings.Join(matching, ", "), runtime)
}

func currentRuntime(getenv func(string) string) string {
	if runtime := getenv("OACP_RUNTIME"); slices.Contains(Runtimes, runtime) {
		return runtime
	}
	for _, mark := range runtimeMarks {
		if getenv(mark.variable) != "" {
			return mark.runtime
		}
	}
	return ""
}

// runtimeOf returns the runtime on an agent's card.
func runtimeOf(w *mailbox.Workspace, agent schema.AgentName) (runtime string, err error) {
	dir, err := durable.OpenDir(w.Root(), w.Dir(), filepath.Join(agentsName, string(agent)))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	data, err := dir.ReadFile(cardName, maxCardSize)
	if err != nil {
		return "", err
	}
	var card struct {
		Runtime string `yaml:"runtime"`
	}
	if err := yaml.Unmarshal(data, &card); err != nil {
		return "", fmt.Errorf("reading %s: %w", dir.Path(cardName), err)
	}
	return card.Runtime, nil
}
