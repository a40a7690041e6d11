package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/oacp-go/oacp/internal/failure"
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

	// AsPerson is set if a person wants the command, not a program: see SessionAgent.
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

// Printf prints a text of the answer. A model may read what is not on the terminal of a person, so nothing in it looks like a tag then.
// Callers escape the values with visible.Line.
func (s *Streams) Printf(format string, values ...any) error {
	_, err := fmt.Fprint(s.Out, textFor(s.OutTerminal && !s.InAgent(), format, values))
	return err
}

// Confirm prints what a command has done. In a turn it goes to standard error: what a program writes to its standard output there
// may be the answer to a message.
func (s *Streams) Confirm(format string, values ...any) {
	if s.inTurn() {
		s.Tell(format, values...)
		return
	}
	_ = s.Printf(format, values...) // flushing the output reports it
}

// Tell is Printf to standard error. What cannot be written does not stop the command.
func (s *Streams) Tell(format string, values ...any) {
	_, _ = fmt.Fprint(s.Err, textFor(s.ErrTerminal && !s.InAgent(), format, values))
}

func textFor(person bool, format string, values []any) string {
	text := fmt.Sprintf(format, values...)
	if person {
		return text
	}
	return visible.Untagged(text)
}

// Warn prints a warning. A warning that cannot be written does not stop the command.
func (s *Streams) Warn(text string) {
	s.Tell("oacp: warning: %s\n", visible.Line(text))
}

// Note prints information that is not a problem.
func (s *Streams) Note(text string) {
	s.Tell("oacp: note: %s\n", visible.Line(text))
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
	err := encoder.Encode(value)
	if out, buffered := w.(*bufio.Writer); buffered && err != nil && errors.Is(out.Flush(), err) {
		return nil // who flushes it next gets the error, and knows what is done
	}
	return err
}

// Zone returns the zone of the times that a command prints for people: the local one on a terminal,
// and UTC elsewhere, so that a file or another program gets the same text on every machine. Times
// in JSON are always in UTC.
func (s *Streams) Zone() *time.Location {
	if s.OutTerminal {
		return time.Local
	}
	return time.UTC
}

// Clock returns the time of day to the second, in the Zone. Outside a terminal it ends in Z.
func (s *Streams) Clock(at time.Time) string { return s.format(at, time.TimeOnly) }

// Time returns the date and the time of day to the second, in the Zone. Outside a terminal it ends
// in Z.
func (s *Streams) Time(at time.Time) string { return s.format(at, time.DateTime) }

func (s *Streams) format(at time.Time, layout string) string {
	text := at.In(s.Zone()).Format(layout)
	if !s.OutTerminal {
		text += "Z"
	}
	return text
}

// Cost returns an amount of dollars as people read it, "" if there is none.
func Cost(usd float64) string {
	switch {
	case usd >= 0.01:
		return fmt.Sprintf("$%.2f", usd)
	case usd > 0:
		return "<$0.01"
	}
	return ""
}

// Count returns a number of tokens as people read it, such as 40k, and "" for none.
func Count(tokens int64) string {
	switch {
	case tokens >= 10_000_000:
		return strconv.FormatInt(tokens/1_000_000, 10) + "M"
	case tokens >= 10_000:
		return strconv.FormatInt(tokens/1000, 10) + "k"
	case tokens > 0:
		return strconv.FormatInt(tokens, 10)
	}
	return ""
}

// Version says what the program was built from.
type Version struct {
	// Version is the tag of the commit, or else a version that names it. It ends in "+dirty" if files differed from it.
	Version string `json:"version"`
	// Commit and Date, the time of the commit, are empty if the program was not built in a git repository.
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// BuildVersion returns what the Go tools recorded in the program.
func BuildVersion() Version {
	v := Version{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Commit = setting.Value
		case "vcs.time":
			v.Date = setting.Value
		}
	}
	return v
}

// String returns the version on one line.
func (v Version) String() string {
	words := []string{"oacp", v.Version, v.Commit, v.Date, v.Go, v.Platform}
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), " ")
}

// NewVersionCommand returns the command that prints the version.
func NewVersionCommand(s *Streams) *cli.Command {
	var asJSON bool
	return &cli.Command{
		Name:     "version",
		Category: CategoryProgram,
		Usage:    "print the version",
		Flags:    []cli.Flag{JSONFlag(&asJSON)},
		Action: func(c *cli.Context) error {
			if err := AtMost(c, 0); err != nil {
				return err
			}
			v := BuildVersion()
			return s.Answer(asJSON, v, func() { fmt.Fprintln(s.Out, v) })
		},
	}
}

// UntilSignal returns a context that SIGINT, SIGTERM or SIGHUP cancels, with a *failure.SignalError
// as its cause. A second SIGINT or SIGTERM kills the process. The caller must call stop, which
// restores the signals. Commands that have nothing to clean up do not need UntilSignal.
//
// A second SIGHUP never kills, because a terminal that closes sends several. A SIGHUP that is
// ignored, as under nohup, stays ignored.
func UntilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals, hangups := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(hangups, syscall.SIGHUP)
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		var got os.Signal
		select {
		case got = <-signals:
		case got = <-hangups:
		case <-ctx.Done():
			return
		}
		signal.Stop(signals)
		number, _ := got.(syscall.Signal)
		cancel(&failure.SignalError{Signal: number})
	})
	return ctx, func() {
		signal.Stop(signals)
		signal.Stop(hangups)
		cancel(nil)
		waiting.Wait()
	}
}

// OutputError returns the error of a write. It matches failure.ErrOutputClosed if the reader of the
// output is gone.
func OutputError(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("%w: %w", failure.ErrOutputClosed, err)
	}
	return err
}

// OutliveOutput lets the process continue after the reader of its output is gone, so that it can
// finish its work: writes fail instead of raising SIGPIPE. Processes that it starts still die of
// SIGPIPE. The caller must call the function returned.
func OutliveOutput() func() {
	pipes := make(chan os.Signal, 1) // nobody receives from it
	signal.Notify(pipes, syscall.SIGPIPE)
	return func() { signal.Stop(pipes) }
}
