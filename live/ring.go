package live

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
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
	// startLimit is how long the hook that starts a follower may take to write the state of its session, and
	// how long that state may be unreadable.
	startLimit = 10 * time.Second
	// ringAgain is how long a ring may go unanswered before the next one: codex keeps them all. ringRetry is the pause after one
	// that failed.
	ringAgain = time.Hour
	ringRetry = time.Minute
	// ringLimit bounds the run of codex that rings.
	ringLimit = 30 * time.Second
)

// Follow waits until a session has ended: its state or the workspace is gone, or its process has ended.
// Then it forgets the session. The wait also ends if another process follows the session. Meanwhile Follow
// rings a session of codex that is idle when mail comes that wakes: it queues a prompt that tells how many
// messages wait. The hook of that prompt shows them.
//
// Follow rings only if the session is in a terminal: codex would also run the turn of a closed one. It notes
// errors with NoteError and continues. If the context ends first, Follow returns its cause. Now returns the
// time; nil is time.Now.
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
	// met reports whether the session was ever alive. seen is when its state was last readable.
	met  bool
	seen time.Time
	// rung are the files of the last ring, and again says when they may be rung for once more.
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

// follow looks at the session once, and rings if that is due. It reports whether the session has ended.
func (f *follower) follow(ctx context.Context) (ended bool) {
	files, ended, err := f.due(ctx)
	if len(files) > 0 && pause(ctx, burst) {
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

// note notes an error, unless it is the last one again.
func (f *follower) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != f.failure {
		// Nobody can be told if this fails.
		_ = NoteError(f.hook.Workspace, f.hook.now(), fmt.Errorf("following %s session %s: %w", f.state.Program, f.id, err))
	}
	f.failure = text
}

// read reads the state of the session. It reports whether the session lives, and whether it has ended; both are false if
// that is not known.
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

// due returns the files in the inbox to ring for now, and reports whether the session has ended. A ring must begin a turn in
// view of the user, and no event that shows the mail may be due. After an interruption, codex keeps what is queued until
// its user sends a prompt, which shows the mail.
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

// unanswered reports whether the session was shown none of the files of the last ring, and some of them are
// still in the inbox.
func (f *follower) unanswered() bool {
	isRung := func(t Shown) bool { return slices.Contains(f.rung, t.File) }
	return !slices.ContainsFunc(f.state.Shown, isRung) && slices.ContainsFunc(f.rung, func(file string) bool {
		_, err := f.hook.Workspace.Root().Lstat(inboxOf(f.hook.Agent) + "/" + file)
		return err == nil
	})
}

// unshown returns the files in the inbox that are worth a ring and that were not shown to the session.
func (f *follower) unshown(ctx context.Context) (files []string, err error) {
	s := f.state
	names, err := f.hook.look(&s)
	if err != nil {
		return nil, err
	}
	others, err := f.hook.yield(&s, names)
	if err != nil {
		return nil, err
	}
	mail, err := f.hook.read(ctx, names, others)
	now := f.hook.now()
	for _, m := range mail {
		isForOther := others.idle && m.Message != nil && now.Sub(m.Message.CreatedAt.Time()) < noticeLimit // which is rung first
		if m.isMessage() && wakes(m.Message, now) && !isForOther {
			files = append(files, m.File)
		}
	}
	return files, err
}

// ring makes codex begin a turn that the digest of its prompt's hook is for. The prompt has the authority of
// the user, so it holds nothing of the messages.
func (f *follower) ring(ctx context.Context, files []string) error {
	f.rung, f.again = files, f.hook.now().Add(ringAgain)
	text := fmt.Sprintf("oacp: %d messages wait for %s", len(files), f.hook.Agent)
	if len(files) == 1 {
		text = fmt.Sprintf("oacp: 1 message waits for %s", f.hook.Agent)
	}
	limited, cancel := context.WithTimeout(ctx, ringLimit)
	defer cancel()
	command := exec.CommandContext(limited, f.state.Process.codex(), "queue", "--thread", f.id, "--message", text)
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

// forget removes what is left of a session that has ended without an event.
func (f *follower) forget(ctx context.Context, hold *exclusive.Hold) error {
	return locked(ctx, f.dir, func() error {
		if lost, err := hold.Lost(); lost || err != nil {
			return err
		}
		if s, err := readSession(f.dir, f.id); err == nil && (s.Host != hostname() || s.lives()) {
			return nil
		}
		return removeSession(f.dir, f.id)
	})
}
