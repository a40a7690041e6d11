package agent

import (
	"errors"
	"os"
	"sync"
	"time"
)

// An outlet is our end of a pipe that a program writes its output to. The pipe may never end:
// processes that the program started may hold it open and write to it forever. So after the program
// has ended, an outlet reads at most what a pipe can hold, for a limited time.
type outlet struct {
	file *os.File

	mu sync.Mutex
	// ended is when the program ended, zero before. From then on, reading ends at deadline or after
	// left bytes.
	ended, deadline time.Time
	left            int
}

// maxPipe is how much a pipe can hold by default, in bytes.
const maxPipe = 1 << 20

// expire notes that the program has ended, and limits the time for reading.
func (o *outlet) expire(limit time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended, o.left = time.Now(), maxPipe
	o.deadline = o.ended.Add(limit)
	if errors.Is(o.file.SetReadDeadline(o.deadline), os.ErrNoDeadline) {
		// Some systems cannot. Output that comes later is lost.
		time.AfterFunc(limit, func() { _ = o.file.Close() })
	}
}

// took notes that a piece of output was passed on since the given time, which does not count as
// reading time. It reports whether more may come.
func (o *outlet) took(piece int, since time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended.IsZero() {
		return true
	}
	if since.Before(o.ended) {
		since = o.ended
	}
	o.deadline = o.deadline.Add(time.Since(since))
	_ = o.file.SetReadDeadline(o.deadline) // see expire
	o.left -= piece
	return o.left > 0
}

// read passes the output on until it ends, and closes the pipe. It stops at an error of take and
// returns it.
func (o *outlet) read(take func([]byte) error) error {
	defer o.file.Close() // nothing was written to it
	buffer := make([]byte, 64<<10)
	for {
		n, err := o.file.Read(buffer)
		if n > 0 {
			begin := time.Now()
			if err := take(buffer[:n]); err != nil {
				return err
			}
			if !o.took(n, begin) {
				return nil
			}
		}
		if err != nil {
			return nil // the end of the pipe, or its deadline
		}
	}
}
