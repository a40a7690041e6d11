package ash

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// readBuffer is the size of a read from a connection.
	readBuffer = 64 << 10
	// writeChunk is how much a slow reader must take within the timeout.
	writeChunk = 256 << 10
)

// lineReader cuts a byte stream into lines of at most MaxLine bytes. It searches no byte twice.
type lineReader struct {
	scanner  *bufio.Scanner
	searched int // how much of the current line holds no line feed
}

func newLineReader(stream io.Reader) *lineReader {
	r := &lineReader{scanner: bufio.NewScanner(stream)}
	r.scanner.Buffer(make([]byte, 0, readBuffer), MaxLine+1)
	r.scanner.Split(r.split)
	return r
}

func (r *lineReader) split(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if end := bytes.IndexByte(data[r.searched:], '\n'); end >= 0 {
		end += r.searched
		r.searched = 0
		return end + 1, data[:end], nil
	}
	r.searched = len(data)
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}

// next returns the next line that is not blank, without its line feed; the caller owns it. At the
// end it returns io.EOF, or io.ErrUnexpectedEOF within a line.
func (r *lineReader) next() ([]byte, error) {
	for r.scanner.Scan() {
		if line := r.scanner.Bytes(); len(trimSpace(line)) > 0 {
			return bytes.Clone(line), nil
		}
	}
	switch err := r.scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, ErrLineTooLong
	case err != nil:
		return nil, err
	}
	return nil, io.EOF
}

// lineWriter sends whole lines from any goroutine. After a failure it closes the connection,
// because another line must not follow half of one.
type lineWriter struct {
	conn    net.Conn
	patient atomic.Int64 // how long a chunk may take, a time.Duration

	mu     sync.Mutex
	failed error
}

func newLineWriter(conn net.Conn, patience time.Duration) *lineWriter {
	w := &lineWriter{conn: conn}
	w.patient.Store(int64(patience))
	return w
}

// write sends a line. It gives up if ctx ends, or if the peer takes no chunk for the writer's
// patience.
func (w *lineWriter) write(ctx context.Context, line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return w.failed
	}
	if err := ctx.Err(); err != nil {
		return err // nothing was sent, so the connection is intact
	}
	stop := context.AfterFunc(ctx, func() { _ = w.conn.SetWriteDeadline(longAgo) })
	defer stop()
	for len(line) > 0 {
		chunk := line[:min(len(line), writeChunk)]
		err := w.conn.SetWriteDeadline(time.Now().Add(time.Duration(w.patient.Load())))
		if err == nil {
			err = ctx.Err() // the deadline may have replaced the one that ctx set
		}
		if err == nil {
			_, err = w.conn.Write(chunk)
		}
		if err != nil {
			w.failed = err
			return errors.Join(err, w.conn.Close())
		}
		line = line[len(chunk):]
	}
	return nil
}

// hurry limits the current write and all later ones to the patience.
func (w *lineWriter) hurry(patience time.Duration) {
	w.patient.Store(min(w.patient.Load(), int64(patience)))
	_ = w.conn.SetWriteDeadline(time.Now().Add(patience)) // fails only on a closed connection
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)
