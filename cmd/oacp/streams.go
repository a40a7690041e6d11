package main

import (
	"bufio"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// streams is all that a command sees of the process around it.
type streams struct {
	in  io.Reader
	out *bufio.Writer
	err io.Writer

	// Whether the standard streams are terminals.
	inTerminal, outTerminal, errTerminal bool
	// width is the number of columns of the terminal, 0 where the output is
	// no terminal and text is never cut.
	width int

	getenv func(string) string
	// dir is the working folder.
	dir string
	now func() time.Time
}

func processStreams() *streams {
	s := &streams{
		in: os.Stdin, out: bufio.NewWriter(os.Stdout), err: os.Stderr,
		inTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		outTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		errTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		getenv:      os.Getenv,
		now:         time.Now,
	}
	if s.outTerminal {
		if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			s.width = width
		}
	}
	// A working folder that was removed has no name: whoever needs it then
	// says so.
	s.dir, _ = os.Getwd()
	return s
}

// color reports whether output is to be coloured: on a terminal, unless
// NO_COLOR (see no-color.org) or a terminal without colours says otherwise.
func (s *streams) color() bool {
	return s.outTerminal && s.getenv("NO_COLOR") == "" && s.getenv("TERM") != "dumb"
}
