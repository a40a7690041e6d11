package live

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	// silence is after how long a turn without an event counts as ended, because the hook of its end may have failed. A ring in a turn
	// that still runs only queues a prompt behind it.
	silence = 10 * time.Minute
	// ringAgain is how long a ring may go unanswered before the next one. The time doubles with each of
	// them, up to ringLast: codex keeps them all.
	ringAgain = 2 * time.Minute
	ringLast  = time.Hour
	// ringRetry is the pause after the first ring for some mail, if it failed.
	ringRetry = 10 * time.Second
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
	hold, err := f.take(ctx)
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
	// state is the session as it was read last, and file that file.
	state Session
	file  fs.FileInfo
	// met reports whether the session was ever alive. seen is when its state was last readable.
	met  bool
	seen time.Time
	// idle is the time of the inbox when it held nothing to ring for, and idleFile the state file then.
	idle     time.Time
	idleFile fs.FileInfo
	// rung are the files of the last ring, again says when they may be rung for once more, and patience is
	// the time between the two.
	rung     []string
	again    time.Time
	patience time.Duration
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

// take takes the lock. The end of a session removes its file, perhaps just before that.
func (f *follower) take(ctx context.Context) (*exclusive.Hold, error) {
	for {
		hold, err := followLock(f.hook.Workspace, f.hook.Agent, f.id).Take(ctx, f.hook.now())
		if err != nil {
			return nil, err
		}
		lost, err := hold.Lost()
		if err == nil && !lost {
			return hold, nil
		}
		if err := errors.Join(err, hold.Release()); err != nil {
			return nil, err
		}
	}
}

// follow looks at the session once, and rings if that is due. It reports whether the session has ended.
func (f *follower) follow(ctx context.Context) (ended bool) {
	if ended = f.read(); ended || f.file == nil {
		return ended
	}
	files, err := f.due(ctx)
	if len(files) > 0 && err == nil && pause(ctx, burst) {
		if ended = f.read(); ended || f.file == nil {
			return ended
		}
		files, err = f.due(ctx)
		if len(files) > 0 && err == nil {
			err = f.ring(ctx, files)
		}
	}
	if ctx.Err() == nil {
		f.note(err)
	}
	return false
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

// read reads the state of the session, and reports whether the session has ended. It returns no file if it
// does not know.
func (f *follower) read() (ended bool) {
	if !isThere(f.hook.Workspace) {
		return true
	}
	now := f.hook.now()
	info, err := f.dir.Lstat(f.id + project.SessionSuffix)
	if err == nil && (f.file == nil || !sameState(info, f.file)) {
		f.state, err = readSession(f.dir, f.id)
	}
	if err == nil && f.state.alive() {
		f.met, f.seen, f.file = true, now, info
		return false
	}
	f.file = nil
	if f.met && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		return true
	}
	return now.Sub(f.seen) > startLimit
}

// isThere reports whether the workspace is still in its place.
func isThere(w *mailbox.Workspace) bool {
	named, err := os.Stat(w.Dir())
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
	}
	held, err := w.Root().Stat(".")
	return err != nil || os.SameFile(named, held)
}

// sameState reports whether a state file was not replaced.
func sameState(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// due returns the files in the inbox to ring for now.
func (f *follower) due(ctx context.Context) ([]string, error) {
	inbox, now := f.hook.inboxTime(), f.hook.now()
	quiet := f.idleFile != nil && sameState(f.file, f.idleFile) && f.idle.Equal(inbox)
	if quiet || !f.state.ringable(f.file.ModTime(), now) || now.Before(f.again) && f.unanswered() {
		return nil, nil
	}
	if running, err := track.IsRunning(f.hook.Workspace, f.hook.Agent); running || err != nil {
		return nil, err
	}
	if gone, err := f.superseded(); gone || err != nil {
		return nil, err
	}
	return f.unshown(ctx)
}

// ringable reports whether a ring would begin a turn in view of the user, and no event that shows the mail
// is due. The state last changed at the given time. After an interruption, codex keeps what is queued until
// its user sends a prompt, which shows the mail.
func (s *Session) ringable(changed, now time.Time) bool {
	busy := s.Working && (now.Sub(changed) < silence || s.Interrupted())
	return s.Program == Codex && s.Attended() && !busy
}

// unanswered reports whether the session was shown none of the files of the last ring, and some of them are
// still in the inbox.
func (f *follower) unanswered() bool {
	return !f.state.knows(f.rung) && slices.ContainsFunc(f.rung, f.isInInbox)
}

// knows reports whether any of the files was shown to the session.
func (s *Session) knows(files []string) bool {
	return slices.ContainsFunc(s.Shown, func(t Shown) bool { return slices.Contains(files, t.File) })
}

func (f *follower) isInInbox(file string) bool {
	_, err := f.hook.Workspace.Root().Lstat(inboxOf(f.hook.Agent) + "/" + file)
	return err == nil
}

// superseded reports whether the terminal of the session shows another one, of a later event or without one:
// codex does not say that a session ends if its user begins another one.
func (f *follower) superseded() (bool, error) {
	if f.state.hasSuccessor(f.file.ModTime()) {
		return true, nil
	}
	others, err := readSessions(f.hook.Workspace, f.hook.Agent)
	for _, other := range others {
		if other.ID == f.id || other.Program != Codex || other.Process != f.state.Process {
			continue
		}
		if info, err := f.dir.Lstat(other.ID + project.SessionSuffix); err == nil && info.ModTime().After(f.file.ModTime()) {
			return true, nil
		}
	}
	return false, err
}

// unshown returns the files in the inbox that are worth a ring and that were not shown to the session.
func (f *follower) unshown(ctx context.Context) (files []string, err error) {
	s := f.state
	s.Shown = slices.Clone(s.Shown)
	names, err := f.hook.look(f.dir, &s)
	if err != nil {
		return nil, err
	}
	others, err := f.hook.yield(&s, &names)
	if err != nil {
		return nil, err
	}
	mail, unsettled, err := f.hook.read(ctx, names.fresh, others)
	if err != nil {
		return nil, err
	}
	now := f.hook.now()
	for _, m := range mail {
		switch {
		case m.Err != nil || !wakes(m.Message, now):
		case others.idle && now.Sub(m.Message.CreatedAt.Time()) < noticeLimit:
			names.held = true // the other session is rung first
		default:
			files = append(files, m.File)
		}
	}
	if len(files) == 0 && names.stable && !unsettled && !names.held {
		f.idle, f.idleFile = names.changed, f.file
	}
	return files, nil
}

// ring makes codex begin a turn that the digest of its prompt's hook is for. The prompt has the authority of
// the user, so it holds nothing of the messages.
func (f *follower) ring(ctx context.Context, files []string) error {
	if f.unanswered() {
		f.patience = min(2*f.patience, ringLast)
	} else {
		f.patience = ringAgain
	}
	f.rung, f.again = files, f.hook.now().Add(f.patience)
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
		if f.patience == ringAgain {
			f.again = f.hook.now().Add(ringRetry)
		}
		return fmt.Errorf("codex queue: %w", err)
	}
	return nil
}

// forget removes what is left of a session that has ended without an event.
func (f *follower) forget(ctx context.Context, hold *exclusive.Hold) error {
	if !isThere(f.hook.Workspace) {
		return nil
	}
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
