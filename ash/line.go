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
	// writePatience is how long the other end may take to read writeChunk bytes before the connection
	// counts as lost.
	writePatience = time.Minute
	writeChunk    = 256 << 10
)

// lineReader cuts a byte stream into lines of at most MaxLine bytes.
type lineReader struct{ stream *bufio.Reader }

func newLineReader(stream io.Reader) lineReader {
	return lineReader{bufio.NewReaderSize(stream, readBuffer)}
}

// next returns the next line that is not blank, without its line feed; the caller owns it. At the
// end it returns io.EOF, or io.ErrUnexpectedEOF within a line.
func (r lineReader) next() ([]byte, error) {
	var line []byte
	for {
		piece, err := r.stream.ReadSlice('\n')
		line = append(line, piece...)
		whole := bytes.TrimSuffix(line, []byte("\n"))
		switch {
		case len(whole) > MaxLine:
			return nil, errLineTooLong
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return nil, err
		case len(trimSpace(whole)) > 0:
			return whole, nil
		default:
			line = nil
		}
	}
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
		patience := w.patient.Load()
		err := w.conn.SetWriteDeadline(time.Now().Add(time.Duration(patience)))
		// The deadline may have replaced that of hurry or of ctx.
		if w.patient.Load() != patience {
			continue
		}
		if err == nil {
			err = ctx.Err()
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
