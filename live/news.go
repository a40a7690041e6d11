package live

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

const (
	// settled is the age from which a hook shows a file that is not a message: before, somebody may be writing it.
	settled = 10 * time.Second
	// owedLimit bounds the search for what the agent owes, while the program starts.
	owedLimit = 2 * time.Second
	// backlogBudget is what the backlog may cost in a prompt, in tokens. maxBacklog is how many messages fit
	// into that: the shortest line costs eight tokens.
	backlogBudget = 300
	maxBacklog    = backlogBudget / 8
	// headStart is how long new mail waits for an idle session before it wakes one that works.
	headStart = 15 * time.Second
	// heldAgain is how long the hook of an idle session waits before it looks whether the holder of mail is alive.
	heldAgain   = time.Minute
	defaultPace = time.Minute
)

// news returns the text to show at an event, and notes in the session which messages it shows. If some mail has to
// wait, it returns until when.
func (h *Hook) news(ctx context.Context, dir *durable.Dir, s *Session, e Event, begins bool) (text string, later time.Time, err error) {
	if begins {
		// The session registers before it looks for a Runner: either it sees the Runner, or the Runner sees it. It is not
		// greeted yet, so the next event begins it if this one fails.
		s.Greeted = false
		if err := errors.Join(h.forget(dir, s, e.Source), s.save(dir)); err != nil {
			return "", later, err
		}
		s.Greeted = true
	}
	running, err := track.IsRunning(h.Workspace, h.Agent)
	switch {
	case err != nil:
		return "", later, err
	case running && begins:
		return "oacp run works the inbox of " + string(h.Agent) + ": it answers the mail, and this session gets none.", later, nil
	case running:
		return "", later, nil
	}
	o := digestOptions{Agent: h.Agent, Now: h.now()}
	if o.Owed, err = h.remind(ctx, dir, s, e); err != nil {
		return "", later, err
	}
	asked := e.isAsked() || begins
	mail, later, err := h.gather(ctx, s, e, asked)
	if err != nil {
		return "", later, err
	}
	if asked {
		o.Seen = s.skip(mail.seen)
	}
	if len(mail.fresh) > 0 && !e.shows(mail.fresh, h.now()) { // a later event shows it
		text, err = h.show(ctx, s, nil, o, e.Name)
		return text, later, err
	}
	if !asked && len(mail.fresh) > 0 {
		var until time.Time
		if o.Budget, until = s.allowance(e, mail.fresh, o, cmp.Or(h.Pace, defaultPace)); o.Budget == 0 {
			text, err = h.show(ctx, s, nil, o, e.Name)
			return text, until, err
		}
	}
	var old found
	if e.Name == UserPromptSubmit && asked {
		first := make(map[string]bool)
		for _, name := range s.Backlog[:min(len(s.Backlog), maxBacklog)] {
			first[name] = true
		}
		if old, err = h.read(ctx, s, first); err != nil {
			return "", later, err
		}
		o.Seen += s.skip(old.seen)
	}
	if o.Greeting = begins; begins {
		o.Project, o.Owed = project.Name(h.Workspace), h.owed(ctx, mail)
	}
	if len(old.fresh) > 0 {
		o.Budget = defaultBudget - backlogBudget
	}
	if text, err = h.show(ctx, s, mail.fresh, o, e.Name); err != nil {
		return "", later, err
	}
	if len(old.fresh) > 0 {
		rest, err := h.show(ctx, s, old.fresh, digestOptions{Now: o.Now, Budget: backlogBudget, Backlog: len(s.Backlog)}, e.Name)
		if err != nil {
			return "", later, err
		}
		text += rest
	}
	if !asked {
		s.Spent += Tokens(text)
	}
	return text, later, nil
}

// gather returns the mail that is new to the session, and when a hook that wakes it looks again.
func (h *Hook) gather(ctx context.Context, s *Session, e Event, asked bool) (mail found, later time.Time, err error) {
	names, err := h.look(s)
	s.isCaughtUp = err == nil && len(names) == 0
	if err == nil {
		mail, err = h.read(ctx, s, names)
	}
	if err == nil && !asked && s.Process.PID == 0 {
		mail.fresh, err = h.yield(s, mail.fresh)
	}
	if err == nil && e.Name == FileChanged {
		if mail.fresh, later, err = h.reserve(s, mail.fresh); mail.waits {
			later = earliest(later, h.now().Add(heldAgain))
		}
	}
	return mail, later, err
}

