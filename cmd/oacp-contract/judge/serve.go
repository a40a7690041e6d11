// Package judge implements the program oacp-contract: it compiles the schemas that another program
// sends, and answers whether bodies fit them. It reads no files and uses no network.
package judge

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
)

// NewCommand returns the command "oacp contract".
func NewCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:     "contract",
		Category: command.CategoryProgram,
		Usage:    "check bodies against a workspace's schemas",
		Description: `Other commands start this one if a workspace has schemas. It reads the schemas and
then the bodies from standard input, one line of JSON each, and answers on standard
output. It reads no files and uses no network. oacp schema --list shows the schemas of
a workspace, and oacp validate checks messages.`,
		Flags: []cli.Flag{command.JSONFlag(nil)},
		Action: func(c *cli.Context) error {
			if err := command.AtMost(c, 0); err != nil {
				return err
			}
			if s.InTerminal {
				return failure.Usagef("other commands call this one").WithHint("oacp validate checks messages")
			}
			ctx, cancel := context.WithCancel(c.Context)
			defer cancel()
			go watchMemory(ctx, maxMemory, func() { // the schema library cannot be interrupted
				fmt.Fprintf(os.Stderr, "oacp: contract: a body takes more than %d MiB to judge\n", maxMemory>>20)
				os.Exit(failure.ExitFailed)
			})
			return Serve(os.Stdin, os.Stdout)
		},
	}
}

// maxRequest bounds a line of input: a Start with as many files as there may be.
const maxRequest = contract.MaxFiles * 2 * contract.MaxSize

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
	// Bodies leave much garbage, and the process ends soon.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	schemas, ready := compile(start.Files, start.Names)
	if err := answers.Encode(ready); err != nil {
		return err
	}
	for lines.Scan() {
		if err := answers.Encode(schemas.answer(lines.Bytes())); err != nil {
			return err
		}
	}
	return lines.Err()
}

// maxMemory bounds the objects of the process, live and dead, in bytes. If each of several forms of a
// schema leads deeper into the body, the library collects errors without end.
const maxMemory = 512 << 20

// watchMemory calls exceeded and returns as soon as the objects of the process take more than most
// bytes. It also returns when the context ends.
func watchMemory(ctx context.Context, most uint64, exceeded func()) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if metrics.Read(sample); sample[0].Value.Uint64() > most {
				exceeded()
				return
			}
		}
	}
}

// answer answers a line of input.
func (c *compiled) answer(line []byte) contract.Answer {
	var r contract.Request
	if err := json.Unmarshal(line, &r); err != nil {
		return contract.Answer{ID: r.ID, Error: shorten("the request cannot be read: " + err.Error())}
	}
	return c.check(r)
}
