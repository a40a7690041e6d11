package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/processgroup"
)

// A child is a program that keeps running between turns and exchanges lines with its driver. It runs
// in a process group of its own, which ends with it.
type child struct {
	// line handles each line that the program prints, without its line feed, and may keep it. The
	// child calls it with mu held.
	line func(line []byte, isError bool)
	// grace is how long the program may take to end.
	grace   time.Duration
	process *processgroup.Process
	// input holds lines to write, so that a sender never waits for a program that itself waits for its
	// output to be read. Closing is closed after the last line.
	input      chan []byte
	closing    chan struct{}
	closeInput func()
	// ended is closed when the program and its group have ended and all output was passed on.
	ended chan struct{}
	// failure is why the driver ended the program, if it did.
	failure atomic.Pointer[error]

	mu sync.Mutex
}

// maxQueue bounds the lines that wait for a program to read them.
const maxQueue = 1024

func newChild(grace time.Duration, line func(line []byte, isError bool)) *child {
	if grace <= 0 {
		grace = defaultGrace
	}
	c := &child{line: line, grace: grace, input: make(chan []byte, maxQueue), closing: make(chan struct{}), ended: make(chan struct{})}
	c.closeInput = sync.OnceFunc(func() { close(c.closing) })
	return c
}

// launch starts the program with the variables env. It adds the mark
// of ctx, by which a runner finds the processes that a killed runner left behind.
func (c *child) launch(ctx context.Context, path string, command []string, dir string, env []string) error {
	stdout, stderr := &childLines{child: c}, &childLines{child: c, isError: true}
	cmd := &exec.Cmd{Path: path, Args: command, Dir: dir, Env: append(env, orphans.Environ(ctx)...), Stdout: stdout, Stderr: stderr}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	c.mu.Lock() // the first line must not come before c.process is set
	defer c.mu.Unlock()
	// The program gets SIGTERM even if this process dies, because it then also ends its tools.
	if c.process, err = processgroup.Start(cmd, syscall.SIGTERM); err != nil {
		c.process = nil
		return errors.Join(fmt.Errorf("%w: %w", ErrUnavailable, err), stdin.Close())
	}
	go func() {
		defer close(c.ended)
		c.write(stdin)
		<-c.process.Done()
		stdout.end()
		stderr.end()
	}()
	return nil
}

// maxLine bounds a line that an agent prints, in bytes. A line may hold whole files and pictures.
const maxLine = 64 << 20

// childLines splits a program's output into lines and passes on those that are not blank.
type childLines struct {
	child   *child
	isError bool
	partial []byte // the beginning of a line
}

// Write ends a program that prints too long a line.
func (l *childLines) Write(data []byte) (int, error) {
	l.child.mu.Lock()
	defer l.child.mu.Unlock()
	written := len(data)
	for {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			break
		}
		l.pass(append(l.partial, data[:end]...))
		l.partial, data = nil, data[end+1:]
	}
	if l.partial = append(l.partial, data...); len(l.partial) > maxLine {
		err := fmt.Errorf("the agent printed a line of more than %d bytes", maxLine)
		l.child.fail(err)
		return 0, err
	}
	return written, nil
}

// end passes on a last line without a line feed.
func (l *childLines) end() {
	l.child.mu.Lock()
	defer l.child.mu.Unlock()
	l.pass(l.partial)
}

func (l *childLines) pass(line []byte) {
	if len(bytes.TrimSpace(line)) > 0 {
		l.child.line(line, l.isError)
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
	c.failure.CompareAndSwap(nil, &err)
	c.process.Kill()
}

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
	if failure := c.failure.Load(); failure != nil {
		return *failure
	}
	if err := exitError(c.process.Err()); err != nil {
		return err
	}
	return errors.New("it exited on its own")
}

// finish closes the program's input, so that it ends, and stops it if it does not.
func (c *child) finish(ctx context.Context) error {
	c.closeInput()
	if c.process.EndsWithin(ctx, c.grace) {
		ctx = context.WithoutCancel(ctx)
	}
	return c.stop(ctx)
}

// stop sends SIGTERM to the program and its children, and kills them if they do not end. It waits
// for the end, and for the output to be passed on.
func (c *child) stop(ctx context.Context) error {
	if c.process == nil {
		return nil // it could not be started
	}
	if err := c.process.Stop(ctx, c.grace); err != nil {
		return err
	}
	<-c.ended
	return nil
}
