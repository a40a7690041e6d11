package pair

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
)

// TestFollow checks that following an agent yields old and new entries, and none of the other
// agent.
func TestFollow(t *testing.T) {
	seen := make(chan string, 100)
	s := newSession(t, Settings{Prompt: "x", Review: ReviewClaude}, scripted(func(c call) (string, error) {
		c.observe(agent.Event{Text: string(c.agent) + " at work"})
		if c.agent == Claude {
			for text := range seen { // the follower keeps up while the run goes on
				if text == "codex at work" {
					break
				}
			}
			return "PASS", nil
		}
		return "DONE", nil
	}))
	var entries []Entry
	done := make(chan error)
	go func() {
		for e, err := range Follow(t.Context(), s.Place(), Codex) {
			if err != nil {
				done <- err
				return
			}
			entries = append(entries, e)
			seen <- e.Content
		}
		done <- nil
	}()
	if err := errors.Join(s.Run(t.Context()), <-done); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, e := range entries {
		if e.Agent == Claude {
			t.Errorf("an entry of claude: %+v", e)
		}
		types = append(types, string(e.Type))
	}
	want := "start state iteration execute event result signal state state end"
	if got := strings.Join(types, " "); got != want {
		t.Errorf("followed %s, want %s", got, want)
	}
}

func TestFollowStops(t *testing.T) {
	var calls []call
	s := newSession(t, Settings{Prompt: "x"}, lines(t, &calls))
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	for _, err := range Follow(ctx, s.Place(), Codex) {
		if last = err; err == nil {
			cancel(enough)
		}
	}
	if !errors.Is(last, enough) {
		t.Errorf("error %v, want the cause", last)
	}
}

// TestFollowKilled checks that following a run yields all of it and then ends, if the process that
// drives it is killed or was killed before.
func TestFollowKilled(t *testing.T) {
	root, repository := t.TempDir(), t.TempDir()
	cmd := exec.Command(os.Args[0], "-helper", "drive-and-hang", root, repository)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	log, err := bridge.Selector{Root: root, Repository: repository, RunID: 1}.Select()
	if err != nil {
		t.Fatal(err)
	}
	run := log.Run
	for range 2 {
		last := ""
		for e, err := range Follow(t.Context(), run, Codex) {
			if err != nil {
				t.Fatal(err)
			}
			if last = e.Content; last == "hanging" {
				if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Fatal(err)
				}
			}
		}
		if last != "hanging" {
			t.Errorf("the last entry that was followed is %q, want the agent's last", last)
		}
		_ = cmd.Wait() // it was killed
	}
}

// driveAndHang drives a run whose agent never ends its turn.
func driveAndHang(root, repository string) error {
	s, err := Create(root, repository, Settings{Prompt: "x", Review: ReviewNone}, scripted(func(c call) (string, error) {
		c.observe(agent.Event{Text: "hanging"})
		fmt.Println("hanging")
		select {}
	}))
	if err != nil {
		return err
	}
	return s.Run(context.Background())
}

// followHelper prints what an agent shows, and waits until it is asked to end.
func followHelper(folder string) error {
	run := bridge.Run{ID: 1, Folder: folder}
	for e, err := range Follow(context.Background(), run, Agent(os.Args[4])) {
		if err != nil {
			return err
		}
		fmt.Println(e.Type, e.Content)
	}
	return nil
}

// TestTmux shows a run in a real tmux with its own server.
func TestTmux(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed")
	}
	sockets, err := os.MkdirTemp("", "t") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMUX_TMPDIR", sockets)
	t.Setenv("TMUX", "")
	t.Cleanup(func() {
		// The server ends by itself after its last session.
		_, _ = tmux(context.Background(), "kill-server")
		if err := os.RemoveAll(sockets); err != nil {
			t.Error(err)
		}
	})
	var name string
	s := newSession(t, Settings{Prompt: "x", Review: ReviewClaude}, Options{})
	s.options.NewDriver = scripted(func(c call) (string, error) {
		c.observe(agent.Event{Text: "says " + string(c.agent)})
		if c.agent == Claude {
			waitForPanes(t, name)
			return "PASS", nil
		}
		return "DONE", nil
	}).NewDriver
	name, err = s.ShowInTmux(t.Context(), func(who Agent) []string {
		return []string{os.Args[0], "-helper", "follow", s.Place().Folder, string(who)}
	})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.ShowInTmux(t.Context(), nil); err != nil || again != name || s.Manifest().TmuxSession != name {
		t.Errorf("shown again in %q, %v; want %q as in the manifest", again, err, name)
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// waitForPanes waits until each agent's pane shows only what that agent said.
func waitForPanes(t *testing.T, name string) {
	for t.Context().Err() == nil {
		left, err := tmux(t.Context(), "capture-pane", "-p", "-t", "="+name+":.0")
		if err != nil {
			t.Error(err)
			return
		}
		right, err := tmux(t.Context(), "capture-pane", "-p", "-t", "="+name+":.1")
		if err != nil {
			t.Error(err)
			return
		}
		if strings.Contains(left, "says claude") || strings.Contains(right, "says codex") {
			t.Errorf("the panes show\n%s\nand\n%s", left, right)
			return
		}
		if strings.Contains(left, "says codex") && strings.Contains(right, "says claude") {
			return
		}
	}
}
