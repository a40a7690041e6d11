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
	// readBuffer is how much one read from a connection may bring.
	readBuffer = 64 << 10
	// writeChunk is how much must get through before a peer that reads slowly counts as making progress.
	writeChunk = 256 << 10
)

// lineReader cuts a byte stream into lines. Bytes are never turned into text before a line is whole, no byte is
// searched twice, and what it holds is bounded by MaxLine.
type lineReader struct {
	stream *bufio.Reader
}

func newLineReader(stream io.Reader) *lineReader {
	return &lineReader{stream: bufio.NewReaderSize(stream, readBuffer)}
}

// next returns the next line that is not blank, without its line feed; the caller owns it. After the last line it
// returns io.EOF, or io.ErrUnexpectedEOF if the stream ended within a line.
func (r *lineReader) next() ([]byte, error) {
	var line []byte
	for {
		part, err := r.stream.ReadSlice('\n')
		length := len(line) + len(bytes.TrimSuffix(part, []byte("\n")))
		switch {
		case length > MaxLine:
			return nil, ErrLineTooLong
		case err == nil && line == nil && len(trimSpace(part)) == 0:
			continue
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:length], nil
		case errors.Is(err, bufio.ErrBufferFull):
			line = grow(line)
		case errors.Is(err, io.EOF) && length > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// grow doubles a full line's room; append by itself would copy a long line several times more often.
func grow(line []byte) []byte {
	if cap(line)-len(line) >= readBuffer {
		return line
	}
	return append(make([]byte, 0, 2*len(line)+readBuffer), line...)
}

// lineWriter sends whole lines to one connection, from any goroutine. After a failure the connection is closed: a line
// that got through in part must not be continued by another.
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

// write sends one line. It gives up when ctx ends or when the peer takes no chunk of the line for the writer's patience.
func (w *lineWriter) write(ctx context.Context, line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return w.failed
	}
	if err := ctx.Err(); err != nil {
		return err // nothing of the line is out yet: the connection stays good
	}
	stop := context.AfterFunc(ctx, func() { _ = w.conn.SetWriteDeadline(longAgo) })
	defer stop()
	for len(line) > 0 {
		chunk := line[:min(len(line), writeChunk)]
		err := w.conn.SetWriteDeadline(time.Now().Add(time.Duration(w.patient.Load())))
		if err == nil {
			err = ctx.Err() // the deadline just set may have undone the one that ctx set
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

// hurry lets the current write and all later ones take no longer than patience.
func (w *lineWriter) hurry(patience time.Duration) {
	w.patient.Store(min(w.patient.Load(), int64(patience)))
	_ = w.conn.SetWriteDeadline(time.Now().Add(patience)) // on a closed connection there is nothing to hurry
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)
