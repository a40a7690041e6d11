package live

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// A Hook answers the events of a session.
type Hook struct {
	Workspace *mailbox.Workspace
	Agent     schema.AgentName
	Program   Program
	// Getenv returns the variables of the hook's environment.
	Getenv func(string) string
	// Follow makes Handle ask for a follower of each session, not only of those of codex.
	Follow bool
	// Pace is the period in which digests that no person asked for may cost 1500 tokens together; zero means a minute.
	Pace time.Duration
	// Now returns the time; nil is time.Now.
	Now func() time.Time
	// caller returns the process that called the hook. Tests replace it.
	caller func() process.Info
}

const (
	// burst is how long the inbox must not change before a wake, so that a burst of mail causes one wake.
	// collect bounds that wait.
	burst   = 300 * time.Millisecond
	collect = 5 * time.Second
	// WakeLimit is how long the hook of FileChanged may take: nobody waits for it.
	WakeLimit = 590 * time.Second
	// handover is how long the program may take to notice that a hook has woken it.
	handover = 300 * time.Millisecond
)

// Handle passes to print what the program should show the model, if anything. It ignores events of subagents, and
// events that are not constants of this package. If print fails, or the process ends before Handle does, the next
// event shows the same mail again. After an error the state of the session is as before.
func (h *Hook) Handle(ctx context.Context, e Event, print func(Answer) error) (err error) {
	if !e.matters() {
		return nil
	}
	if err := h.Workspace.CheckAgent(h.Agent); err != nil {
		return err
	}
	if h.isQuiet(e) {
		return nil
	}
	if e.Name == SessionEnd {
		return h.end(ctx, e.Session)
	}
	dir, err := h.Workspace.OpenStateFolder(project.SessionsName(h.Agent))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if e.Name == FileChanged {
		return h.wake(ctx, dir, e, print)
	}
	return dir.Locked(ctx, lockName, func() error { return h.answer(ctx, dir, e, print) })
}

// wake answers FileChanged when a burst of mail is over, and again as long as some mail has to wait.
func (h *Hook) wake(ctx context.Context, dir *durable.Dir, e Event, print func(Answer) error) error {
	if !h.settle(ctx) {
		return context.Cause(ctx)
	}
	for {
		var later time.Time
		err := dir.Locked(ctx, lockName, func() error {
			return h.answer(ctx, dir, e, func(a Answer) error { later = a.later; return print(a) })
		})
		if err != nil || later.IsZero() || !pause(ctx, later.Sub(h.now())) {
			return err
		}
		if _, known, err := h.known(dir, e.Session); !known {
			return err // the session has ended
		}
	}
}

// settle waits until a burst of mail is over, and reports whether the context is still valid then.
func (h *Hook) settle(ctx context.Context) bool {
	var seen time.Time
	for waited := time.Duration(0); waited < collect && !seen.Equal(h.inboxTime()); waited += burst {
		if seen = h.inboxTime(); !pause(ctx, burst) {
			return false
		}
	}
	return true
}

