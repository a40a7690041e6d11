package main

import (
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/oacp-go/oacp/internal/command"
)

// A progress shows on a terminal how far long work is; work of less than a
// second goes without.
type progress struct {
	s     *command.Streams
	what  string
	start time.Time
	total int
	bar   *progressbar.ProgressBar
}

const progressAfter = time.Second

func newProgress(s *command.Streams, what string) *progress {
	return &progress{s: s, what: what, start: s.Now()}
}

// update is called by one goroutine at a time. Work that begins anew, with
// nothing done, is counted anew; the total may grow.
func (p *progress) update(done, total int) {
	if done == 0 {
		p.clear()
		p.start = p.s.Now()
	}
	if !p.s.ErrTerminal || p.s.Now().Sub(p.start) < progressAfter {
		return
	}
	if p.bar == nil || p.total != total {
		p.total = total
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(p.s.Err), progressbar.OptionSetDescription(p.what),
			progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(),
			progressbar.OptionThrottle(100*time.Millisecond))
	}
	// What cannot be shown on the terminal is not worth failing for.
	_ = p.bar.Set(done)
}

// clear removes the bar before anything else is printed.
func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}
