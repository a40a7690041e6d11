package dashboard

import (
	"context"
	"fmt"
	"sync"

	"github.com/gdamore/tcell/v2"
)

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
	for !m.left {
		select {
		case <-ctx.Done():
			return nil
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
