package live

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/exclusive"
	"github.com/oacp-go/oacp/internal/processgroup"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

const (
	// startLimit is how long the state of a session may be missing or unreadable. The hook that starts the
	// follower may write it later.
	startLimit = 10 * time.Second
	// ringAgain is the pause after a ring that has no effect: codex keeps all prompts. ringRetry is the pause
	// after a ring that failed.
	ringAgain = time.Hour
	ringRetry = time.Minute
	// ringLimit bounds the run of codex that rings.
	ringLimit = 30 * time.Second
)

// Follow waits until a session has ended, and then removes its state. It returns at once if another process follows
// the session. When mail arrives that is worth a turn, and the session is an idle one of codex, Follow rings: it
// queues a prompt that says how many messages wait. The hook of that prompt shows them.
//
// A session has ended when its process has ended, or its state or the workspace is gone. Follow rings only if the
// session is in a terminal, because codex would also run the turn of a closed one. It records errors with NoteError
// and continues. If the context ends first, Follow returns its cause. Now returns the time; nil means time.Now.
func Follow(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, session string, now func() time.Time) (err error) {
	f := &follower{hook: &Hook{Workspace: w, Agent: agent, Program: Codex, Now: now}, id: session}
	if f.dir, err = openFolder(w, agent); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.dir.Close()) }()
	if !project.ValidSession(session) {
		return fmt.Errorf("session %q: %w", session, fs.ErrNotExist)
	}
	hold, err := followLock(w, agent, session).Take(ctx, f.hook.now())
	if _, followed := errors.AsType[*exclusive.HeldError](err); followed {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hold.Release()) }()
	f.seen = f.hook.now()
	folders := []string{w.BoxPath(agent, mailbox.Inbox), f.dir.Path(".")}
	err = watch.Await(ctx, folders, func() (bool, error) {
		if lost, err := hold.Lost(); lost && err == nil {
			return true, nil
		}
		return f.follow(ctx), nil
	})
	if err != nil {
		return err
	}
	return f.forget(ctx, hold)
}

// A follower follows a session.
type follower struct {
	hook *Hook
	dir  *durable.Dir
	id   string
	// state is the session as it was read last, and changed when it was written.
	state   Session
	changed time.Time
	// met reports whether follow has ever seen the session alive, and seen when it last did, or began.
	met  bool
	seen time.Time
	// rung are the files of the last ring, and again is when Follow may ring for them once more.
	rung  []string
	again time.Time
	// failure is the last error that was noted.
	failure string
}

// followLock is the lock of the process that follows a session.
func followLock(w *mailbox.Workspace, agent schema.AgentName, session string) exclusive.Lock {
	return exclusive.Lock{
		Open: func() (*durable.Dir, error) { return openFolder(w, agent) },
		Name: session + followSuffix, Note: session + followerSuffix, What: "session " + session + " is followed",
	}
}

// follow looks at the session once, and rings if necessary. It reports whether the session has ended.
func (f *follower) follow(ctx context.Context) (ended bool) {
	files, ended, err := f.due(ctx)
	if len(files) > 0 && f.hook.settle(ctx) {
		files, ended, err = f.due(ctx)
		if len(files) > 0 {
			err = f.ring(ctx, files)
		}
	}
	if ctx.Err() == nil {
		f.note(err)
	}
	return ended
}

// note records an error, unless it repeats the last one.
func (f *follower) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != f.failure {
		// An error here has nowhere to go.
		_ = NoteError(f.hook.Workspace, f.hook.now(), fmt.Errorf("following %s session %s: %w", f.state.Program, f.id, err))
	}
	f.failure = text
}

// read reads the state of the session. It reports whether the session lives, and whether it has ended. Both are false
// while neither is certain.
func (f *follower) read() (lives, ended bool) {
	now := f.hook.now()
	info, err := f.dir.Lstat(f.id + project.SessionSuffix)
	if err == nil {
		f.state, err = readSession(f.dir, f.id)
	}
	if err == nil && f.state.alive() {
		f.met, f.seen, f.changed = true, now, info.ModTime()
		return true, false
	}
	if f.met && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		return false, true
	}
	return false, now.Sub(f.seen) > startLimit
}

