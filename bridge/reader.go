package bridge

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// ReadRecords yields the records of a log that comes as a stream, and a *LineError for each line between them
// that is none; name is what the errors call the stream. A last line without a newline counts if it is a
// record: of a stream that has ended nothing more can come. Any other error is the reader's and ends the
// records. Their cursors are of no log.
func ReadRecords(r io.Reader, name string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		lines := bufio.NewReaderSize(r, largeWindow)
		offset := int64(0)
		for number := int64(1); ; number++ {
			line, err := lines.ReadBytes('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				yield(Entry{}, fmt.Errorf("read %s: %w", name, err))
				return
			}
			last := err != nil
			if last && len(bytes.TrimSpace(line)) == 0 {
				return
			}
			offset += int64(len(line))
			r, parseErr := parse(trimLine(bytes.TrimSuffix(line, []byte("\n")), offset-int64(len(line))))
			switch {
			case parseErr == nil:
				if !yield(newEntry(r, line, number, offset), nil) {
					return
				}
			default:
				if last {
					parseErr = fmt.Errorf("%w: %w", errTorn, parseErr)
				}
				if !yield(Entry{}, &LineError{name, int(number), parseErr}) {
					return
				}
			}
			if last {
				return
			}
		}
	}
}
