package contract

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// ErrNotInstalled reports that a body has a schema, but the program that applies schemas is missing.
var ErrNotInstalled = failure.New("not_installed", "the program oacp-contract is neither next to oacp nor on the PATH",
	"the workspace has schemas for bodies: go install ./cmd/... in a clone of the repository installs the program")

// ErrNoAnswer reports that the program ended or was too slow, so the body is not checked.
var ErrNoAnswer = failure.New("no_verdict", "the program oacp-contract did not say whether the body matches",
	"oacp doctor checks the schemas of the workspace")

// answerTimeout is how long the program may take to answer. No schema and body that people wrote
// take a thousandth of it. Tests change it.
var answerTimeout = 20 * time.Second

// A Checker asks a running oacp-contract, one body at a time. Any number of goroutines may use it.
type Checker struct {
	schemas *Schemas
	process *exec.Cmd
	stderr  bytes.Buffer

	mu     sync.Mutex
	input  io.WriteCloser
	output io.ReadCloser
	lines  *bufio.Scanner
	lastID uint64
	// err says why the program can no longer answer.
	err error
}

// NewChecker starts the program at the path and gives it the schemas, or returns a Checker that never
// objects if there are none to apply. If schemas cannot be applied, it moves them from Names to Problems. It
// returns ErrNotInstalled for an empty path, and an error that wraps ErrNoAnswer if the program fails.
func NewChecker(ctx context.Context, program string, schemas *Schemas) (*Checker, error) {
	c := &Checker{schemas: schemas}
	if len(schemas.Names) == 0 {
		return c, nil
	}
	if program == "" {
		return nil, ErrNotInstalled
	}
	start, err := json.Marshal(Start{Version: Version, Files: schemas.files, Names: schemas.Names})
	if err != nil {
		return nil, err
	}
	if err := c.start(program); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	var ready Ready
	err = c.exchange(ctx, append(start, '\n'), &ready)
	if err == nil && ready.Version != Version {
		err = fmt.Errorf("%w: it belongs to another version of oacp", ErrNoAnswer)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	for _, p := range ready.Problems {
		schemas.Problems[p.Name] = append(schemas.Problems[p.Name], schemas.problem(p.File, p.Message))
	}
	schemas.Names = slices.DeleteFunc(slices.Clone(schemas.Names), func(name string) bool { return schemas.Problems[name] != nil })
	return c, nil
}

func (c *Checker) start(program string) (err error) {
	c.process = exec.Command(program)
	c.process.Stderr = &c.stderr
	// A child of the program could hold its standard error open.
	c.process.WaitDelay = time.Second
	if c.input, err = c.process.StdinPipe(); err != nil {
		return err
	}
	if c.output, err = c.process.StdoutPipe(); err != nil {
		return err
	}
	c.lines = bufio.NewScanner(c.output)
	c.lines.Buffer(make([]byte, 64<<10), maxLine)
	return c.process.Start()
}

// Check returns the objections of the workspace's schemas to the body of a message. It returns an
// error that wraps ErrNoAnswer if the program does not answer.
func (c *Checker) Check(ctx context.Context, m *schema.Message) ([]validate.Objection, error) {
	names := c.schemas.For(m)
	if len(names) == 0 || m.Body.Kind == schema.Absent {
		return nil, nil // package validate reports a missing body
	}
	q, err := ask(m, names)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	q.ID = c.lastID
	line, err := json.Marshal(q.Request)
	if err != nil {
		return nil, err
	}
	var a Answer
	switch err := c.exchange(ctx, append(line, '\n'), &a); {
	case err != nil:
		return nil, err
	case a.Error != "":
		return nil, fmt.Errorf("%w: %s", ErrNoAnswer, a.Error)
	case a.ID != q.ID:
		return nil, fmt.Errorf("%w: it answered a different question", ErrNoAnswer)
	}
	return objections(&q, a.Violations), nil
}

// exchange writes a line and decodes the answer. If either fails, exchange ends the program.
func (c *Checker) exchange(ctx context.Context, line []byte, answer any) error {
	if c.err != nil {
		return c.err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, fmt.Errorf("%w within %v", ErrNoAnswer, answerTimeout))
	defer cancel()
	defer context.AfterFunc(ctx, c.kill)()
	var err error // remains nil if the program ends without an answer
	if _, writeErr := c.input.Write(line); writeErr == nil && c.lines.Scan() {
		if err = json.Unmarshal(c.lines.Bytes(), answer); err == nil {
			return nil
		}
	}
	err = cmp.Or(err, c.lines.Err())
	c.kill()
	switch waitErr := c.process.Wait(); {
	case context.Cause(ctx) != nil:
		c.err = context.Cause(ctx)
		return c.err
	case err != nil:
		err = fmt.Errorf("an answer cannot be read: %w", err)
	case waitErr != nil:
		err = fmt.Errorf("it exited: %w", waitErr)
	default:
		err = errors.New("it exited")
	}
	text := strings.TrimSpace(c.stderr.String())
	if text = text[strings.LastIndexByte(text, '\n')+1:]; text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	c.err = fmt.Errorf("%w: %w", ErrNoAnswer, err)
	return c.err
}

func (c *Checker) kill() {
	_ = c.process.Process.Kill() // it may have ended
	_ = c.output.Close()         // a child of the program could hold it open
}

// Close ends the program and waits for it. No goroutine may use the checker any more.
func (c *Checker) Close() {
	if c.process == nil {
		return
	}
	_ = c.input.Close()
	defer time.AfterFunc(time.Second, c.kill).Stop()
	_ = c.process.Wait() // its exit status does not change its answers
}