// offer writes a digest and records that the session is offered the mail that it names, before it is. It leaves out mail
// that somebody else of the agent has got meanwhile, and returns the rest, with how many of it the digest names.
func (h *Hook) offer(ctx context.Context, s *Session, mail []item, o digestOptions) (text string, left []item, named int, err error) {
	given := make(map[string]bool)
	for {
		text, named = compose(mail, o)
		var missing []mailbox.Entry
		for _, m := range mail[:named] {
			if m.isMessage() && !given[m.File] {
				missing = append(missing, mailbox.Entry{Name: m.File, Path: m.Path, Message: m.Message})
			}
		}
		if len(missing) == 0 {
			return text, mail, named, nil
		}
		got, err := track.Offer(ctx, h.Workspace, h.Agent, s.holder(), missing, 0, false)
		if err != nil {
			return "", nil, 0, err
		}
		for _, g := range got {
			given[g.Name] = true
			s.offered = append(s.offered, track.KeyOf(g.Message))
		}
		mail = slices.DeleteFunc(mail, func(m item) bool {
			return !given[m.File] && slices.ContainsFunc(missing, func(e mailbox.Entry) bool { return e.Name == m.File })
		})
	}
}

// show writes a digest for an event, and notes in the session which mail it names and which is left over.
func (h *Hook) show(ctx context.Context, s *Session, mail []item, o digestOptions, event string) (text string, err error) {
	text, mail, named, err := h.offer(ctx, s, mail, o)
	if err != nil {
		return "", err
	}
	shown := make(map[string]bool)
	for _, m := range mail[:named] {
		one := Shown{File: m.File, At: o.Now, Prompted: event == UserPromptSubmit && s.Program == Claude}
		if m.isMessage() {
			one.Key = track.KeyOf(m.Message)
		}
		if one.Key.ID != "" {
			one.Proof = proofAfter(event, s.Working)
			s.note(m.Message, o.Now)
		}
		s.Shown = append(s.Shown, one)
		shown[m.File] = true
	}
	s.Backlog = slices.DeleteFunc(s.Backlog, func(name string) bool { return shown[name] })
	for _, m := range mail[named:] {
		if o.Backlog == 0 { // it is new
			s.Backlog = append(s.Backlog, m.File)
		}
	}
	return text, nil
}

// shows reports whether a hook shows the mail at an event. An event that causes a turn needs mail that is worth one.
func (e *Event) shows(mail []item, now time.Time) bool {
	switch {
	case e.Name != Stop && e.Name != FileChanged:
		return true
	case e.Name == Stop && e.StopActive:
		return false
	}
	return slices.ContainsFunc(mail, func(m item) bool { return m.Err == nil && wakes(m.Message, now) })
}

// look returns the files in the inbox that are new to the session. It also makes the session forget those that have
// left the inbox.
func (h *Hook) look(s *Session) (fresh map[string]bool, err error) {
	all, err := durable.ListFolder(h.Workspace.Root(), h.Workspace.Dir(), inboxOf(h.Agent))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	fresh = make(map[string]bool)
	for _, name := range all {
		if schema.IsMessageFile(name) {
			fresh[name] = true
		}
	}
	s.forgetGone(fresh)
	for _, t := range s.Shown {
		delete(fresh, t.File)
	}
	for _, name := range s.Backlog {
		delete(fresh, name)
	}
	return fresh, nil
}

// found is mail in the inbox, as a session finds it.
type found struct {
	// fresh is what nobody of the agent has. Seen are the files of messages that somebody noticed who has ended.
	fresh []item
	seen  []string
	// held are the requests that another holder has. Waits reports whether one of them may never notice its mail.
	held  map[schema.ID]bool
	waits bool
}

// read reads files in the inbox, in its order. It skips files that may be incomplete.
func (h *Hook) read(ctx context.Context, s *Session, names map[string]bool) (f found, err error) {
	if len(names) == 0 {
		return f, nil
	}
	entries, err := h.Workspace.ListNamed(ctx, h.Agent, mailbox.Inbox, func(name string) bool { return names[name] }, func(*mailbox.Entry) bool { return true })
	signatures, news := trust.NewChecker(h.Workspace), track.NewsOf(h.Workspace, h.Agent)
	f.held = make(map[schema.ID]bool)
	for _, e := range mailbox.InOrder(entries) {
		if e.Err != nil && h.now().Sub(e.Modified).Abs() < settled {
			continue
		}
		standing := track.Fresh
		if e.Err == nil && e.Message != nil {
			standing = news.Standing(e.Message, s.holder())
		}
		switch standing {
		case track.Seen:
			f.seen = append(f.seen, e.Name)
		case track.Offered, track.Taken:
			f.held[e.Message.ID], f.waits = true, f.waits || standing == track.Offered
		case track.Fresh:
			f.fresh = append(f.fresh, item{
				Message: e.Message, File: e.Name, Path: e.Path, Err: e.Err, Arrived: e.Modified, Signature: signatures.Check(e).Verdict,
			})
		}
	}
	return f, err
}

