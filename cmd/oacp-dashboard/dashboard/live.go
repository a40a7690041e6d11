package dashboard

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/gdamore/tcell/v2"
)

// Show shows a live view of the source on a screen until the user leaves it or ctx ends. It looks
// soon after something arrives on changed, and every two seconds.
func Show(ctx context.Context, screen tcell.Screen, source *Source, changed <-chan struct{}) error {
	if err := screen.Init(); err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer screen.Fini()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	m := newModel(ctx, source)
	m.resize(screen.Size())
	actions := make(chan action)
	start := func(tasks []task) {
		for _, t := range tasks {
			running.Go(func() {
				select {
				case actions <- t():
				case <-ctx.Done():
				}
			})
		}
	}
	input := make(chan tcell.Event)
	running.Go(func() { screen.ChannelEvents(input, ctx.Done()) })
	start(m.refresh())
	var drawn []line
	for !m.left {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			start(m.schedule())
		case do := <-actions:
			if do != nil {
				start(do())
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
				start(m.press(keyName(event)))
			}
		}
		if lines := m.screen(); !slices.Equal(lines, drawn) {
			draw(screen, lines)
			drawn = lines
		}
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
