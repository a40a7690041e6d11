package bridge

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
)

// LoadCursor returns the cursor that SaveCursor left in a file; the beginning where there is no file.
func LoadCursor(path string) (Cursor, error) {
	file, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cursor: %w", err)
	}
	defer file.Close() // it is only read
	const longest = 64
	data, err := io.ReadAll(io.LimitReader(file, longest+1))
	if err != nil {
		return "", fmt.Errorf("cursor: %w", err)
	}
	if len(data) > longest {
		return "", fmt.Errorf("cursor %s: %w: the file is too long for one", path, ErrUnknownCursor)
	}
	return Cursor(strings.TrimSpace(string(data))), nil
}

// SaveCursor writes a cursor to a file, whole and on disk, or not at all.
func SaveCursor(path string, c Cursor) error {
	if err := durable.Replace(path, []byte(c+"\n"), 0o600); err != nil {
		return fmt.Errorf("cursor: %w", err)
	}
	return nil
}

// Line returns the number of the line that the cursor stands behind; 0 is the beginning, and what a text that
// is no cursor gives.
func (c Cursor) Line() int {
	p, err := c.parse()
	if err != nil {
		return 0
	}
	return int(p.line)
}
