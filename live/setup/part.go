package setup

import (
	"bytes"
	"slices"
)

// A part is what oacp writes into a file.
type part interface {
	name() string
	// put returns the file with the part, or the same bytes if the file has it.
	put(data []byte) ([]byte, error)
	// take returns the file without the part, the same bytes if the file does not have it, or nil if
	// nothing is left.
	take(data []byte) ([]byte, error)
}

func holds(p part, data []byte) bool {
	rest, err := p.take(data)
	return err == nil && !bytes.Equal(rest, data)
}

func lineEnd(data []byte) string {
	if at := bytes.IndexByte(data, '\n'); at > 0 && data[at-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// appended returns the file with an empty line and a text at its end.
func appended(data []byte, text, newline string) []byte {
	between := ""
	if len(data) > 0 {
		between = newline
		if !bytes.HasSuffix(data, []byte("\n")) {
			between += newline
		}
	}
	return slices.Concat(data, []byte(between+text))
}

// withoutEmptyLine returns the text without the empty line that appended adds after it.
func withoutEmptyLine(before []byte) []byte {
	for _, newline := range []string{"\r\n", "\n"} {
		if bytes.HasSuffix(before, []byte("\n"+newline)) {
			return bytes.TrimSuffix(before, []byte(newline))
		}
	}
	return before
}

// orNothing returns nil if a file has only white space.
func orNothing(data []byte) []byte {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	return data
}
