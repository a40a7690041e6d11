package dashboard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gdamore/tcell/v2"
)

const (
	// refreshInterval is how often the view looks for changes.
	refreshInterval = time.Second
	// A pause lasts at least refreshShare times as long as the look before it.
	refreshShare = 20
)

// A look is a snapshot, with the conversation of a target if it is not empty.
type look struct {
	snapshot Snapshot
	of       target
	reading  reading
}

// watch looks at the source repeatedly, and at once when another conversation is opened. In a large workspace,
// it looks less often.
func watch(ctx context.Context, source *source, opened <-chan target, looks chan<- look) {
	var of target
	for {
		l, begun := look{of: of}, time.Now()
		if of != (target{}) {
			l.reading = source.read(ctx, of)
		}
		var err error
		if l.snapshot, err = source.gather(ctx); err != nil {
			return // the context has ended
		}
		took := time.Since(begun)
		select {
		case looks <- l:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(max(refreshInterval, refreshShare*took)):
		case of = <-opened:
		case <-ctx.Done():
			return
		}
	}
}

// show shows a live view of the source on a screen until the user leaves it or ctx ends.
func show(ctx context.Context, screen tcell.Screen, source *source) error {
	if err := screen.Init(); err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer screen.Fini()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	m := newModel()
	m.resize(screen.Size())
	looks, opened := make(chan look), make(chan target, 1)
	running.Go(func() { watch(ctx, source, opened, looks) })
	input := make(chan tcell.Event)
	running.Go(func() { screen.ChannelEvents(input, ctx.Done()) })
	for !m.left {
		select {
		case <-ctx.Done():
			return nil
		case l := <-looks:
			m.take(l.snapshot)
			if l.of == m.opened() && m.conversation != nil {
				m.conversation.take(l.reading)
			}
		case event, open := <-input:
			if !open {
				return nil
			}
			switch event := event.(type) {
			case *tcell.EventResize:
				screen.Sync()
				m.resize(event.Size())
			case *tcell.EventKey:
				before := m.opened()
				if m.press(keyName(event)); m.opened() != before {
					select {
					case <-opened: // the last one has not been read yet
					default:
					}
					opened <- m.opened()
				}
			}
		}
		draw(screen, m.screen())
	}
	return nil
}

func keyName(key *tcell.EventKey) string {
	if key.Key() == tcell.KeyRune {
		return string(key.Rune())
	}
	return tcell.KeyNames[key.Key()]
}

// draw puts the lines on the screen. tcell sends the terminal only what has changed.
func draw(screen tcell.Screen, lines []line) {
	styles := [...]tcell.Style{
		plain:   tcell.StyleDefault,
		bold:    tcell.StyleDefault.Bold(true),
		faint:   tcell.StyleDefault.Dim(true),
		reverse: tcell.StyleDefault.Reverse(true),
	}
	screen.Clear()
	for y, l := range lines {
		screen.PutStrStyled(0, y, l.text, styles[l.style])
	}
	screen.Show()
}
