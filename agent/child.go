package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// childSpec says how a child is started.
type childSpec struct {
	path    string
	command []string
	dir     string
	env     []string
	grace   time.Duration
	// line is given each line of the standard output, without its end, and
	// may keep it. A last line that was cut off is not given.
	line func(c *child, line []byte)
	// complaint is given the error output, in pieces.
	complaint func(text string)
}

// A child is a program that lives on between turns and exchanges lines with
// its driver. It runs in a process group of its own, which ends with it.
type child struct {
	spec    childSpec
	process *os.Process
	input   lineQueue
	// ended is closed when the program has ended, with all that was in its
	// group, and all of its output was passed on. err then says how it ended.
	ended chan struct{}
	err   error

	mu   sync.Mutex
	tail ring
	// failure is why the driver ended the program, if it did.
	failure error
}

// startChild starts a program. Its environment is that of this process and
// the variables of the spec.
func startChild(spec childSpec) (*child, error) {
	if spec.grace <= 0 {
		spec.grace = defaultGrace
	}
	c := &child{spec: spec, ended: make(chan struct{})}
	c.input.init()
	started := make(chan error)
	go c.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return c, nil
}

// run starts the program, tells so, and waits for its end on the same thread;
// see holdThread.
func (c *child) run(started chan<- error) {
	defer holdThread()()
	cmd := &exec.Cmd{
		Path: c.spec.path, Args: c.spec.command, Dir: c.spec.dir, Env: environment(c.spec.env),
		Stderr: writerFunc(c.complain), WaitDelay: pipeDelay,
	}
	ownGroup(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		started <- err
		return
	}
	stdout, itsEnd, err := os.Pipe()
	if err != nil {
		started <- errors.Join(err, stdin.Close())
		return
	}
	cmd.Stdout = itsEnd
	err = cmd.Start()
	closeErr := itsEnd.Close()
	if err != nil {
		started <- errors.Join(err, closeErr, stdout.Close(), stdin.Close())
		return
	}
	c.process = cmd.Process
	started <- nil

	var inOut sync.WaitGroup
	inOut.Go(func() { c.write(stdin) })
	inOut.Go(func() { c.read(stdout) })
	err = cmd.Wait()
	killGroup(cmd.Process)
	c.input.close()
	finishReading(stdout)
	inOut.Wait()
	c.err = exitError(err)
	close(c.ended)
}

// finishReading has the reader of a pipe stop when it finds nothing to read
// for a while. Whatever holds the other end has escaped from the group.
func finishReading(pipe *os.File) {
	if pipe.SetReadDeadline(time.Now().Add(pipeDelay)) != nil {
		// Not all systems can. What has not come by then is given up.
		time.AfterFunc(pipeDelay, func() { _ = pipe.Close() })
	}
}

// read passes the output on, line by line, and closes the pipe in the end.
func (c *child) read(pipe *os.File) {
	lines := lineSplitter{line: func(line []byte) { c.spec.line(c, line) }, limit: maxLine}
	buffer := make([]byte, 64<<10)
	progress := false
	for {
		n, err := pipe.Read(buffer)
		if n > 0 {
			progress = true
			if err := lines.add(buffer[:n]); err != nil {
				c.fail(err)
				break
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && progress {
			progress = false // whoever takes the lines was slow
			finishReading(pipe)
			continue
		}
		if err != nil {
			break
		}
	}
	_ = pipe.Close() // nothing was written to it
}

// write writes the lines that are sent, and closes the input after the last.
func (c *child) write(stdin io.WriteCloser) {
	for {
		line, ok := c.input.next()
		if !ok {
			_ = stdin.Close() // the program sees the end of its input either way
			return
		}
		if _, err := stdin.Write(line); err != nil {
			c.input.close()
			c.fail(fmt.Errorf("the agent does not read its input: %w", err))
		}
	}
}

func (c *child) complain(data []byte) {
	c.mu.Lock()
	c.tail.write(data)
	c.mu.Unlock()
	c.spec.complaint(safeText(string(data)))
}

// complaints returns the end of the error output.
func (c *child) complaints() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tail.String()
}

// send has a line written, without waiting for it. The line ends with "\n".
func (c *child) send(line []byte) { c.input.add(line) }

// fail ends a program that cannot be dealt with any more.
func (c *child) fail(err error) {
	c.mu.Lock()
	if c.failure == nil {
		c.failure = err
	}
	c.mu.Unlock()
	killGroup(c.process)
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

// death says why a program ended that was not meant to.
func (c *child) death() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failure != nil:
		return c.failure
	case c.err != nil:
		return c.err
	}
	return errors.New("it ended by itself")
}

// finish lets the program end by itself, which it does when its input ends,
// and stops it if it does not.
func (c *child) finish(ctx context.Context) {
	c.input.close()
	if !c.endsWithin(ctx, c.spec.grace) {
		c.stop(ctx)
	}
}

// stop asks the program and its children to end, and kills them if they do
// not. It waits for the end.
func (c *child) stop(ctx context.Context) {
	if !c.hasEnded() {
		terminateGroup(c.process)
	}
	if !c.endsWithin(ctx, c.spec.grace) {
		killGroup(c.process)
		<-c.ended
	}
}

func (c *child) endsWithin(ctx context.Context, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.ended:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

type writerFunc func([]byte)

func (f writerFunc) Write(data []byte) (int, error) {
	f(data)
	return len(data), nil
}
