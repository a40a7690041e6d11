package dashboard

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/oacp-go/oacp/mailbox"
)

// recordedScreen is a simulated screen that records its characters whenever it is drawn.
type recordedScreen struct {
	tcell.SimulationScreen
	mu   sync.Mutex
	text string
}

func (s *recordedScreen) Show() {
	s.SimulationScreen.Show()
	cells, width, _ := s.GetContents()
	var text strings.Builder
	for i, cell := range cells {
		text.WriteString(string(cell.Runes))
		if i%width == width-1 {
			text.WriteByte('\n')
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text.String()
}

func (s *recordedScreen) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// TestShow ends a view by a key and by its context, and checks that Show returns only after its
// tasks.
func TestShow(t *testing.T) {
	w := workspace(t, "claude", "codex")
	for _, how := range []string{"key", "context"} {
		screen := &recordedScreen{SimulationScreen: tcell.NewSimulationScreen("UTF-8")}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		source := newSource(config{Workspaces: []*mailbox.Workspace{w}})
		go func() { done <- show(ctx, screen, source) }()
		await := func(text string) {
			t.Helper()
			for deadline := time.Now().Add(time.Minute); !strings.Contains(screen.shown(), text); {
				if time.Now().After(deadline) {
					t.Fatalf("the screen lacks %q:\n%s", text, screen.shown())
				}
				time.Sleep(time.Millisecond)
			}
		}
		await("claude")
		send(t, w, "sent by "+how)
		await("sent by " + how)
		screen.InjectKey(tcell.KeyTab, 0, tcell.ModNone)
		await("* AGENT")
		if how == "key" {
			screen.InjectKey(tcell.KeyRune, 'q', tcell.ModNone)
		} else {
			cancel()
		}
		if err := <-done; err != nil {
			t.Errorf("left with the %s: error %v", how, err)
		}
		cancel()
	}
}
