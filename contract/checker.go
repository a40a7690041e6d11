package contract

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// Program is the name of the program that applies schemas.
const Program = "oacp-contract"

// ErrNotInstalled says that a body has to fit a schema and the program that applies schemas is
// missing.
var ErrNotInstalled = errors.New("the program " + Program + " is neither beside oacp nor on the PATH")

// ErrNoAnswer says that the program ended or was too slow, so nothing can be said about a body.
var ErrNoAnswer = errors.New("the program " + Program + " did not say whether the body fits")

// answerTimeout is how long the program may take to answer. No schema and body that people wrote
// take a thousandth of it. Tests change it.
var answerTimeout = 20 * time.Second

// A Checker asks a running oacp-contract. Any number of goroutines may use it.
type Checker struct {
	schemas *Schemas
	timeout time.Duration
	// texts are the names of the schemas that allow text.
	texts []string

	process  *exec.Cmd
	input    io.WriteCloser
	output   io.ReadCloser
	stderr   tail
	requests chan []byte
	// ended is closed when the program can no longer answer; err says why.
	ended chan struct{}
	// writing waits for the goroutine that writes.
	writing sync.WaitGroup

	mu      sync.Mutex
	lastID  uint64
	waiting map[uint64]chan Answer
	err     error
}

// NewChecker starts the program at the path and gives it the schemas, or returns a Checker that never
// objects if there are none to apply. It moves schemas that cannot be applied to their Problems. It
// returns ErrNotInstalled for an empty path, and an error that wraps ErrNoAnswer if the program fails.
func NewChecker(ctx context.Context, program string, schemas *Schemas) (*Checker, error) {
	c := &Checker{
		schemas: schemas, timeout: answerTimeout, requests: make(chan []byte, 64),
		ended: make(chan struct{}), waiting: make(map[uint64]chan Answer),
	}
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
	if err := c.start(ctx, program); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	ready := make(chan Ready, 1)
	go c.read(ready)
	c.writing.Go(c.write)
	if err = c.ask(ctx, append(start, '\n')); err == nil {
		err = c.begin(ctx, ready)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Checker) start(ctx context.Context, program string) (err error) {
	c.process = exec.CommandContext(ctx, program)
	c.process.Stderr = &c.stderr
	// A child of the program could hold its standard error open.
	c.process.WaitDelay = time.Second
	if c.input, err = c.process.StdinPipe(); err != nil {
		return err
	}
	if c.output, err = c.process.StdoutPipe(); err != nil {
		return err
	}
	return c.process.Start()
}

// begin waits until the program has read the schemas.
func (c *Checker) begin(ctx context.Context, ready <-chan Ready) error {
	answer, err := await(ctx, c, ready)
	if err != nil {
		return err
	}
	if answer.Version != Version {
		return fmt.Errorf("%w: it is of another version of oacp", ErrNoAnswer)
	}
	bad := make(map[string]bool)
	for _, p := range answer.Problems {
		bad[p.Name] = true
		c.schemas.Problems[p.Name] = append(c.schemas.Problems[p.Name], c.schemas.diagnostic(p))
	}
	var good []string
	for _, name := range c.schemas.Names {
		if !bad[name] {
			good = append(good, name)
		}
	}
	c.schemas.Names, c.texts = good, answer.Texts
	return nil
}

// Schemas returns the schemas that the checker applies.
func (c *Checker) Schemas() *Schemas { return c.schemas }

// Check returns what the schemas of the workspace say against the body of a message. It returns an
// error that wraps ErrNoAnswer if the program does not answer.
func (c *Checker) Check(ctx context.Context, m *schema.Message) ([]validate.Objection, error) {
	names := c.schemas.For(m)
	if len(names) == 0 || m.Body.Kind == schema.Absent {
		return nil, nil // the rules demand a body
	}
	q, err := ask(m, names, c.texts)
	if err != nil {
		return nil, err
	}
	answered := make(chan Answer, 1)
	c.mu.Lock()
	c.lastID++
	q.ID = c.lastID
	c.waiting[q.ID] = answered
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, q.ID)
		c.mu.Unlock()
	}()
	line, err := q.line()
	if err == nil {
		err = c.ask(ctx, line)
	}
	if err != nil {
		return nil, err
	}
	a, err := await(ctx, c, answered)
	switch {
	case err != nil:
		return nil, err
	case a.Error != "":
		return nil, fmt.Errorf("%w: %s", ErrNoAnswer, a.Error)
	}
	return c.schemas.objections(&q, a.Violations), nil
}

