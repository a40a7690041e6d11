package dashboard

import (
	"sync"

	tea "charm.land/bubbletea/v2"
)

// work is what goes on beside a program, which does not wait for it when it
// ends.
type work struct {
	mu       sync.Mutex
	closed   bool
	underWay sync.WaitGroup
}

// command makes a command of what is to be done, unless work is closed then.
func (w *work) command(do func() tea.Msg) tea.Cmd {
	return func() tea.Msg {
		if !w.begin() {
			return nil
		}
		defer w.underWay.Done()
		return do()
	}
}

func (w *work) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.underWay.Add(1)
	return true
}

// close has no more work begin, and waits for what is under way.
func (w *work) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.underWay.Wait()
}
