package agent

import (
	"bytes"
	"fmt"
	"sync"
)

// maxLine bounds a line that an agent prints, in bytes. A line may hold whole files and pictures.
const maxLine = 64 << 20

// lineSplitter cuts a stream into lines.
type lineSplitter struct {
	line    func([]byte)
	limit   int
	partial []byte
}

// add splits the next piece of the stream. It returns an error for a line over the limit, which
// ends the stream.
func (s *lineSplitter) add(data []byte) error {
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n')
		piece := data
		if end >= 0 {
			piece = data[:end]
		}
		if len(s.partial)+len(piece) > s.limit {
			return fmt.Errorf("the agent printed a line of more than %d bytes", s.limit)
		}
		s.partial = append(s.partial, piece...)
		if end < 0 {
			return nil
		}
		line := s.partial
		s.partial = nil
		data = data[end+1:]
		if len(bytes.TrimSpace(line)) > 0 {
			s.line(line)
		}
	}
	return nil
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
