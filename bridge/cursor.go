package bridge

import (
	"bytes"
	"fmt"
	"hash/crc32"
)

// Cursor marks a place in a log: behind a line. The empty Cursor is the beginning. A Cursor may be stored
// as text and used by any later process; one of another log is refused.
type Cursor string

// position is a place in a log: behind the line with the given number, which ends at offset.
type position struct {
	offset, line int64
}

// cursorSample is how many bytes of the line before it a cursor checks at most.
const cursorSample = 64

// cursorSum is the checksum of the last bytes of a line with its newline.
func cursorSum(line []byte) uint32 {
	return crc32.Checksum(line[max(0, len(line)-cursorSample):], castagnoli())
}

func formatCursor(p position, sum uint32) Cursor {
	return Cursor(fmt.Sprintf("%x-%x-%08x", p.offset, p.line, sum))
}

// parse takes a cursor apart.
func (c Cursor) parse() (p position, err error) {
	var sum uint32
	_, err = fmt.Sscanf(string(c), "%x-%x-%08x", &p.offset, &p.line, &sum)
	return p, err
}

// find returns the cursor's position in the log, read up to end.
func (c Cursor) find(log *sharedFile, end int64) (position, error) {
	if c == "" {
		return position{}, nil
	}
	p, err := c.parse()
	if err != nil || log == nil || p.offset < 1 || p.offset > end || p.line < 1 {
		return p, fmt.Errorf("%w: %q", ErrUnknownCursor, c)
	}
	sample := make([]byte, min(cursorSample, p.offset))
	if _, err := log.ReadAt(sample, p.offset-int64(len(sample))); err != nil {
		return p, err
	}
	if formatCursor(p, cursorSum(lastLine(sample))) != c {
		return p, fmt.Errorf("%w: %q", ErrUnknownCursor, c)
	}
	return p, nil
}

// lastLine is what a sample that ends with a newline holds of the line before that newline.
func lastLine(sample []byte) []byte {
	return sample[bytes.LastIndexByte(sample[:len(sample)-1], '\n')+1:]
}
