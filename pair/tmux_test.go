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
		for e, err := range Follow(t.Context(), Following{Run: s.Place(), Agent: Codex}) {
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
	if err := s.noteStart(); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	for _, err := range Follow(ctx, Following{Run: s.Place(), Agent: Codex}) {
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
		for e, err := range Follow(t.Context(), Following{Run: run, Agent: Codex}) {
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
