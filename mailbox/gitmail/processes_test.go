package gitmail_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
)

// childVariable holds the settings of a process that is the test binary in another role.
const childVariable = "OACP_TEST_CHILD"

// A child says what such a process does. A child ends when its standard input does.
type child struct {
	// Role is "once": one sync; "every": syncs until the end; "squash": one squash; "agent": sends and
	// acknowledges.
	Role string
	// Dir is the workspace.
	Dir string
	// KillAt is the step at which the child kills itself.
	KillAt string
	// Interval is the time between two syncs.
	Interval time.Duration
	// Agent sends Count messages to Others, and deals with its own mail and the mail of Shared.
	Agent, Shared schema.AgentName
	Others        []schema.AgentName
	Count         int
	// Pause is the longest time between two actions of an agent.
	Pause time.Duration
	Seed  uint64
	// Journal is the file in which an agent records what it saw and did.
	Journal string
}

func runChild(settings string) int {
	var c child
	err := json.Unmarshal([]byte(settings), &c)
	// The programs that the child starts are not children of this kind.
	err = errors.Join(err, os.Unsetenv(childVariable))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err == nil {
		roles := map[string]func(context.Context) error{"once": c.once, "every": c.every, "squash": c.squash, "agent": c.work}
		err = roles[c.Role](ctx)
	}
	if errors.Is(err, context.Canceled) {
		err = nil // the test lets it end
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// open opens the workspace and its repository.
func (c *child) open(ctx context.Context) (w *mailbox.Workspace, r *gitmail.Repository, err error) {
	if w, err = mailbox.Open(c.Dir, nil); err == nil {
		r, err = gitmail.Open(ctx, w)
	}
	return w, r, err
}

// once syncs, and kills itself if it gets to the step.
func (c *child) once(ctx context.Context) error {
	w, r, err := c.open(ctx)
	if err != nil {
		return err
	}
	r.SetStep(c.killAt)
	result, err := r.Sync(ctx, gitmail.Options{})
	for _, problem := range result.Problems {
		err = errors.Join(err, fmt.Errorf("problem: %s: %w", problem.Path, problem.Err))
	}
	fmt.Println(len(result.Changes))
	fmt.Println("memory:", maxMemory(), "KiB")
	return errors.Join(err, w.Close())
}

// killAt kills the process at the step, and waits for its death.
func (c *child) killAt(step string) {
	if step != c.KillAt {
		return
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil && self.Kill() == nil {
		select {}
	}
}

// every syncs at the interval and prints the errors.
func (c *child) every(ctx context.Context) error {
	w, r, err := c.open(ctx)
	if err != nil && ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	r.Every(ctx, c.Interval, gitmail.Options{}, func(result gitmail.Result, err error) {
		for _, problem := range result.Problems {
			fmt.Printf("problem: %s: %v\n", problem.Path, problem.Err)
		}
		if err != nil && ctx.Err() == nil {
			fmt.Printf("error: %v\n", err)
		}
	})
	return w.Close()
}

// work sends the messages, and deals with mail until the end.
func (c *child) work(ctx context.Context) error {
	w, err := mailbox.Open(c.Dir, &mailbox.Options{NoSync: true})
	if err != nil {
		return err
	}
	journal, err := openJournal(c.Journal)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(c.Seed, 0))
	outbox, err := w.List(ctx, c.Agent, mailbox.Outbox)
	if err != nil {
		return err
	}
	for left := c.Count - len(outbox); err == nil; {
		select {
		case <-ctx.Done():
			return errors.Join(journal.file.Close(), w.Close())
		case <-time.After(time.Duration(random.Int64N(int64(c.Pause)))):
		}
		if left > 0 && random.IntN(2) == 0 {
			left--
			err = c.sendOne(ctx, w, random)
			continue
		}
		for _, agent := range []schema.AgentName{c.Agent, c.Shared} {
			err = errors.Join(err, c.deal(w, agent, random, journal))
		}
	}
	return err
}

// sendOne sends a message to one to three agents.
func (c *child) sendOne(ctx context.Context, w *mailbox.Workspace, random *rand.Rand) error {
	order := random.Perm(len(c.Others))
	var to []schema.AgentName
	for _, i := range order[:1+random.IntN(min(3, len(order)))] {
		to = append(to, c.Others[i])
	}
	_, err := w.Send(ctx, draft(c.Agent, to...), nil)
	return err
}

// deal lists an inbox, records what it sees, and handles some of it.
func (c *child) deal(w *mailbox.Workspace, agent schema.AgentName, random *rand.Rand, j *journal) error {
	entries, err := w.Inbox(context.Background(), agent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Err != nil {
			if mailbox.IsGone(e.Err) {
				continue // acknowledged elsewhere
			}
			return fmt.Errorf("%s: %w", e.Path, e.Err)
		}
		j.write("saw", agent, e.Message.ID)
		if random.IntN(3) == 0 {
			continue // later
		}
		how, err := "acknowledged", error(nil)
		if random.IntN(4) == 0 {
			how = "buried"
			_, err = w.DeadLetter(e, mailbox.DeadLetterReason{Reason: "it cannot be done"})
		} else {
			err = w.Acknowledge(e)
		}
		if err == nil {
			j.write(how, agent, e.Message.ID)
		} else if !mailbox.IsGone(err) {
			return err
		}
	}
	return nil
}

// A journal is a file with a line for each thing that an agent saw or did: "saw AGENT ID".
type journal struct{ file *os.File }

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	return &journal{file}, err
}

func (j *journal) write(what string, agent schema.AgentName, id schema.ID) {
	if _, err := fmt.Fprintf(j.file, "%s %s %s\n", what, agent, id); err != nil {
		panic(err)
	}
}

// A process is a child that runs.
type process struct {
	command *exec.Cmd
	stdin   io.Closer
	// ended is closed when the process has ended; err and lines are valid then.
	ended chan struct{}
	err   error
	lines []string
}

// start starts a child. It and all processes that it starts have the marks in their environment.
func (n *network) start(c child, marks ...orphans.Mark) *process {
	n.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	p := &process{command: exec.Command(exe), ended: make(chan struct{})}
	ctx := context.Background()
	for _, mark := range marks {
		ctx = orphans.WithMark(ctx, mark)
	}
	p.command.Env = slices.Concat(os.Environ(), orphans.Environ(ctx), []string{childVariable + "=" + toJSON(c)})
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	p.command.Stderr = p.command.Stdout // one pipe for both
	if p.stdin, err = p.command.StdinPipe(); err != nil {
		n.t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		n.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for output := bufio.NewScanner(stdout); output.Scan(); {
			p.lines = append(p.lines, output.Text())
		}
		p.err = p.command.Wait()
	}()
	return p
}

// end lets the process end by itself and returns its error.
func (p *process) end() error {
	err := p.stdin.Close()
	<-p.ended
	return errors.Join(err, p.err)
}

// kill kills the process alone and waits for its end. Its children live on.
func (p *process) kill() {
	_ = p.command.Process.Kill() // it may have ended
	<-p.ended
}

// runOnce runs a child to its end and fails the test if it fails.
func (n *network) runOnce(c child) *process {
	n.t.Helper()
	p := n.start(c)
	<-p.ended
	if p.err != nil {
		n.t.Fatalf("%+v: %v\n%q", c, p.err, p.lines)
	}
	return p
}

// inParallel calls f for each machine at the same time.
func (n *network) inParallel(f func(i int, m *machine)) {
	var group sync.WaitGroup
	for i, m := range n.machines {
		group.Go(func() { f(i, m) })
	}
	group.Wait()
}
