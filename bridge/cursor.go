package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"strconv"
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

// cursorSum is the CRC-32C of the last bytes of a line with its newline, and of its number.
func cursorSum(line []byte, number int64) uint32 {
	return crc32.Update(lineSum(line), castagnoli, strconv.AppendInt(nil, number, 10))
}

// lineSum is what earlier versions put into cursors. It does not cover the number of the line.
func lineSum(line []byte) uint32 {
	return crc32.Checksum(line[max(0, len(line)-cursorSample):], castagnoli)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

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
	line, err := l.lineBefore(p)
	if err == nil && c != formatCursor(p, cursorSum(line, p.line)) && c != formatCursor(p, lineSum(line)) {
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
	end := position{l.read.End, l.read.Lines}
	line, err := l.lineBefore(end)
	return formatCursor(end, cursorSum(line, end.line)), err
}

// lineBefore returns the end of the line before a place that is not the beginning.
func (l *Log) lineBefore(p position) ([]byte, error) {
	sample := make([]byte, min(cursorSample, p.offset))
	_, err := l.file.ReadAt(sample, p.offset-int64(len(sample)))
	return sample[bytes.LastIndexByte(sample[:len(sample)-1], '\n')+1:], err
}

// LoadCursor returns what SaveCursor wrote to a file for an agent: a cursor and the path of its log, both empty if there is no
// file. Earlier versions wrote no path. The error matches ErrUnknownCursor if the file belongs to another agent, because its
// cursor may skip records for this one.
func LoadCursor(path, agent string) (c Cursor, log string, err error) {
	const longest = 8 << 10
	data, err := durable.ReadPath(path, longest)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("cursor: %w", err)
	}
	first, log, _ := strings.Cut(strings.TrimRight(string(data), "\r\n"), "\n")
	text, owner, owned := strings.Cut(strings.TrimRight(first, "\r"), " ")
	if owned && owner != agent { // earlier versions wrote no agent
		return "", "", fmt.Errorf("cursor %s: %w: it is the cursor of %q, not of %q", path, ErrUnknownCursor, owner, agent)
	}
	return Cursor(text), log, nil
}

// SaveCursor writes an agent's cursor of a log to a file, completely and durably, or not at all.
func SaveCursor(path, agent string, c Cursor, log string) error {
	if err := durable.Replace(path, []byte(string(c)+" "+agent+"\n"+log+"\n"), 0o600); err != nil {
		return fmt.Errorf("cursor: %w", err)
	}
	return nil
}
