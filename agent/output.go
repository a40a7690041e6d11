package agent

import (
	"cmp"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/oacp-go/oacp/internal/visible"
)

// maxTail bounds the end of the output that is kept, in bytes.
const maxTail = 16 << 10

// output collects what a command prints, in bounded memory: the beginning of its standard output,
// which is the answer, the end of everything, and the end of the error output.
type output struct {
	observe func(Event)

	mu        sync.Mutex
	text      []byte
	truncated bool
	tail      ending
	errors    ending // the end of the error output alone
}

func newOutput(observe func(Event)) *output {
	return &output{observe: observe}
}

// stream returns the writer for standard output or for the error output.
func (o *output) stream(isError bool) io.Writer {
	return &stream{output: o, isError: isError}
}

// add records text as standard output.
func (o *output) add(text string) { _, _ = o.stream(false).Write([]byte(text)) } // Write never fails

// addStderr records text as error output.
func (o *output) addStderr(text string) { _, _ = o.stream(true).Write([]byte(text)) } // Write never fails

// result returns the output collected so far.
func (o *output) result() Result {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := o.text
	if o.truncated {
		text = text[:wholeRunes(text)]
	}
	tail := o.tail.String()
	return Result{
		Text:      strings.ToValidUTF8(string(text), "\uFFFD"),
		Truncated: o.truncated,
		Tail:      tail,
		LastLine:  cmp.Or(lastLine(o.errors.String()), lastLine(tail)),
	}
}

// setAnswer sets the answer to the text, but at most MaxText bytes of it.
func (r *Result) setAnswer(text string) {
	answer := visible.CutBytes(text, MaxText)
	r.Text = strings.ToValidUTF8(answer, "\uFFFD")
	r.Truncated = len(answer) < len(text)
}

// A stream is the standard output or the error output of a command.
type stream struct {
	output  *output
	isError bool
	// partial is an incomplete character at the end of the stream so far.
	partial []byte
}

// Write never fails, so that a command never dies of a closed pipe.
func (s *stream) Write(data []byte) (int, error) {
	o := s.output
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tail.write(data)
	if s.isError {
		o.errors.write(data)
	} else {
		keep := min(len(data), MaxText-len(o.text))
		o.text = append(o.text, data[:keep]...)
		o.truncated = o.truncated || keep < len(data)
	}
	if o.observe != nil {
		piece := append(s.partial, data...)
		whole := wholeRunes(piece)
		s.partial = append([]byte(nil), piece[whole:]...)
		if whole > 0 {
			o.observe(Event{Text: strings.ToValidUTF8(string(piece[:whole]), "\uFFFD"), Error: s.isError})
		}
	}
	return len(data), nil
}

// wholeRunes returns the length of the data without an incomplete character at its end.
func wholeRunes(data []byte) int {
	for back := 1; back <= min(utf8.UTFMax-1, len(data)); back++ {
		if start := len(data) - back; utf8.RuneStart(data[start]) {
			if !utf8.FullRune(data[start:]) {
				return start
			}
			break
		}
	}
	return len(data)
}

// ending holds at least the last maxTail bytes written to it.
type ending struct{ data []byte }

func (e *ending) write(data []byte) {
	data = data[max(0, len(data)-maxTail):]
	if len(e.data)+len(data) > 4*maxTail {
		e.data = append(e.data[:0], e.data[len(e.data)-maxTail:]...)
	}
	e.data = append(e.data, data...)
}

func (e *ending) String() string {
	text := e.data[max(0, len(e.data)-maxTail):]
	for len(text) > 0 && len(e.data) >= maxTail && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}
