package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// LineError reports a line of a log that was skipped because it is no record.
type LineError struct {
	Path string // the log
	Line int    // counted from 1
	Err  error  // what is wrong with it
}

func (e *LineError) Error() string {
	return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err)
}

func (e *LineError) Unwrap() error { return e.Err }

// errTorn says that bytes stand in the log behind the last newline.
var errTorn = errors.New("last line has no newline")

// Sizes of the window a lineReader reads at once. It grows while lines are read one after the other.
const (
	smallWindow = 4 << 10
	largeWindow = 256 << 10
)

// lineReader finds lines by their position in a file, up to limit. Its lines live until the next call.
type lineReader struct {
	source io.ReaderAt
	limit  int64
	window []byte // the bytes of source from start on
	start  int64
	size   int64 // of the next window
}

func newLineReader(source io.ReaderAt, limit int64) *lineReader {
	return &lineReader{source: source, limit: limit, size: smallWindow}
}

// at returns the line that begins at offset, without its newline, and the offset behind the newline; for
// bytes without a newline errTorn.
func (r *lineReader) at(offset int64) (line []byte, end int64, err error) {
	if offset < r.start || offset >= r.start+int64(len(r.window)) {
		if behind := offset - r.start - int64(len(r.window)); behind >= 0 && behind < r.size && r.window != nil {
			r.size = min(2*r.size, largeWindow)
		} else {
			r.size = smallWindow
		}
		r.window, r.start = r.window[:0], offset
		if err := r.extend(r.size); err != nil {
			return nil, 0, err
		}
	}
	searched := 0
	for {
		rest := r.window[offset-r.start:]
		if i := bytes.IndexByte(rest[searched:], '\n'); i >= 0 {
			return rest[:searched+i], offset + int64(searched+i) + 1, nil
		}
		if offset+int64(len(rest)) >= r.limit {
			return nil, 0, errTorn
		}
		searched = len(rest)
		r.window, r.start = append(r.window[:0], rest...), offset
		if err := r.extend(max(int64(len(rest)), r.size)); err != nil {
			return nil, 0, err
		}
	}
}

// extend reads up to n more bytes behind the window.
func (r *lineReader) extend(n int64) error {
	from := r.start + int64(len(r.window))
	n = min(n, r.limit-from)
	if n <= 0 {
		return nil
	}
	old := len(r.window)
	if need := old + int(n); cap(r.window) < need {
		grown := make([]byte, old, need)
		copy(grown, r.window)
		r.window = grown
	}
	r.window = r.window[:old+int(n)]
	if _, err := io.ReadFull(io.NewSectionReader(r.source, from, n), r.window[old:]); err != nil {
		r.window = r.window[:old]
		return fmt.Errorf("read at byte %d: %w", from, err)
	}
	return nil
}

// trimLine takes away what is no part of a line's JSON: a byte order mark at the start of the log.
func trimLine(line []byte, offset int64) []byte {
	if offset == 0 {
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return line
}
