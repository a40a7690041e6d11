package jsonl

import (
	"bytes"
	"fmt"
	"io"
	"slices"
)

// windowSize is how many bytes a Reader reads at once.
const windowSize = 32 << 10

// Reader reads complete lines of a file by their offsets. It is not safe for concurrent use.
type Reader struct {
	source io.ReaderAt
	window []byte // the bytes of source from start on
	start  int64
}

// NewReader returns a reader of the lines in source.
func NewReader(source io.ReaderAt) *Reader { return &Reader{source: source} }

// Line returns the line that begins at offset, with its newline, and the offset of the next line.
// The bytes are valid until the next call. The error is io.EOF if the file ends at offset or in a
// partial line; a later call returns the line once it is complete.
func (r *Reader) Line(offset int64) (line []byte, next int64, err error) {
	if err := r.seek(offset); err != nil {
		return nil, offset, err
	}
	for searched := 0; ; {
		rest := r.window[offset-r.start:]
		if i := bytes.IndexByte(rest[searched:], '\n'); i >= 0 {
			line = rest[:searched+i+1]
			return line, offset + int64(len(line)), nil
		}
		searched = len(rest)
		r.window, r.start = slices.Delete(r.window, 0, int(offset-r.start)), offset
		if err := r.extend(max(searched, windowSize)); err != nil {
			return nil, offset, err
		}
	}
}

// Each calls f with each complete line of source from offset on, and returns the offset after the last one. A line is
// valid until f returns.
func Each(source io.ReaderAt, offset int64, f func(line []byte)) (end int64, err error) {
	lines := NewReader(source)
	for {
		line, next, err := lines.Line(offset)
		if err == io.EOF {
			return offset, nil
		}
		if err != nil {
			return offset, err
		}
		f(line)
		offset = next
	}
}

// seek makes the window hold the byte at offset.
func (r *Reader) seek(offset int64) error {
	if r.start <= offset && offset < r.start+int64(len(r.window)) {
		return nil
	}
	r.window, r.start = r.window[:0], offset
	return r.extend(windowSize)
}

// extend reads up to n more bytes into the window, and returns io.EOF if there are none.
func (r *Reader) extend(n int) error {
	old := len(r.window)
	r.window = slices.Grow(r.window, n)[:old+n]
	read, err := r.source.ReadAt(r.window[old:], r.start+int64(old))
	r.window = r.window[:old+read]
	switch {
	case read > 0:
		return nil
	case err == io.EOF:
		return io.EOF
	}
	return fmt.Errorf("reading at byte %d: %w", r.start+int64(old), err)
}
