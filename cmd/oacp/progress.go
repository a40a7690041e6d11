package main

import (
	"fmt"
	"time"

	"github.com/oacp-go/oacp/internal/command"
)

// A progress shows on a terminal how far long work is. Work of less than a second shows nothing.
type progress struct {
	s     *command.Streams
	what  string
	start time.Time
	shown time.Time // when the line was last drawn; zero if there is no line
}

const (
	progressAfter = time.Second
	progressEvery = 100 * time.Millisecond
)

func newProgress(s *command.Streams, what string) *progress {
	return &progress{s: s, what: what, start: s.Now()}
}

// update is called by one goroutine at a time. With nothing done, the work starts again.
func (p *progress) update(done, total int) {
	now := p.s.Now()
	if done == 0 {
		p.clear()
		p.start = now
	}
	if !p.s.ErrTerminal || total <= 0 || now.Sub(p.start) < progressAfter || now.Sub(p.shown) < progressEvery {
		return
	}
	p.shown = now
	// An error of the terminal does not stop the work.
	_, _ = fmt.Fprintf(p.s.Err, "\r%s %3d%% (%d/%d)\x1b[K", p.what, done*100/total, done, total)
}

// waiting says what the work waits for.
func (p *progress) waiting(what string) {
	p.clear()
	p.s.NoteWaiting(what)
}

// clear removes the line before anything else is printed.
func (p *progress) clear() {
	if !p.shown.IsZero() {
		_, _ = fmt.Fprint(p.s.Err, "\r\x1b[K")
		p.shown = time.Time{}
	}
}
