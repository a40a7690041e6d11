// Package judge is the program oacp-contract: it compiles the schemas that another program gives it,
// and says whether bodies fit them. It reads no files and uses no network.
package judge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
)

// NewCommand returns the command "oacp contract".
func NewCommand(s *command.Streams) *cli.Command {
	var asJSON bool
	return &cli.Command{
		Name:     "contract",
		Category: command.CategoryProgram,
		Usage:    "say for other commands whether bodies fit the schemas of a workspace",
		Description: `Other commands start this one where a workspace has schemas. It reads the schemas
and then the bodies from standard input, a line of JSON each, and answers on
standard output. It reads no files and uses no network. oacp schema --list shows
the schemas of a workspace, and oacp validate checks messages.`,
		Flags: []cli.Flag{command.JSONFlag(&asJSON)},
		Action: func(c *cli.Context) error {
			if args := command.Positionals(c); len(args) > 0 {
				return failure.Usagef("unexpected argument %s", visible.Quote(args[0]))
			}
			if s.InTerminal {
				return failure.Usagef("other commands call this one").WithHint("oacp validate checks messages")
			}
			ctx, cancel := context.WithCancel(c.Context)
			var watching sync.WaitGroup
			defer watching.Wait()
			defer cancel()
			watching.Go(func() {
				watchMemory(ctx, maxMemory, func() {
					fmt.Fprintf(os.Stderr, "oacp: contract: a body takes more than %d MiB to judge\n", maxMemory>>20)
					os.Exit(failure.ExitFailed) // the library cannot be interrupted
				})
			})
			return Serve(os.Stdin, os.Stdout)
		},
	}
}

// maxRequest bounds a line of input: a Start with as many files as there may be.
const maxRequest = contract.MaxFiles * 2 * contract.MaxSize

// lingering is how long bodies may still be judged when the input has ended.
const lingering = 20 * time.Second

// Serve answers requests until the input ends. The package contract describes them.
func Serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxRequest)
	if !lines.Scan() {
		return lines.Err()
	}
	var start contract.Start
	if err := json.Unmarshal(lines.Bytes(), &start); err != nil {
		return fmt.Errorf("the first line is not the schemas: %w", err)
	}
	w := &answerWriter{out: bufio.NewWriterSize(out, 64<<10)}
	if start.Version != contract.Version {
		return w.write(contract.Ready{Version: contract.Version}, true)
	}
	// Many bodies make much garbage at once, and the process ends soon.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	schemas, ready := compile(start.Files, start.Names)
	if err := w.write(ready, true); err != nil {
		return err
	}
	requests := make(chan []byte, 64)
	var judges sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		judges.Go(func() {
			for line := range requests {
				w.keep(w.write(schemas.answer(line), len(requests) == 0))
			}
		})
	}
	for lines.Scan() && !w.failed() {
		if !hand(requests, bytes.Clone(lines.Bytes())) {
			return errTooLong
		}
	}
	close(requests)
	finished := make(chan struct{})
	go func() {
		judges.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(lingering):
		return errTooLong
	}
	w.keep(lines.Err())
	return w.keep(w.flush())
}

var errTooLong = errors.New("a body takes too long to judge")

// hand hands a request to the goroutines that judge. It returns false if they take none for so long
// that whoever asks has given up.
func hand(requests chan<- []byte, line []byte) bool {
	select {
	case requests <- line:
		return true
	default:
	}
	select {
	case requests <- line:
		return true
	case <-time.After(lingering):
		return false
	}
}

// answer answers a line of input.
func (c *compiled) answer(line []byte) contract.Answer {
	var r contract.Request
	if err := json.Unmarshal(line, &r); err != nil {
		return contract.Answer{ID: r.ID, Error: shorten("the request cannot be read: " + err.Error())}
	}
	return c.judge(r)
}

// An answerWriter writes answers, from several goroutines.
type answerWriter struct {
	mu  sync.Mutex
	out *bufio.Writer
	err error
}

// write writes a line of JSON, and flushes if it is the last for now.
func (w *answerWriter) write(answer any, last bool) error {
	line, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.out.Write(append(line, '\n')); err != nil {
		return err
	}
	if last {
		return w.out.Flush()
	}
	return nil
}

func (w *answerWriter) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Flush()
}

// keep keeps the first error, and returns it.
func (w *answerWriter) keep(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	return w.err
}

func (w *answerWriter) failed() bool { return w.keep(nil) != nil }
