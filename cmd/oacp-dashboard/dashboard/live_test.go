package dashboard

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
)

// recordedScreen is a simulated screen. Its channel, which has room for one, holds the characters
// that were drawn last.
type recordedScreen struct {
	tcell.SimulationScreen
	drawn chan string
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
	select {
	case <-s.drawn: // nobody needs the older one
	default:
	}
	s.drawn <- text.String()
}

// TestShow ends a view by a key and by its context, and checks that Show returns only after its
// goroutines.
func TestShow(t *testing.T) {
	w := mailboxtest.New(t, "claude", "codex")
	for _, how := range []string{"key", "context"} {
		screen := &recordedScreen{tcell.NewSimulationScreen("UTF-8"), make(chan string, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		source := &source{Workspaces: []*mailbox.Workspace{w}, Zone: time.UTC}
		go func() { done <- show(ctx, screen, source) }()
		await := func(text string) {
			t.Helper()
			for last, patience := "", time.After(time.Minute); !strings.Contains(last, text); {
				select {
				case last = <-screen.drawn:
				case <-patience:
					t.Fatalf("the screen lacks %q:\n%s", text, last)
				}
			}
		}
		await("claude")
		send(t, w, "sent by "+how)
		await("sent by " + how)
		screen.InjectKey(tcell.KeyEnter, 0, tcell.ModNone)
		await("Conversation: sent by " + how)
		await("claude -> codex  ")
		screen.InjectKey(tcell.KeyEsc, 0, tcell.ModNone)
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
