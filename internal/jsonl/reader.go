package jsonl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// ErrTooLong reports a line longer than the reader's bound.
var ErrTooLong = errors.New("line is too long")

// windowSize is how many bytes a Reader reads at once.
const windowSize = 32 << 10

// Reader reads complete lines of a file by their offsets. It is not safe for concurrent use.
type Reader struct {
	source  io.ReaderAt
	longest int
	window  []byte // the bytes of source from start on
	start   int64
}

// NewReader returns a reader of the lines in source. A line may have at most longest bytes with its
// newline; 0 means any number. A source that must be read up to some offset only is an
// io.SectionReader.
func NewReader(source io.ReaderAt, longest int) *Reader {
	return &Reader{source: source, longest: longest}
}

// Line returns the line that begins at offset, with its newline, and the offset of the next line.
// The bytes are valid until the next call. The error is io.EOF if there is no newline at or behind
// offset: either the file ends there, or in a partial line. Calling Line again later finds what was
// appended meanwhile. A line that exceeds the bound gives ErrTooLong and the offset of the next
// line.
func (r *Reader) Line(offset int64) (line []byte, next int64, err error) {
	if err := r.seek(offset); err != nil {
		return nil, offset, err
	}
	kept := offset // the bytes of the line before kept were dropped: it is too long
	for searched := 0; ; {
		rest := r.window[kept-r.start:]
		if i := bytes.IndexByte(rest[searched:], '\n'); i >= 0 {
			line = rest[:searched+i+1]
			next = kept + int64(len(line))
			if r.longest > 0 && next-offset > int64(r.longest) {
				return nil, next, ErrTooLong
			}
			return line, next, nil
		}
		searched = len(rest)
		if r.longest > 0 && kept+int64(len(rest))-offset >= int64(r.longest) {
			kept, searched = kept+int64(len(rest)), 0
		}
		r.window, r.start = slices.Delete(r.window, 0, int(kept-r.start)), kept
		if err := r.extend(max(searched, windowSize)); err != nil {
			return nil, offset, err
		}
	}
}

// seek makes the window begin at offset or before it, with at least one byte behind it.
func (r *Reader) seek(offset int64) error {
	if r.start <= offset && offset < r.start+int64(len(r.window)) {
		return nil
	}
	r.window, r.start = r.window[:0], offset
	return r.extend(windowSize)
}

// extend reads up to n bytes more behind the window, and returns io.EOF if there are none.
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
