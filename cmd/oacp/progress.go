package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// A progress shows on a terminal how far long work is; work of less than a
// second goes without.
type progress struct {
	s     *streams
	what  string
	start time.Time
	total int
	bar   *progressbar.ProgressBar
}

const progressAfter = time.Second

func newProgress(s *streams, what string) *progress {
	return &progress{s: s, what: what, start: s.now()}
}

// update is called by one goroutine at a time. Work that begins anew, with
// nothing done, is counted anew; the total may grow.
func (p *progress) update(done, total int) {
	if done == 0 {
		p.clear()
		p.start = p.s.now()
	}
	if !p.s.errTerminal || p.s.now().Sub(p.start) < progressAfter {
		return
	}
	if p.bar == nil || p.total != total {
		p.total = total
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(p.s.err), progressbar.OptionSetDescription(p.what),
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
