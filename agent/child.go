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

// childSpec says how a child is started.
type childSpec struct {
	path    string
	command []string
	dir     string
	env     []string
	// grace is how long the program may take to end, and pipeDelay how long its output may be held
	// open by what escaped from its group. Zero means the usual.
	grace, pipeDelay time.Duration
	// line is given each line of the standard output, without its end, and may keep it. The last
	// may have been cut off.
	line func(c *child, line []byte)
	// complaint is given the error output, in pieces.
	complaint func(text string)
}

// A child is a program that lives on between turns and exchanges lines with its driver. It runs in
// a process group of its own, which ends with it.
type child struct {
	spec    childSpec
	process *os.Process
	input   lineQueue
	// ended is closed when the program has ended, with all that was in its group, and all of its
	// output was passed on. err then says how it ended.
	ended chan struct{}
	err   error
	// exited is closed when the program has ended, output or not.
	exited chan struct{}

	// partial is the beginning of a character of the error output whose end has not come yet.
	partial []byte

	mu sync.Mutex
	// tail is the end of the error output, plain that of what was printed beside it and is no
	// message.
	tail, plain ring
	// failure is why the driver ended the program, if it did.
	failure error
}

// startChild starts a program. Its environment is that of this process, the variables of the spec,
// and the mark of the context, by which what a killed process has left is found.
func startChild(ctx context.Context, spec childSpec) (*child, error) {
	if spec.grace <= 0 {
		spec.grace = defaultGrace
	}
	spec.env = append(slices.Clone(spec.env), orphans.Environ(ctx)...)
	if spec.pipeDelay <= 0 {
		spec.pipeDelay = pipeDelay
	}
	c := &child{spec: spec, ended: make(chan struct{}), exited: make(chan struct{})}
	c.input.init()
	started := make(chan error)
	go c.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return c, nil
}

// run starts the program, tells so, and waits for its end on the same thread; see
// processgroup.Hold. The pipes are ours, so that the end of the program itself is seen at once,
// whatever of it still holds them.
func (c *child) run(started chan<- error) {
	defer processgroup.Hold()()
	cmd := &exec.Cmd{Path: c.spec.path, Args: c.spec.command, Dir: c.spec.dir, Env: environment(c.spec.env)}
	// At SIGTERM, also when this process dies, the program ends its tools. Killed, it would leave
	// them.
	processgroup.Lead(cmd, syscall.SIGTERM)
	pipes, err := startPiped(cmd)
	c.process = cmd.Process
	started <- err
	if err != nil {
		return
	}
	var inOut sync.WaitGroup
	lines := lineSplitter{line: func(line []byte) { c.spec.line(c, line) }, limit: maxLine}
	inOut.Go(func() { c.write(pipes.in) })
	out, complaints := &outlet{file: pipes.out}, &outlet{file: pipes.complaints}
	inOut.Go(func() {
		c.read(out, lines.add)
		lines.end()
		c.expectExit()
	})
	inOut.Go(func() { c.read(complaints, c.complain) })
	err = cmd.Wait()
	close(c.exited)
	processgroup.Kill(cmd.Process)
	c.input.close()
	out.expire(c.spec.pipeDelay)
	complaints.expire(c.spec.pipeDelay)
	inOut.Wait()
	c.err = exitError(err)
	close(c.ended)
}

// childPipes are our ends of the pipes to a child.
type childPipes struct {
	in              io.WriteCloser
	out, complaints *os.File
}

// startPiped starts the command with pipes for input, output and error output.
func startPiped(cmd *exec.Cmd) (pipes childPipes, err error) {
	var theirs, ours []io.Closer
	defer func() {
		if err == nil {
			ours = nil
		}
		for _, end := range append(theirs, ours...) {
			_ = end.Close() // nothing was written to it by us
		}
	}()
	if pipes.in, err = cmd.StdinPipe(); err != nil {
		return pipes, err
	}
	ours = append(ours, pipes.in)
	for _, output := range []struct {
		end    **os.File
		writer *io.Writer
	}{{&pipes.out, &cmd.Stdout}, {&pipes.complaints, &cmd.Stderr}} {
		end, writer, err := os.Pipe()
		if err != nil {
			return pipes, err
		}
		*output.end, *output.writer = end, writer
		ours, theirs = append(ours, end), append(theirs, writer)
	}
	return pipes, cmd.Start()
}

// read passes output on. A program whose output cannot be taken is ended.
func (c *child) read(out *outlet, take func([]byte) error) {
	if err := out.read(take); err != nil {
		c.fail(err)
	}
}

// expectExit ends a program that has closed its output and does not end by itself. Nothing would
// ever be heard of it.
func (c *child) expectExit() {
	timer := time.NewTimer(c.spec.grace)
	defer timer.Stop()
	select {
	case <-c.exited:
	case <-timer.C:
		c.fail(errors.New("the agent closed its output"))
	}
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

// complain takes a piece of the error output.
func (c *child) complain(data []byte) error {
	c.mu.Lock()
	c.tail.write(data)
	c.mu.Unlock()
	piece := append(c.partial, data...)
	whole := wholeRunes(piece)
	c.partial = slices.Clone(piece[whole:])
	c.spec.complaint(safeText(string(piece[:whole])))
	return nil
}

// note takes a line that is no message. Programs that fail may say why there.
func (c *child) note(line []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plain.write(line)
	c.plain.write([]byte("\n"))
}

// complaints returns the end of what was noted, and of the error output behind it.
func (c *child) complaints() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plain.String() + c.tail.String()
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

// finish lets the program end by itself, which it does when its input ends, and stops it if it does
// not.
func (c *child) finish(ctx context.Context) error {
	c.input.close()
	if c.endsWithin(ctx, c.spec.grace) {
		return nil
	}
	return c.stop(ctx)
}

// killDelay is how long a killed program may take to end. One that waits for a disk or a network
// share may not end before that answers.
const killDelay = 5 * time.Second

// stop asks the program and its children to end, and kills them if they do not. It waits for the
// end, but not for ever.
func (c *child) stop(ctx context.Context) error {
	if !c.hasEnded() {
		processgroup.Signal(c.process, syscall.SIGTERM)
	}
	if c.endsWithin(ctx, c.spec.grace) {
		return nil
	}
	processgroup.Kill(c.process)
	if !c.endsWithin(context.WithoutCancel(ctx), killDelay+c.spec.pipeDelay) {
		return fmt.Errorf("process %d was killed, but has not ended", c.process.Pid)
	}
	return nil
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
