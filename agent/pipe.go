package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// maxLine bounds a line that an agent prints, in bytes. A line may hold whole files and pictures.
const maxLine = 64 << 20

// lineSplitter cuts a stream into lines.
type lineSplitter struct {
	line    func([]byte)
	limit   int
	partial []byte
}

// Write splits the next piece of the stream. It returns an error for a line over the limit, which
// ends the stream.
func (s *lineSplitter) Write(data []byte) (int, error) {
	length := len(data)
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n')
		piece := data
		if end >= 0 {
			piece = data[:end]
		}
		if len(s.partial)+len(piece) > s.limit {
			return 0, fmt.Errorf("the agent printed a line of more than %d bytes", s.limit)
		}
		s.partial = append(s.partial, piece...)
		if end < 0 {
			break
		}
		line := s.partial
		s.partial = nil
		data = data[end+1:]
		if len(bytes.TrimSpace(line)) > 0 {
			s.line(line)
		}
	}
	return length, nil
}

// end passes on the last line, which has no line feed.
func (s *lineSplitter) end() {
	line := s.partial
	s.partial = nil
	if len(bytes.TrimSpace(line)) > 0 {
		s.line(line)
	}
}

// lineQueue holds lines to be written, so that a sender never waits for a program that itself waits
// to be read.
type lineQueue struct {
	mu      sync.Mutex
	changed *sync.Cond
	lines   [][]byte
	closed  bool
}

func (q *lineQueue) init() { q.changed = sync.NewCond(&q.mu) }

func (q *lineQueue) add(line []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.lines = append(q.lines, line)
		q.changed.Signal()
	}
}

// close ends the queue: no more lines come.
func (q *lineQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Signal()
}

// next waits for a line. It reports false after the last.
func (q *lineQueue) next() ([]byte, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.lines) == 0 && !q.closed {
		q.changed.Wait()
	}
	if len(q.lines) == 0 {
		return nil, false
	}
	line := q.lines[0]
	q.lines[0] = nil
	q.lines = q.lines[1:]
	return line, true
}

// An outlet is our end of a pipe that a program writes its output to. The pipe may never end:
// processes that the program started may hold it open and write to it forever. So after the program
// has ended, an outlet reads at most what a pipe can hold, for a limited time.
type outlet struct {
	pipe *os.File

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
	if errors.Is(o.pipe.SetReadDeadline(o.deadline), os.ErrNoDeadline) {
		// Some systems cannot. Output that comes later is lost.
		time.AfterFunc(limit, func() { _ = o.pipe.Close() })
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
	_ = o.pipe.SetReadDeadline(o.deadline) // see expire
	o.left -= piece
	return o.left > 0
}

// read passes the output on until it ends, and closes the pipe. It stops at an error of the writer
// and returns it.
func (o *outlet) read(to io.Writer) error {
	defer o.pipe.Close() // nothing was written to it
	buffer := make([]byte, 64<<10)
	for {
		n, err := o.pipe.Read(buffer)
		if n > 0 {
			begin := time.Now()
			if _, err := to.Write(buffer[:n]); err != nil {
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
