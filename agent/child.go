package agent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/processgroup"
)

// childSpec says how to start a child.
type childSpec struct {
	path    string
	command []string
	dir     string
	env     []string
	// grace is how long the program may take to end. Zero means the default.
	grace time.Duration
	// line gets each line of the standard output, without its end, and may keep it. The last may be
	// incomplete.
	line func(c *child, line []byte)
	// stderr gets the error output, in pieces.
	stderr func(text string)
}

// A child is a program that lives on between turns and exchanges lines with its driver. It runs in
// a process group of its own, which ends with it.
type child struct {
	spec    childSpec
	process *processgroup.Process
	// input holds lines to be written, so that a sender never waits for a program that itself waits to
	// be read. Closing is closed when no more come.
	input     chan []byte
	closing   chan struct{}
	closeOnce sync.Once
	// ended is closed when the program and its group have ended and all output was passed on.
	ended chan struct{}

	// stderr collects the error output, plain the standard output that is not messages.
	stderr, plain *output

	mu sync.Mutex
	// failure is why the driver ended the program, if it did.
	failure error
}

// maxQueue bounds the lines that wait for a program to read them. They answer what it says.
const maxQueue = 1024

// startChild starts a program. Its environment is that of this process, the variables of the spec,
// and the mark of ctx, by which a runner finds what a killed one left.
func startChild(ctx context.Context, spec childSpec) (*child, error) {
	if spec.grace <= 0 {
		spec.grace = defaultGrace
	}
	c := &child{
		spec: spec, input: make(chan []byte, maxQueue), closing: make(chan struct{}), ended: make(chan struct{}),
		plain: newOutput(nil), stderr: newOutput(func(e Event) { spec.stderr(safeText(e.Text)) }),
	}
	cmd := &exec.Cmd{Path: spec.path, Args: spec.command, Dir: spec.dir, Env: environment(spec.env, orphans.Environ(ctx))}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	// The command must not own these pipes: its Wait would close them before everything was passed on.
	stdout, outErr := newOutlet(&cmd.Stdout)
	stderr, stderrErr := newOutlet(&cmd.Stderr)
	if err = errors.Join(outErr, stderrErr); err == nil {
		// The program gets SIGTERM even if this process dies, because it then ends its tools, too.
		c.process, err = processgroup.Start(cmd, syscall.SIGTERM)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrUnavailable, err), stdin.Close(), stdout.close(), stderr.close())
	}
	go c.run(stdin, stdout, stderr)
	return c, nil
}

// run exchanges lines with the program until it has ended.
func (c *child) run(stdin io.WriteCloser, stdout, stderr *outlet) {
	defer close(c.ended)
	var inOut sync.WaitGroup
	inOut.Go(func() { c.write(stdin) })
	inOut.Go(func() { stdout.read(c.process, c.readLines) })
	inOut.Go(func() {
		stderr.read(c.process, func(pipe io.Reader) { _, _ = io.Copy(c.stderr.stream(true), pipe) }) // ends like the pipe
	})
	<-c.process.Done()
	stdout.expire()
	stderr.expire()
	inOut.Wait()
}

// maxLine bounds a line that an agent prints, in bytes. A line may hold whole files and pictures.
const maxLine = 64 << 20

// readLines passes on what the program prints. It ends a program that prints too long a line, or
// that closes its output and does not exit: nothing would ever be heard of it.
func (c *child) readLines(pipe io.Reader) {
	lines := bufio.NewReaderSize(pipe, 64<<10) // a Scanner searches a long line again for each piece of it
	var line []byte
	for {
		piece, err := lines.ReadSlice('\n')
		if line = append(line, piece...); len(line) > maxLine {
			c.fail(fmt.Errorf("the agent printed a line of more than %d bytes", maxLine))
			return
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if line = bytes.TrimSuffix(line, []byte("\n")); len(bytes.TrimSpace(line)) > 0 {
			c.spec.line(c, line)
		}
		line = nil
		if err != nil {
			break
		}
	}
	if !c.process.EndsWithin(context.Background(), c.spec.grace) {
		c.fail(errors.New("the agent closed its output"))
	}
}

// write writes the queued lines, and closes the input after the last.
func (c *child) write(stdin io.WriteCloser) {
	defer stdin.Close() // the program sees the end of its input either way
	for closing := false; !closing || len(c.input) > 0; {
		select {
		case line := <-c.input:
			if _, err := stdin.Write(line); err != nil {
				c.fail(fmt.Errorf("the agent does not read its input: %w", err))
				return
			}
		case <-c.closing:
			closing = true
		case <-c.process.Done():
			return
		}
	}
}

// closeInput ends the program's input after the lines that are queued.
func (c *child) closeInput() { c.closeOnce.Do(func() { close(c.closing) }) }

// note records a line that is not a message. Programs that fail may say why in one.
func (c *child) note(line []byte) { c.plain.addStderr(string(line) + "\n") }

// printed returns the end of what was noted, followed by that of the error output.
func (c *child) printed() string { return c.plain.result().Tail + c.stderr.result().Tail }

// send queues a line, which ends with "\n".
func (c *child) send(line []byte) {
	select {
	case c.input <- line:
	default:
		c.fail(errors.New("the agent does not read its input"))
	}
}

// fail ends a program that the driver cannot continue with.
func (c *child) fail(err error) {
	c.mu.Lock()
	if c.failure == nil {
		c.failure = err
	}
	c.mu.Unlock()
	c.process.Kill()
}

// done returns a channel that is closed when the program has ended.
func (c *child) done() <-chan struct{} { return c.ended }

// hasEnded reports whether the program has ended.
func (c *child) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// death says why a program ended unexpectedly.
func (c *child) death() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failure != nil:
		return c.failure
	case c.process.Err() != nil:
		return exitError(c.process.Err())
	}
	return errors.New("it exited on its own")
}

// finish closes the program's input, at which it ends, and stops it if it does not.
func (c *child) finish(ctx context.Context) error {
	c.closeInput()
	if c.process.EndsWithin(ctx, c.spec.grace) {
		ctx = context.WithoutCancel(ctx)
	}
	return c.stop(ctx)
}

// stop sends SIGTERM to the program and its children, and kills them if they do not end. It waits
// for the end, and for the output to be passed on.
func (c *child) stop(ctx context.Context) error {
	if err := c.process.Stop(ctx, c.spec.grace); err != nil {
		return err
	}
	<-c.ended
	return nil
}
