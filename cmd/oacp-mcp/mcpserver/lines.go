package mcpserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// lines passes on those lines of a client that are JSON, and answers the others with an error. The SDK's reader would end
// the server at the first one that is not.
type lines struct {
	in     *bufio.Reader
	closer io.Closer
	out    *lineWriter
	// rest is what is left of the line that is passed on.
	rest []byte
}

func newLines(in io.ReadCloser, out *lineWriter) *lines {
	return &lines{in: bufio.NewReader(in), closer: in, out: out}
}

// An inputError is an error of reading from the client, other than the end of the input.
type inputError struct{ error }

func (e inputError) Unwrap() error { return e.error }

// Read passes on at most one line.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.next()
		if len(line) == 0 && err != nil {
			return 0, err
		}
		switch line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\uFEFF"))); {
		case len(line) > maxRequest:
			l.out.refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message has at most %d bytes", maxRequest))
		case json.Valid(line):
			l.rest = append(line, '\n')
		case bytes.HasPrefix(bytes.ToLower(line), []byte("content-")):
			l.out.refuse(jsonrpc.CodeParseError, "each line is one message, without the headers of LSP")
		case len(line) > 0:
			l.out.refuse(jsonrpc.CodeParseError, "the line is not JSON")
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// next returns the next line. Of one that is longer than a message may be, it returns the beginning.
func (l *lines) next() (line []byte, err error) {
	for {
		part, err := l.in.ReadSlice('\n')
		if len(line) <= maxRequest {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == nil, err == io.EOF:
			return line, err
		default:
			return line, inputError{err}
		}
	}
}

func (l *lines) Close() error { return l.closer.Close() }

// lineWriter writes whole lines, which may come from several goroutines.
type lineWriter struct {
	mu sync.Mutex
	io.WriteCloser
}

func (w *lineWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.WriteCloser.Write(line)
}

// refuse answers a line whose message has no id that could be read.
func (w *lineWriter) refuse(code int, problem string) {
	text, _ := json.Marshal(problem)                                                                       // text always becomes JSON
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%s}}`+"\n", code, text) // the next answer fails, too
}