// skip remembers files that the session does not show, because the agent has seen them. It returns how many they are.
func (s *Session) skip(files []string) int {
	for _, name := range files {
		s.Shown = append(s.Shown, Shown{File: name})
	}
	s.Backlog = slices.DeleteFunc(s.Backlog, func(name string) bool { return slices.Contains(files, name) })
	return len(files)
}

// owed returns the requests that wait for the agent's answer, except those among the mail and those that another holder
// has. It ignores errors, and limits the time of the search: the digest is useful without them.
func (h *Hook) owed(ctx context.Context, mail found) []track.OpenRequest {
	known := make(map[schema.ID]bool, len(mail.fresh)+len(mail.held))
	maps.Copy(known, mail.held)
	for _, m := range mail.fresh {
		if m.isMessage() {
			known[m.Message.ID] = true
		}
	}
	ctx, cancel := context.WithTimeout(ctx, owedLimit)
	defer cancel()
	owed, _ := track.OwedBy(ctx, h.Workspace, h.Agent)
	return slices.DeleteFunc(owed.Mine, func(r track.OpenRequest) bool { return known[r.ID] })
}

// yield returns the mail for a session whose terminal is not known: of several that cannot be told apart, new mail goes to
// the one that was prompted last.
func (h *Hook) yield(s *Session, mail []item) ([]item, error) {
	isAfter := func(other Session) bool { return other.Process.PID == 0 && other.Used.After(s.Used) }
	if others, err := h.others(s, mail); err != nil || slices.ContainsFunc(others, isAfter) {
		return nil, err
	}
	return mail, nil
}

// reserve returns the mail that may wake this session now, and when it may wake it for the rest. New mail is first for an
// idle session, and of several for the one that a person used last.
func (h *Hook) reserve(s *Session, mail []item) (due []item, later time.Time, err error) {
	precedes := func(other Session) bool {
		isIdle := !other.Working && (other.Program == Claude || other.Attended())
		return isIdle && (s.Working || cmp.Or(other.Used.Compare(s.Used), strings.Compare(s.ID, other.ID)) > 0)
	}
	if others, err := h.others(s, mail); err != nil || !slices.ContainsFunc(others, precedes) {
		return mail, later, err
	}
	for _, m := range mail {
		if free := m.Arrived.Add(headStart); free.After(h.now()) {
			later = earliest(later, free)
		} else {
			due = append(due, m)
		}
	}
	return due, later, nil
}

// others returns the other living sessions of the agent, if there is mail for them. Codex does not say that a session ends
// if its user begins another one in its terminal.
func (h *Hook) others(s *Session, mail []item) ([]Session, error) {
	if len(mail) == 0 {
		return nil, nil
	}
	sessions, err := Sessions(h.Workspace, h.Agent)
	return slices.DeleteFunc(sessions, func(other Session) bool {
		return other.ID == s.ID || s.Program == Codex && s.Process.PID > 0 && other.Process == s.Process
	}), err
}

// earliest returns the earlier of two times. A zero time is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// allowance returns how many tokens a digest that no person asked for may cost. It returns 0, and until when the mail has
// to wait, if recent digests leave no room for it, or if the session works: then the hooks of its tool calls show the
// mail, unless a person has interrupted the turn.
func (s *Session) allowance(e Event, mail []item, d digestOptions, pace time.Duration) (budget int, later time.Time) {
	if d.Now.Sub(s.Minute) >= pace {
		s.Minute, s.Spent = d.Now, 0
	}
	d.Budget = defaultBudget - s.Spent
	_, named := compose(mail, d)
	full := s.Spent > 0 && (d.Budget < minBudget || named < len(mail))
	if full || e.Name == FileChanged && s.Working && s.Spent > 0 {
		return 0, s.Minute.Add(pace)
	}
	return d.Budget, later
}

// forget prepares a session that begins. It removes the files of dead sessions of the agent, of the session that
// this one replaces, and of hooks that were killed.
func (h *Hook) forget(dir *durable.Dir, s *Session, source string) error {
	s.Backlog = nil
	names, err := dir.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		// A follower that begins may be writing its note.
		if file, _, temporary := strings.Cut(name, ".tmp-"); temporary && strings.HasPrefix(file, ".") && !strings.HasSuffix(file, followerSuffix) {
			err = errors.Join(err, dir.Remove(name))
		}
	}
	sessions, readErr := readSessions(h.Workspace, h.Agent)
	for _, other := range sessions {
		cleared := source == "clear" && other.Process == s.Process && s.Process.PID > 0
		isDead := other.Process.PID+other.Server.PID > 0 && other.Host == hostname() && !other.lives()
		if other.ID != s.ID && (cleared || isDead) {
			err = errors.Join(err, removeSession(dir, other.ID))
		}
	}
	return errors.Join(err, readErr)
}
