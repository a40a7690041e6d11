package validate

import (
	"errors"
	"io"
	"iter"

	"github.com/oacp-go/oacp/schema"
)

// ReadFiles yields, for each file that the paths mean (see Files), the message that Read returns or
// an *InvalidError whose diagnostics name the file. The standard input, for the path "-", may be
// nil.
func ReadFiles(paths []string, stdin io.Reader) iter.Seq2[*schema.Message, error] {
	return func(yield func(*schema.Message, error) bool) {
		from := reader{stdin: stdin}
		defer from.close()
		buffer := make([]byte, 0, firstBuffer)
		for _, t := range walk(paths) {
			var m *schema.Message
			var err error
			if m, buffer, err = from.message(&t, buffer[:0]); !yield(m, err) {
				return
			}
		}
	}
}

// message reads the message of a target and returns the buffer that it read the file into.
func (r *reader) message(t *target, buffer []byte) (*schema.Message, []byte, error) {
	buffer, problem := r.read(t, buffer)
	if problem != nil {
		return nil, buffer, Diagnostics{*problem}.in(t.shownName(), "").Err()
	}
	m, err := Read(buffer)
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		err = invalid.Diagnostics.in(t.shownName(), string(buffer)).Err()
	}
	return m, buffer, err
}
