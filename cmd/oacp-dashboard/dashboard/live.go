package dashboard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gdamore/tcell/v2"
)

// refreshInterval is how often the view looks for changes.
const refreshInterval = time.Second

// A look is a snapshot, and what a reader has read after it.
type look struct {
	snapshot Snapshot
	reader   reader
	reading  reading
}

// watch looks at the source, now, after every refreshInterval, and when another conversation is opened, which it
// also reads. A nil reader reads nothing.
func watch(ctx context.Context, source *source, opened <-chan reader, looks chan<- look) {
	var l look
	for {
		var err error
		if l.snapshot, err = source.gather(ctx); err != nil {
			return // the context has ended
		}
		if l.reader != nil {
			l.reading = l.reader.read(ctx, l.snapshot)
		}
		select {
		case looks <- l:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(refreshInterval):
		case l.reader = <-opened:
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

	m := newModel(source.config)
	m.resize(screen.Size())
	looks, opened := make(chan look), make(chan reader, 1)
	running.Go(func() { watch(ctx, source, opened, looks) })
	input := make(chan tcell.Event)
	running.Go(func() { screen.ChannelEvents(input, ctx.Done()) })
	for !m.left {
		select {
		case <-ctx.Done():
			return nil
		case l := <-looks:
			m.take(l.snapshot)
			if c := m.conversation; c != nil && c.reader == l.reader {
				c.take(l.reading)
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
				before := m.reader()
				if m.press(keyName(event)); m.reader() != before {
					select {
					case <-opened: // the last one has not been read yet
					default:
					}
					opened <- m.reader()
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

// draw puts the lines on the screen, of which the terminal gets only what has changed.
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
