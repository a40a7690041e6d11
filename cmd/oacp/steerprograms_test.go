package main

import (
	"bufio"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/turn"
)

// TestSteerAndStopPrograms gives the running turn of a real program an urgent message, and stops another turn of it. The
// message whose turn was stopped has another one after oacp restore.
func TestSteerAndStopPrograms(t *testing.T) {
	t.Parallel()
	if !*thorough { // agent.TestSteer and agent.TestCancelStopsTools check the programs
		t.Skip("only with -thorough")
	}
	for _, name := range []string{"claude", "codex"} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			asked, hold := make(chan modelstub.Request, 9), make(chan struct{})
			holds := []chan struct{}{hold, nil, make(chan struct{}), nil} // the third is never released
			calls := 0
			scene := newProgramScene(t, name, func(_ context.Context, request modelstub.Request) modelstub.Reply {
				mu.Lock()
				defer mu.Unlock()
				calls++
				asked <- request
				return modelstub.Reply{Text: "An answer.", Hold: holds[calls-1]}
			})
			events, end := scene.run(t, "run", "--agent", "worker", "--driver", name, "--reply", "--steer", "--json")
			defer end()
			first := scene.ask("Which port?")
			<-asked
			urgent := scene.must("send", "--from", "asker", "--to", "worker", "--type", "question", "--priority", "P0",
				"--subject", "Now", "--body", "The other port.", "--in-reply-to", first, "--quiet")
			awaitEvent(t, events, turn.EventStarted, strings.TrimSpace(urgent))
			close(hold)
			if request := <-asked; !strings.Contains(string(request.Body), "The other port.") {
				t.Errorf("the model was asked\n%s\nwant the urgent text", request.Body)
			}
			awaitEvent(t, events, turn.EventAcknowledged, strings.TrimSpace(urgent))

			long := scene.ask("A long question.")
			<-asked
			if said := scene.must("stop", long); !strings.HasPrefix(said, "OK: the turn of worker on ") {
				t.Errorf("stop says %q", said)
			}
			awaitEvent(t, events, turn.EventHeld, long)
			if said := scene.must("status", long); !strings.Contains(said, "held: stopped by a person") {
				t.Errorf("status says %q", said)
			}
			scene.must("restore", long)
			<-asked
			awaitEvent(t, events, turn.EventAcknowledged, long)
		})
	}
}

// run starts oacp run and returns its events, and a function that stops it.
func (s *programScene) run(t *testing.T, arguments ...string) (events *bufio.Scanner, end func()) {
	t.Helper()
	command := s.command(arguments...)
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return bufio.NewScanner(out), func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// awaitEvent reads events until one of the kind about the message.
func awaitEvent(t *testing.T, events *bufio.Scanner, kind turn.EventKind, id string) {
	t.Helper()
	for events.Scan() {
		var e turn.Event
		if err := json.Unmarshal(events.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind == kind && string(e.ID) == id {
			return
		}
	}
	t.Fatalf("run ended without %s of %s", kind, id)
}
