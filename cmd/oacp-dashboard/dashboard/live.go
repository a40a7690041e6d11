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
	events := make(chan any)
	start := func(tasks []task) {
		for _, t := range tasks {
			running.Go(func() {
				select {
				case events <- t():
				case <-ctx.Done():
				}
			})
		}
	}
	input := make(chan tcell.Event)
	running.Go(func() { screen.ChannelEvents(input, ctx.Done()) })
	start(m.look())
	start([]task{m.after(refreshInterval, tickEvent{})})
	var drawn []line
	for !m.left {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			start(m.handle(changeEvent{}))
		case event := <-events:
			start(m.handle(event))
		case event, open := <-input:
			if !open {
				return nil
			}
			start(m.handle(translate(event, screen)))
		}
		if lines := m.screen(); !slices.Equal(lines, drawn) {
			draw(screen, lines)
			drawn = lines
		}
	}
	return nil
}

// translate returns the event of the model for one of the terminal.
func translate(event tcell.Event, screen tcell.Screen) any {
	switch event := event.(type) {
	case *tcell.EventResize:
		screen.Sync()
		width, height := event.Size()
		return sizeEvent{width, height}
	case *tcell.EventKey:
		if event.Key() == tcell.KeyRune {
			return string(event.Rune())
		}
		return tcell.KeyNames[event.Key()]
	}
	return nil
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