func (h *Hook) end(ctx context.Context, session string) error {
	dir, err := openFolder(h.Workspace, h.Agent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = dir.Locked(ctx, lockName, func() error { return removeSession(dir, session) })
	return errors.Join(err, dir.Close())
}

// pause waits, and reports whether the context is still valid then.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// inboxTime returns when the names in the inbox last changed; it is zero if the inbox cannot be read.
func (h *Hook) inboxTime() time.Time {
	info, err := h.Workspace.Root().Lstat(inboxOf(h.Agent))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// answer answers an event. The caller holds the lock.
func (h *Hook) answer(ctx context.Context, dir *durable.Dir, e Event, print func(Answer) error) error {
	moment := h.moment(e.Session)
	s, begins, err := h.session(dir, e)
	if err != nil {
		return err
	}
	// After this hook the program passes on the text that woke it, but only if it has noticed the wake by then.
	isJustWoken := func(t Shown) bool { return t.Proof == delivered && h.now().Sub(t.At).Abs() < handover }
	if e.Name == PostToolUse && slices.ContainsFunc(s.Shown, isJustWoken) && !pause(ctx, handover) {
		return context.Cause(ctx)
	}
	if e.isAsked() {
		s.Used = h.now()
	}
	if e.Name == UserPromptSubmit {
		// A prompt that no other event followed is gone with its mail: a person has interrupted the turn before the model
		// answered, or another hook has blocked the prompt.
		s.Shown = slices.DeleteFunc(s.Shown, func(t Shown) bool { return t.Prompted })
		s.Woken = !e.isAsked()
	}
	noteErr := h.prove(&s, e.Name)
	s.Inbox = h.inboxTime().Round(0)
	text, later, err := h.news(ctx, dir, &s, e, begins)
	switch e.Name {
	case FileChanged:
		if text != "" || s.Retry.After(h.now()) && !later.Before(s.Retry) {
			later = time.Time{} // this hook must end to wake the program, or another hook already waits until then
		}
		s.Retry = cmp.Or(later, s.Retry)
	case Stop:
		s.Working = text != "" // which holds the session
	default:
		s.Working = e.Name != SessionStart
	}
	var written *durable.Replacement
	if err == nil {
		written, err = s.prepare(dir)
	}
	if err != nil {
		text = "" // what cannot be recorded is not shown
	}
	a := Answer{Follow: err == nil && begins && (h.Program == Codex || h.Follow), later: later}
	err = errors.Join(err, a.write(h, e, text))
	printErr := print(a)
	err = errors.Join(err, printErr)
	switch {
	case written == nil:
	case err == nil:
		err = written.Publish()
	default:
		err = errors.Join(err, written.Discard())
	}
	if text == "" || printErr != nil {
		err = errors.Join(err, track.Return(h.Workspace, h.Agent, s.holder(), true, s.offered...))
	}
	if err = errors.Join(noteErr, err); err == nil && e.Name == PostToolUse && s.isCaughtUp && written == nil && text == "" && moment != "" {
		h.noteQuiet(e.Session, moment)
	}
	return err
}

// known returns the state of a session, and whether there is one. A damaged state counts as missing.
func (h *Hook) known(dir *durable.Dir, id string) (s Session, known bool, err error) {
	s, err = readSession(dir, id)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errDamaged) {
		return Session{}, false, nil
	}
	return s, err == nil && s.Program == h.Program && s.Agent == h.Agent, err
}

// session returns the state of the session at an event, and whether the session begins with it.
func (h *Hook) session(dir *durable.Dir, e Event) (s Session, begins bool, err error) {
	s, known, err := h.known(dir, e.Session)
	if err != nil {
		return s, false, err
	}
	if !known || e.Source == "clear" {
		s = Session{Program: h.Program, ID: e.Session, Agent: h.Agent}
	}
	if begins = e.Name == SessionStart || !s.Greeted; begins {
		s.Began = h.now()
	}
	if before := s.holder(); begins || s.Process.PID == 0 {
		h.attach(&s, e)
		if continues := e.Source == "resume" && s.Process.PID == 0; begins && (continues || s.holder() != before) {
			// The program may have died with mail that the model is not known to have.
			s.Shown = slices.DeleteFunc(s.Shown, func(t Shown) bool { return t.Proof != none })
		}
	}
	return s, begins, nil
}

// attach records the process of the session. If codex runs the hooks of all sessions in one process, the session
// is in the only codex with a terminal in its folder, or in an unknown one.
func (h *Hook) attach(s *Session, e Event) {
	var p process.Info
	if h.caller != nil {
		p = h.caller()
	} else {
		p = caller(h.Program, h.Getenv)
	}
	s.Host, s.Dir = hostname(), e.Dir
	s.Process, s.Server = p.Process, process.Process{}
	if !isShared(p) {
		return
	}
	s.Process, s.Server = process.Process{}, p.Process
	if terminals := codexIn(e.Dir); len(terminals) == 1 {
		s.Process = terminals[0]
	}
}

func (h *Hook) now() time.Time {
	if h.Now == nil {
		return time.Now()
	}
	return h.Now()
}

// prove records the messages that the model has noticed, which the event proves. After an error, the next
// event tries again.
func (h *Hook) prove(s *Session, event string) error {
	before := slices.Clone(s.Shown)
	var noticed []track.Key
	for i := range s.Shown {
		t := &s.Shown[i]
		t.Prompted = t.Prompted && event != PostToolUse && event != Stop
		left := t.Proof.after(event, s.Working)
		if left == none && t.Proof != none && t.Key.ID != "" {
			noticed = append(noticed, t.Key)
		}
		t.Proof = left
	}
	if len(noticed) == 0 {
		return nil
	}
	err := track.NoteNoticed(h.Workspace, h.Agent, noticed,
		track.Noticed{Holder: s.holder(), At: h.now()})
	if err != nil {
		s.Shown = before
	}
	return err
}
