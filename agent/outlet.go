package agent

import (
	"errors"
	"os"
	"sync"
	"time"
)

// An outlet is our end of a pipe that a program writes its output to. Its end may never come:
// whatever the program has started may hold the other end, and may write to it without end. So once
// the program has ended, no more is read than a pipe can hold, and no longer than for a while.
type outlet struct {
	file *os.File

	mu sync.Mutex
	// ended is when the program ended, zero before. From then on, deadline is when reading ends and
	// left is how much is still read.
	ended, deadline time.Time
	left            int
}

// maxPipe is the most that a pipe holds, in bytes, where the system's administrator has not said
// otherwise.
const maxPipe = 1 << 20

// expire says that the program has ended, and how long reading may take.
func (o *outlet) expire(limit time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended, o.left = time.Now(), maxPipe
	o.deadline = o.ended.Add(limit)
	if errors.Is(o.file.SetReadDeadline(o.deadline), os.ErrNoDeadline) {
		// Not all systems can. What has not come by then is given up.
		time.AfterFunc(limit, func() { _ = o.file.Close() })
	}
}

// took notes that a piece of the output was passed on since the given time, which is not reading
// time. It reports whether there may be more.
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

// read passes the output on until it ends, and closes the pipe. An error of take ends it and is
// returned.
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
			return nil // the end, or what comes to the same
		}
	}
}
