package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/schema"
)

// A file is one that holds parts.
type file struct {
	path string
	// inProject reports whether the file is in the folder of the project.
	inProject bool
	// folder makes a removal also remove a folder that becomes empty.
	folder bool
	// mode is that of a new file.
	mode  fs.FileMode
	parts []part
}

// configDir returns the folder of the program's settings for the user.
func (o Options) configDir() (string, error) {
	variable, name := "CLAUDE_CONFIG_DIR", ".claude"
	if o.Program == live.Codex {
		variable, name = "CODEX_HOME", ".codex"
	}
	if dir := o.Getenv(variable); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", fmt.Errorf("%s is %s, want an absolute path", variable, dir)
		}
		return dir, nil
	}
	home := o.Getenv("HOME")
	if home == "" {
		home = o.Getenv("USERPROFILE")
	}
	if home == "" {
		return "", errNoHome
	}
	return filepath.Join(home, name), nil
}

func (o Options) hookCommand() string {
	words := []string{o.Command, "hook", string(o.Program), "--agent", string(o.Agent)}
	if o.Sync != "" {
		words = append(words, "--sync")
	}
	if o.Sync != "" && o.Sync != "true" {
		words = append(words, o.Sync)
	}
	return visible.ShellCommand(words...)
}

// files returns the files with the hooks and with the MCP server, in this order, and the parts of each.
func (o Options) files(config string) []file {
	calls := hooks{o.Program, o.hookCommand()}
	inProject := o.Scope == Project
	if o.Program == live.Codex {
		mode := fs.FileMode(0o600)
		if inProject {
			config, mode = filepath.Join(o.Dir, ".codex"), 0o644
		}
		return []file{
			{path: filepath.Join(config, "hooks.json"), inProject: inProject, folder: inProject, mode: 0o644, parts: []part{calls}},
			{path: filepath.Join(config, "config.toml"), inProject: inProject, folder: inProject, mode: mode, parts: []part{table{callOfMCP(o.Command, string(o.Agent))}}},
		}
	}
	settings, servers := filepath.Join(config, "settings.json"), []string{"mcpServers", serverName}
	if inProject {
		settings = filepath.Join(o.Dir, ".claude", "settings.local.json")
		servers = []string{"projects", o.Dir, "mcpServers", serverName}
	}
	global := filepath.Join(config, ".claude.json")
	if o.Getenv("CLAUDE_CONFIG_DIR") == "" {
		global = config + ".json"
	}
	return []file{
		{path: settings, inProject: inProject, folder: inProject, mode: 0o644, parts: []part{calls, permissions{}}},
		{path: global, mode: 0o600, parts: []part{server{servers, callOfMCP(o.Command, fromEnvironment+string(o.Agent)+"}")}}},
	}
}

// instructions returns the existing files of instructions that the program may read. Setup changes the first
// one. If none exists, instructions returns the one to create. Claude reads AGENTS.md only if it finds no file of
// its own, so a new CLAUDE.md would hide it.
func (o Options) instructions(config string) []file {
	folder, names := config, []string{"CLAUDE.md"}
	if o.Scope == Project {
		folder, names = o.Dir, []string{"CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md", "AGENTS.md"}
	}
	if o.Program == live.Codex {
		names = []string{"AGENTS.md"}
	}
	var all, found []file
	for _, name := range names {
		f := file{path: filepath.Join(folder, filepath.FromSlash(name)), inProject: o.Scope == Project, mode: 0o644, parts: []part{section{o.Program}}}
		all = append(all, f)
		if _, err := os.Lstat(f.path); err == nil {
			found = append(found, f)
		}
	}
	if found == nil {
		return all[:1]
	}
	return found
}

// ProjectDir returns the folder whose settings the program reads when a session starts in the
// working folder: the top of the git repository, or else the folder that has the workspace. All
// worktrees of a repository have the settings of claude in common, but not those of codex.
func ProjectDir(program live.Program, workingDir string) (string, error) {
	start, err := filepath.EvalSymlinks(workingDir)
	if err != nil {
		return "", err
	}
	if before, _, inside := strings.Cut(start+string(filepath.Separator), string(filepath.Separator)+".oacp"+string(filepath.Separator)); inside {
		start = before
	}
	top, err := git.Top(start)
	switch {
	case err != nil:
		return "", err
	case top != "" && program == live.Claude:
		return git.MainFolder(top), nil
	case top != "":
		return top, nil
	}
	for dir := start; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		for _, name := range []string{".oacp", schema.MarkerName} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return dir, nil
			}
		}
	}
	return start, nil
}

// Command returns how hooks name this program: oacp if the executable is the one on the PATH, or else its
// path. The name is better because an update may move the program.
func Command(executable string) (word string, onPath bool) {
	found, err := exec.LookPath("oacp")
	own, ownErr := os.Stat(executable)
	if errors.Join(err, ownErr) == nil {
		if other, err := os.Stat(found); err == nil && os.SameFile(own, other) {
			return "oacp", true
		}
	}
	return executable, false
}