// due returns the files in the inbox to ring for now, and reports whether the session has ended. A ring must begin a
// turn that the user sees. It is useless while the session works: a later event shows the mail, and after an
// interruption codex keeps the prompt in its queue until the user sends another one, which shows the mail.
func (f *follower) due(ctx context.Context) (files []string, ended bool, err error) {
	lives, ended := f.read()
	s := &f.state
	switch {
	case !lives, s.Program != Codex, s.Working, !s.Attended(), f.hook.now().Before(f.again) && f.unanswered(), s.hasSuccessor(f.changed):
		return nil, ended, nil
	}
	// Codex does not say that a session ends if its user begins another one in its terminal.
	sessions, err := readSessions(f.hook.Workspace, f.hook.Agent)
	if err != nil || slices.ContainsFunc(sessions, func(other Session) bool { return other.Process == s.Process && other.Began.After(s.Began) }) {
		return nil, false, err
	}
	if running, err := track.IsRunning(f.hook.Workspace, f.hook.Agent); running || err != nil {
		return nil, false, err
	}
	files, err = f.unshown(ctx)
	return files, false, err
}

// unanswered reports whether some files of the last ring are still in the inbox, and the session was shown none of
// them.
func (f *follower) unanswered() bool {
	isRung := func(t Shown) bool { return slices.Contains(f.rung, t.File) }
	return !slices.ContainsFunc(f.state.Shown, isRung) && slices.ContainsFunc(f.rung, func(file string) bool {
		_, err := f.hook.Workspace.Root().Lstat(inboxOf(f.hook.Agent) + "/" + file)
		return err == nil
	})
}

// unshown returns the files in the inbox that are worth a ring and that the session was not shown. New mail is first
// for an idle session that precedes this one.
func (f *follower) unshown(ctx context.Context) (files []string, err error) {
	s := f.state
	names, err := f.hook.look(&s)
	if err != nil {
		return nil, err
	}
	mail, err := f.hook.read(ctx, &s, names)
	if err != nil {
		return nil, err
	}
	due, _, err := f.hook.reserve(&s, mail.fresh)
	now := f.hook.now()
	budget, _ := s.allowance(Event{Name: UserPromptSubmit}, due, digestOptions{Agent: s.Agent, Now: now}, defaultPace)
	if budget == 0 {
		return nil, err // the hook of the ring would show nothing
	}
	for _, m := range due {
		if m.isMessage() && wakes(m.Message, now) {
			files = append(files, m.File)
		}
	}
	return files, err
}

// ringText is the prompt of a ring for so many messages.
func ringText(messages int, agent schema.AgentName) string {
	if messages == 1 {
		return fmt.Sprintf("oacp: 1 message waits for %s", agent)
	}
	return fmt.Sprintf("oacp: %d messages wait for %s", messages, agent)
}

// isRing reports whether a prompt is the text of a ring.
func isRing(prompt string) bool {
	words := strings.Fields(prompt)
	if len(words) != 6 {
		return false
	}
	n, err := strconv.Atoi(words[1])
	return err == nil && strings.TrimSpace(prompt) == ringText(n, schema.AgentName(words[5]))
}

// ring makes codex begin a turn, with a prompt whose hook shows the mail. The prompt has the authority of the user,
// so it contains nothing from the messages.
func (f *follower) ring(ctx context.Context, files []string) error {
	f.rung, f.again = files, f.hook.now().Add(ringAgain)
	text := ringText(len(files), f.hook.Agent)
	limited, cancel := context.WithTimeout(ctx, ringLimit)
	defer cancel()
	command := exec.CommandContext(limited, codexOf(f.state.Process), "queue", "--thread", f.id, "--message", text)
	command.Args[0] = string(Codex)
	defer processgroup.Hold()()
	processgroup.Lead(command, syscall.SIGTERM)
	command.Cancel = func() error {
		processgroup.Kill(command.Process)
		return nil
	}
	command.WaitDelay = time.Second
	_, err := command.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		f.again = f.hook.now().Add(ringRetry)
		return fmt.Errorf("codex queue: %w", err)
	}
	return nil
}

// forget removes the state of a session that has ended without an event.
func (f *follower) forget(ctx context.Context, hold *exclusive.Hold) error {
	return f.dir.Locked(ctx, lockName, func() error {
		if lost, err := hold.Lost(); lost || err != nil {
			return err
		}
		if s, err := readSession(f.dir, f.id); err == nil && (s.Host != hostname() || s.lives()) {
			return nil
		}
		return removeSession(f.dir, f.id)
	})
}
