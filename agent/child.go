package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
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
	// grace is how long the program may take to end, and pipeDelay how long a process outside its
	// group may hold its output open. Zero means the default.
	grace, pipeDelay time.Duration
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
	process *os.Process
	input   lineQueue
	// ended is closed when the program and its group have ended and all output was passed on. Then
	// err says how the program ended.
	ended chan struct{}
	err   error
	// exited is closed when the program has ended, even if output is left.
	exited chan struct{}

	// stderr collects the error output, plain the standard output that is not messages.
	stderr, plain *output

	mu sync.Mutex
	// failure is why the driver ended the program, if it did.
	failure error
}

// startChild starts a program. Its environment is that of this process, the variables of the spec,
// and the mark of ctx, by which a runner finds what a killed one left.
func startChild(ctx context.Context, spec childSpec) (*child, error) {
	if spec.grace <= 0 {
		spec.grace = defaultGrace
	}
	spec.env = append(slices.Clone(spec.env), orphans.Environ(ctx)...)
	if spec.pipeDelay <= 0 {
		spec.pipeDelay = pipeDelay
	}
	c := &child{spec: spec, ended: make(chan struct{}), exited: make(chan struct{}), plain: newOutput(nil)}
	c.stderr = newOutput(func(e Event) { spec.stderr(safeText(e.Text)) })
	c.input.init()
	started := make(chan error)
	go c.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return c, nil
}

// run starts the program and waits for its end on the same thread; see processgroup.Hold. It owns
// the pipes, to notice the end of the program even if another process holds them open.
func (c *child) run(started chan<- error) {
	defer processgroup.Hold()()
	cmd := &exec.Cmd{Path: c.spec.path, Args: c.spec.command, Dir: c.spec.dir, Env: environment(c.spec.env)}
	// The program gets SIGTERM even if this process dies, because it then ends its tools, too.
	processgroup.Lead(cmd, syscall.SIGTERM)
	stdin, inErr := cmd.StdinPipe()
	stdout, outErr := cmd.StdoutPipe()
	stderr, stderrErr := cmd.StderrPipe()
	err := errors.Join(inErr, outErr, stderrErr)
	if err == nil {
		err = cmd.Start()
	}
	c.process = cmd.Process
	started <- err
	if err != nil {
		return
	}
	var inOut sync.WaitGroup
	lines := lineSplitter{line: func(line []byte) { c.spec.line(c, line) }, limit: maxLine}
	inOut.Go(func() { c.write(stdin) })
	out, errOut := &outlet{pipe: stdout.(*os.File)}, &outlet{pipe: stderr.(*os.File)}
	inOut.Go(func() {
		c.read(out, &lines)
		lines.end()
		c.expectExit()
	})
	inOut.Go(func() { c.read(errOut, c.stderr.stream(true)) })
	state, err := cmd.Process.Wait() // cmd.Wait would close the pipes
	close(c.exited)
	processgroup.Kill(cmd.Process)
	c.input.close()
	out.expire(c.spec.pipeDelay)
	errOut.expire(c.spec.pipeDelay)
	inOut.Wait()
	if err == nil && !state.Success() {
		err = &exec.ExitError{ProcessState: state}
	}
	c.err = exitError(err)
	close(c.ended)
}

// read passes output on. If that fails, it ends the program.
func (c *child) read(out *outlet, to io.Writer) {
	if err := out.read(to); err != nil {
		c.fail(err)
	}
}

// expectExit ends a program that has closed its output and does not exit: nothing would ever be
// heard of it.
func (c *child) expectExit() {
	select {
	case <-c.exited:
	case <-time.After(c.spec.grace):
		c.fail(errors.New("the agent closed its output"))
	}
}

// write writes the queued lines, and closes the input after the last.
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

// note records a line that is not a message. Programs that fail may say why in one.
func (c *child) note(line []byte) { c.plain.addStderr(string(line) + "\n") }

// printed returns the end of what was noted, followed by that of the error output.
func (c *child) printed() string { return c.plain.result().Tail + c.stderr.result().Tail }

// send queues a line, which ends with "\n".
func (c *child) send(line []byte) { c.input.add(line) }

// fail ends a program that the driver cannot continue with.
func (c *child) fail(err error) {
	c.mu.Lock()
	if c.failure == nil {
		c.failure = err
	}
	c.mu.Unlock()
	processgroup.Kill(c.process)
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
	case c.err != nil:
		return c.err
	}
	return errors.New("it exited on its own")
}

// finish closes the program's input, at which it ends, and stops it if it does not.
func (c *child) finish(ctx context.Context) error {
	c.input.close()
	if c.endsWithin(ctx, c.spec.grace) {
		return nil
	}
	return c.stop(ctx)
}

// killDelay is how long a killed program may take to end. One that waits for a disk or a network
// share ends only when that answers.
const killDelay = 5 * time.Second

// stop sends SIGTERM to the program and its children, and kills them if they do not end. It waits
// for the end, but not forever.
func (c *child) stop(ctx context.Context) error {
	if !c.hasEnded() {
		processgroup.Signal(c.process, syscall.SIGTERM)
	}
	if c.endsWithin(ctx, c.spec.grace) {
		return nil
	}
	processgroup.Kill(c.process)
	if !c.endsWithin(context.WithoutCancel(ctx), killDelay+c.spec.pipeDelay) {
		return fmt.Errorf("process %d was killed but did not exit", c.process.Pid)
	}
	return nil
}

func (c *child) endsWithin(ctx context.Context, limit time.Duration) bool {
	select {
	case <-c.ended:
		return true
	case <-time.After(limit):
	case <-ctx.Done():
	}
	return false
}
