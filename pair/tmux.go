package pair

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Tmux is a tmux session in which a process drives a run, detached from any terminal.
type Tmux struct {
	// Name is the session's name, see Session.TmuxName.
	Name string
	// Dir is the folder of its programs, and Env are their variables of the form NAME=value.
	Dir string
	Env []string
	// Command is the program that drives the run, with its arguments.
	Command []string
}

// TmuxName returns a name for a tmux session that is unique among all runs, and saves that the run
// has one of that name.
func (s *Session) TmuxName() (string, error) {
	m := &s.manifest
	safe := regexp.MustCompile("[^a-zA-Z0-9_-]").ReplaceAllString(filepath.Base(m.RepoPath), "_")
	m.TmuxSession = fmt.Sprintf("agentpair-%s-%.8s-%d", safe, m.RepoID, m.ID)
	return m.TmuxSession, s.save()
}

// afterwards runs a command and keeps its output on the screen until someone presses Enter.
const afterwards = `trap : INT; "$@"; trap - INT; echo; echo "The process has ended. Enter closes this tmux session."; read -r line`

// Start starts the session. It replaces a session of that name, in which nothing drives the run any
// more.
func (t Tmux) Start(ctx context.Context) error {
	if err := endTmux(ctx, t.Name); err != nil {
		return err
	}
	words := []string{"new-session", "-d", "-s", t.Name, "-x", "200", "-y", "50", "-c", t.Dir}
	for _, variable := range t.Env {
		name, _, _ := strings.Cut(variable, "=")
		if !slices.Contains([]string{"TMUX", "TMUX_PANE", "TERM", "PWD", "SHLVL", "_", ""}, name) {
			words = append(words, "-e", variable)
		}
	}
	words = append(append(words, "--", "sh", "-c", afterwards, "sh"), t.Command...)
	for i, word := range words {
		words[i] = "'" + strings.ReplaceAll(word, "'", `'"'"'`) + "'"
	}
	// The variables may be secret, and everybody can read arguments: so tmux reads the command.
	cmd := exec.CommandContext(ctx, "tmux", "start-server", ";", "source-file", "-")
	cmd.Stdin = strings.NewReader(strings.Join(words, " ") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("tmux: %w: %s", err, tail(strings.TrimSpace(string(out)), 500))
	}
	if !t.Alive(ctx) {
		return errors.New("tmux did not start a session; at least version 3.2 is needed")
	}
	return nil
}

// Alive reports whether the session exists.
func (t Tmux) Alive(ctx context.Context) bool { return hasTmux(ctx, t.Name) }

// ShowAgents shows agents side by side above a pane. Follow returns the command line that shows an
// agent.
func ShowAgents(ctx context.Context, agents []Agent, pane string, follow func(Agent) []string) error {
	place := []string{"-v", "-b", "-l", "70%"}
	for _, name := range agents {
		arguments := append([]string{"split-window", "-d", "-P", "-F", "#{pane_id}", "-t", pane}, place...)
		// tmux passes a single word to a shell, and runs several words as they are.
		out, err := tmux(ctx, append(append(arguments, "--"), follow(name)...)...)
		if err != nil {
			return err
		}
		pane, place = out, []string{"-h"}
	}
	return nil
}

// hasTmux reports whether there is a tmux session of that name.
func hasTmux(ctx context.Context, name string) bool {
	_, err := tmux(ctx, "has-session", "-t", "="+name) // the = keeps tmux from matching a longer name
	return err == nil
}

// endTmux ends the tmux session of that name, if there is one.
func endTmux(ctx context.Context, name string) error {
	if name == "" || !hasTmux(ctx, name) {
		return nil
	}
	_, err := tmux(ctx, "kill-session", "-t", "="+name)
	return err
}

func tmux(ctx context.Context, arguments ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "tmux", arguments...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("tmux %s: %w: %s", arguments[0], err, tail(text, 500))
	}
	return text, nil
}
