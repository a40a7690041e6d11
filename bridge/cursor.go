package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
)

// Cursor is a place in a log, behind a line. The empty Cursor is the beginning. A Cursor may be
// stored as text and used by any later process. A log refuses the cursors of another log.
type Cursor string

// position is a place in a log: behind the line with the given number, which ends at offset.
type position struct {
	offset, line int64
}

// cursorSample is how many bytes of the line before it a cursor checks at most.
const cursorSample = 64

// cursorSum is the CRC-32C of the last bytes of a line with its newline.
func cursorSum(line []byte) uint32 {
	return crc32.Checksum(line[max(0, len(line)-cursorSample):], crc32.MakeTable(crc32.Castagnoli))
}

func formatCursor(p position, sum uint32) Cursor {
	return Cursor(fmt.Sprintf("%x-%x-%08x", p.offset, p.line, sum))
}

func (c Cursor) parse() (p position, err error) {
	var sum uint32
	_, err = fmt.Sscanf(string(c), "%x-%x-%08x", &p.offset, &p.line, &sum)
	return p, err
}

// Line returns the number of the line before the cursor. It is 0 at the beginning, and for a text
// that is not a cursor.
func (c Cursor) Line() int {
	p, err := c.parse()
	if err != nil || p.line < 0 {
		return 0
	}
	return int(p.line)
}

// find returns the cursor's place in the part of the log that was read. The caller holds mu.
func (l *Log) find(c Cursor) (position, error) {
	if c == "" {
		return position{}, nil
	}
	p, err := c.parse()
	if err != nil || p.offset < 1 || p.offset > l.read.End || p.line < 1 {
		return p, fmt.Errorf("%w: %q", ErrUnknownCursor, c)
	}
	found, err := l.cursorAt(p)
	if err == nil && found != c {
		err = fmt.Errorf("%w: %q", ErrUnknownCursor, c)
	}
	return p, err
}

// End returns the cursor behind the last complete line.
func (l *Log) End(ctx context.Context) (Cursor, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(ctx, false); err != nil || l.read.End == 0 {
		return "", err
	}
	return l.cursorAt(position{l.read.End, l.read.Lines})
}

// cursorAt returns the cursor of a place that is not the beginning.
func (l *Log) cursorAt(p position) (Cursor, error) {
	sample := make([]byte, min(cursorSample, p.offset))
	_, err := l.file.ReadAt(sample, p.offset-int64(len(sample)))
	line := sample[bytes.LastIndexByte(sample[:len(sample)-1], '\n')+1:]
	return formatCursor(p, cursorSum(line)), err
}

// LoadCursor returns the cursor that SaveCursor wrote to a file for an agent, or the empty Cursor if
// there is no file. The error matches ErrUnknownCursor if the file belongs to another agent, because its
// cursor may skip records for this one.
func LoadCursor(path, agent string) (Cursor, error) {
	const longest = 4 << 10
	data, err := durable.ReadPath(path, longest)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cursor: %w", err)
	}
	text, owner, owned := strings.Cut(strings.TrimRight(string(data), "\r\n"), " ")
	if owned && owner != agent { // earlier versions wrote no agent
		return "", fmt.Errorf("cursor %s: %w: it is the cursor of %q, not of %q", path, ErrUnknownCursor, owner, agent)
	}
	return Cursor(text), nil
}

// SaveCursor writes an agent's cursor to a file, completely and durably, or not at all.
func SaveCursor(path, agent string, c Cursor) error {
	if err := durable.Replace(path, []byte(string(c)+" "+agent+"\n"), 0o600); err != nil {
		return fmt.Errorf("cursor: %w", err)
	}
	return nil
}
