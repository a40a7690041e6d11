package pair

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// ShowInTmux shows the agents side by side in a tmux session and returns its name. Follow returns
// the command line that shows an agent; the session ends with the last of these programs. If the
// session exists already, ShowInTmux leaves it as it is.
func (s *Session) ShowInTmux(ctx context.Context, follow func(Agent) []string) (name string, err error) {
	name = tmuxName(&s.manifest)
	// The = keeps tmux from matching a longer name.
	if _, err := tmux(ctx, "has-session", "-t", "="+name); err == nil {
		return name, nil
	}
	for i, who := range s.manifest.Agents() {
		arguments := []string{"new-session", "-d", "-s", name, "-x", "200", "-y", "50", "--"}
		if i > 0 {
			arguments = []string{"split-window", "-d", "-h", "-t", "=" + name + ":", "--"}
		}
		// tmux passes a single word to a shell, and runs several words as they are.
		if _, err := tmux(ctx, append(arguments, follow(who)...)...); err != nil {
			return "", err
		}
	}
	if s.manifest.TmuxSession == name {
		return name, nil
	}
	s.manifest.TmuxSession = name
	return name, s.save()
}

// tmuxName returns a name that is unique among all runs and that tmux allows.
func tmuxName(m *Manifest) string {
	safe := regexp.MustCompile("[^a-zA-Z0-9_-]").ReplaceAllString(filepath.Base(m.RepoPath), "_")
	return fmt.Sprintf("agentpair-%s-%.8s-%d", safe, m.RepoID, m.ID)
}

func tmux(ctx context.Context, arguments ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "tmux", arguments...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("tmux %s: %w: %s", arguments[0], err, tail(text, 500))
	}
	return text, nil
}