// ask hands a line to the goroutine that writes.
func (c *Checker) ask(ctx context.Context, line []byte) error {
	select {
	case c.requests <- line:
		return nil
	case <-c.ended:
		return c.reason()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// await waits for something that the program says.
func await[Said any](ctx context.Context, c *Checker, said <-chan Said) (it Said, err error) {
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	select {
	case it = <-said:
		return it, nil
	case <-c.ended:
		select {
		case it = <-said: // the last that it said
			return it, nil
		default:
			return it, c.reason()
		}
	case <-ctx.Done():
		return it, context.Cause(ctx)
	case <-timer.C:
		err = fmt.Errorf("%w within %v", ErrNoAnswer, c.timeout)
		c.fail(err)
		return it, err
	}
}

// write writes the requests, and flushes when none waits.
func (c *Checker) write() {
	out := bufio.NewWriterSize(c.input, 64<<10)
	for {
		select {
		case line, ok := <-c.requests:
			if !ok {
				_ = c.input.Close() // nothing is lost: every request was flushed
				return
			}
			_, err := out.Write(line)
			if err == nil && len(c.requests) == 0 {
				err = out.Flush()
			}
			if err != nil {
				// The reader hears of the end too, and knows more about it.
				_ = c.input.Close()
				<-c.ended
				return
			}
		case <-c.ended:
			_ = c.input.Close() // as above
			return
		}
	}
}

// read hands the answers to those who wait for them, until the program ends. Then it says why.
func (c *Checker) read(ready chan<- Ready) {
	lines := bufio.NewScanner(c.output)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	err := c.readLines(lines, ready)
	if err != nil {
		_ = c.process.Process.Kill() // it may have ended
	}
	waitErr := c.process.Wait()
	if err == nil {
		err = errors.New("it ended")
		if waitErr != nil {
			err = fmt.Errorf("it ended: %w", waitErr)
		}
	}
	if text := c.stderr.lastLine(); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	c.setReason(fmt.Errorf("%w: %w", ErrNoAnswer, err))
	close(c.ended)
}

func (c *Checker) readLines(lines *bufio.Scanner, ready chan<- Ready) error {
	if lines.Scan() {
		var first Ready
		if err := json.Unmarshal(lines.Bytes(), &first); err != nil {
			return fmt.Errorf("its first line cannot be read: %w", err)
		}
		ready <- first
	}
	for lines.Scan() {
		a, err := decodeAnswer(lines.Bytes())
		if err != nil {
			return err
		}
		c.mu.Lock()
		answered, ok := c.waiting[a.ID]
		delete(c.waiting, a.ID)
		c.mu.Unlock()
		if ok {
			answered <- a
		}
	}
	return lines.Err()
}

// fail ends the program because of an error.
func (c *Checker) fail(err error) {
	c.setReason(err)
	_ = c.process.Process.Kill() // it may have ended
	_ = c.output.Close()         // a child of the program could hold it open
}

// setReason keeps the first reason.
func (c *Checker) setReason(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

func (c *Checker) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the program and waits until it has ended. Nobody may use the checker meanwhile.
func (c *Checker) Close() error {
	if c.process == nil || c.process.Process == nil {
		return nil
	}
	close(c.requests)
	c.writing.Wait()
	select {
	case <-c.ended:
	case <-time.After(time.Second):
		// It is at work on a body that nobody waits for any more.
		c.fail(ErrNoAnswer)
		<-c.ended
	}
	return nil
}

// A tail keeps the end of what is written to it. The process writes, and it is read after its end.
type tail struct{ kept []byte }

const maxTail = 4 << 10

// Write keeps the end of the data.
func (t *tail) Write(data []byte) (int, error) {
	t.kept = append(t.kept, data...)
	if over := len(t.kept) - maxTail; over > 0 {
		t.kept = bytes.Clone(t.kept[over:])
	}
	return len(data), nil
}

func (t *tail) lastLine() string {
	text := strings.TrimSpace(string(t.kept))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
