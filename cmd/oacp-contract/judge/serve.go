// Package judge is the program oacp-contract: it compiles the schemas that another program gives it,
// and says whether bodies fit them. It reads no files and uses no network.
package judge

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
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
		Usage:    "check bodies against a workspace's schemas",
		Description: `Other commands start this one if a workspace has schemas. It reads the schemas and
then the bodies from standard input, one line of JSON each, and answers on standard
output. It reads no files and uses no network. oacp schema --list shows the schemas of
a workspace, and oacp validate checks messages.`,
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
				watchMemory(ctx, maxMemory, func() { exit(fmt.Sprintf("a body takes more than %d MiB to judge", maxMemory>>20)) })
			})
			return Serve(os.Stdin, os.Stdout)
		},
	}
}

// maxRequest bounds a line of input: a Start with as many files as there may be.
const maxRequest = contract.MaxFiles * 2 * contract.MaxSize

// maxTime bounds the work on a body. The program that asked waits for a shorter time.
const maxTime = 30 * time.Second

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
	answers := json.NewEncoder(out)
	if start.Version != contract.Version {
		return answers.Encode(contract.Ready{Version: contract.Version})
	}
	// Many bodies make much garbage at once, and the process ends soon.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	schemas, ready := compile(start.Files, start.Names)
	if err := answers.Encode(ready); err != nil {
		return err
	}
	for lines.Scan() {
		late := time.AfterFunc(maxTime, func() { exit(fmt.Sprintf("a body takes more than %v to judge", maxTime)) })
		answer := schemas.answer(lines.Bytes())
		late.Stop()
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

// exit ends the process: the schema library cannot be interrupted.
func exit(message string) {
	fmt.Fprintln(os.Stderr, "oacp: contract: "+message)
	os.Exit(failure.ExitFailed)
}

// answer answers a line of input.
func (c *compiled) answer(line []byte) contract.Answer {
	var r contract.Request
	if err := json.Unmarshal(line, &r); err != nil {
		return contract.Answer{ID: r.ID, Error: shorten("the request cannot be read: " + err.Error())}
	}
	return c.judge(r)
}
