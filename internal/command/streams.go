package command

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/oacp-go/oacp/internal/visible"
)

// Streams are all that a command sees of the process around it.
type Streams struct {
	In  io.Reader
	Out *bufio.Writer
	Err io.Writer

	// Whether the standard streams are terminals.
	InTerminal, OutTerminal, ErrTerminal bool
	// Width is the number of columns of the terminal. It is 0 if the output is not a terminal: then
	// text is never cut.
	Width int

	// AsPerson says that a person wants the command, not a program: see SessionAgent.
	AsPerson bool

	Getenv func(string) string
	// Dir is the working folder. It is empty if that folder was removed.
	Dir string
	Now func() time.Time
}

// ProcessStreams returns the streams of this process.
func ProcessStreams() *Streams {
	s := &Streams{
		In: os.Stdin, Out: bufio.NewWriter(os.Stdout), Err: os.Stderr,
		InTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		OutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		Getenv:      os.Getenv,
		Now:         time.Now,
	}
	if s.OutTerminal {
		if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			s.Width = width
		}
	}
	s.Dir, _ = os.Getwd()
	return s
}

// Color reports whether the output is coloured: on a terminal that has colours, unless NO_COLOR
// (see no-color.org) is set.
func (s *Streams) Color() bool {
	return s.OutTerminal && s.Getenv("NO_COLOR") == "" && s.Getenv("TERM") != "dumb"
}

// Warn prints a warning. A warning that cannot be written does not stop the command.
func (s *Streams) Warn(text string) {
	_, _ = fmt.Fprintf(s.Err, "oacp: warning: %s\n", visible.Line(text))
}

// Note prints something good to know, which is no problem.
func (s *Streams) Note(text string) {
	_, _ = fmt.Fprintf(s.Err, "oacp: note: %s\n", visible.Line(text))
}

// NoteWaiting says what a command waits for.
func (s *Streams) NoteWaiting(what string) { s.Note("waiting for " + what) }

// Answer prints the answer of a command: as indented JSON, or as the text that print prints.
func (s *Streams) Answer(asJSON bool, answer any, print func()) error {
	if asJSON {
		return WriteJSON(s.Out, answer)
	}
	print()
	return nil
}

// JSONFlag is the flag --json, which every command that prints has.
func JSONFlag(destination *bool) cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: destination}
}

// WriteJSON prints one indented object. Characters of HTML are not escaped.
func WriteJSON(w io.Writer, value any) error { return writeJSON(w, value, "  ") }

// WriteJSONLine prints one object on one line.
func WriteJSONLine(w io.Writer, value any) error { return writeJSON(w, value, "") }

func writeJSON(w io.Writer, value any, indent string) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	return encoder.Encode(value)
}
