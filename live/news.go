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
	// noticeLimit is how long mail that a session was shown is reserved for it before it has noticed the mail.
	noticeLimit = 2 * time.Minute
	defaultPace = time.Minute
)

// news returns the text to show at an event, and notes in the session which messages it shows. If some mail has to
// wait, it returns until when.
func (h *Hook) news(ctx context.Context, dir *durable.Dir, s *Session, e Event, begins bool) (text string, later time.Time, err error) {
	if begins {
		// The session registers before it looks for a Runner: either it sees the Runner, or the Runner sees it.
		if err := errors.Join(h.forget(dir, s, e.Source), s.register(dir)); err != nil {
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
	names, err := h.look(s)
	if err != nil {
		return "", later, err
	}
	others, err := h.yield(s, names)
	if err != nil {
		return "", later, err
	}
	fresh, err := h.read(ctx, names, others)
	if e.Name == FileChanged {
		fresh = others.reserve(fresh, h.now())
	}
	switch {
	case err != nil:
		return "", later, err
	case len(fresh) > 0 && !e.shows(fresh, h.now()):
		return s.show(nil, o, e.Name), others.until, nil // a later event shows it
	}
	asked := e.isAsked() || begins
	if !asked && len(fresh) > 0 {
		if o.Budget, later = s.allowance(e, fresh, o, cmp.Or(h.Pace, defaultPace)); o.Budget == 0 {
			return s.show(nil, o, e.Name), later, nil
		}
	}
	var old []item
	if e.Name == UserPromptSubmit && asked {
		first := make(map[string]bool)
		for _, name := range s.Backlog[:min(len(s.Backlog), maxBacklog)] {
			first[name] = true
		}
		if old, err = h.read(ctx, first, others); err != nil {
			return "", later, err
		}
	}
	if o.Greeting = begins; begins {
		o.Project, o.Owed = project.Name(h.Workspace), h.owed(ctx, fresh, others)
	}
	if len(old) > 0 {
		o.Budget = defaultBudget - backlogBudget
	}
	backlog := len(s.Backlog)
	text = s.show(fresh, o, e.Name)
	if len(old) > 0 {
		text += s.show(old, digestOptions{Now: o.Now, Budget: backlogBudget, Backlog: backlog}, e.Name)
	}
	if !asked {
		s.Spent += Tokens(text)
	}
	return text, others.until, nil
}

// show writes a digest for an event, and notes in the session which mail it names and which is left over.
func (s *Session) show(mail []item, o digestOptions, event string) string {
	text, named := compose(mail, o)
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
	return text
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

// read reads files in the inbox, in its order. It skips files that may be incomplete.
func (h *Hook) read(ctx context.Context, names map[string]bool, o others) (mail []item, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	entries, err := h.Workspace.ListNamed(ctx, h.Agent, mailbox.Inbox, func(name string) bool { return names[name] }, func(*mailbox.Entry) bool { return true })
	signatures := trust.NewChecker(h.Workspace)
	for _, e := range mailbox.InOrder(entries) {
		if e.Err != nil && h.now().Sub(e.Modified).Abs() < settled {
			continue
		}
		_, elsewhere := o.shown[e.Name]
		mail = append(mail, item{Message: e.Message, File: e.Name, Err: e.Err, Arrived: e.Modified, Elsewhere: elsewhere, Signature: signatures.Check(e).Verdict})
	}
	return mail, err
}

// owed returns the requests that wait for the agent's answer, except those among the mail and those that
// another session was shown. It ignores errors, and limits the time of the search: the digest is useful
// without them.
func (h *Hook) owed(ctx context.Context, mail []item, o others) []track.OpenRequest {
	known := make(map[schema.ID]bool, len(mail)+len(o.shown))
	for _, id := range o.shown {
		known[id] = true
	}
	for i := range mail {
		if mail[i].isMessage() {
			known[mail[i].Message.ID] = true
		}
	}
	ctx, cancel := context.WithTimeout(ctx, owedLimit)
	defer cancel()
	owed, _ := track.OwedBy(ctx, h.Workspace, h.Agent)
	return slices.DeleteFunc(owed.Mine, func(r track.OpenRequest) bool { return known[r.ID] })
}

// others is what is known of the other living sessions of an agent.
type others struct {
	// shown are the files that they were shown, with the ids of the messages.
	shown map[string]schema.ID
	// idle reports whether one of them is idle and gets new mail first: a person used it later than this session, or
	// this one is not idle.
	idle bool
	// until is when the first file that is reserved for them is free for this session. It is zero if there is none.
	until time.Time
}

// yield drops the files that another living session of the agent was shown from fresh and from the backlog. It keeps
// those that the other session has not noticed within noticeLimit.
func (h *Hook) yield(s *Session, fresh map[string]bool) (o others, err error) {
	if len(fresh)+len(s.Backlog) == 0 {
		return o, nil
	}
	sessions, err := Sessions(h.Workspace, h.Agent)
	o.shown = make(map[string]schema.ID)
	taken := make(map[string]bool)
	for _, other := range sessions {
		if other.ID == s.ID || s.Program == Codex && other.Process == s.Process { // codex does not say that a session has ended
			continue
		}
		isIdle := !other.Working && (other.Program == Claude || other.Attended())
		isFirst := s.Working || cmp.Or(other.Used.Compare(s.Used), strings.Compare(s.ID, other.ID)) > 0
		o.idle = o.idle || isIdle && isFirst
		for _, t := range other.Shown {
			o.shown[t.File] = t.Key.ID
			waits := !t.Noticed() && h.now().Sub(t.At).Abs() < noticeLimit
			if waits && fresh[t.File] {
				o.waitUntil(t.At.Add(noticeLimit))
			}
			taken[t.File] = taken[t.File] || waits || t.Noticed()
		}
	}
	maps.DeleteFunc(fresh, func(name string, _ bool) bool { return taken[name] })
	s.Backlog = slices.DeleteFunc(s.Backlog, func(name string) bool { return taken[name] })
	return o, err
}

func (o *others) waitUntil(at time.Time) {
	if o.until.IsZero() || at.Before(o.until) {
		o.until = at
	}
}

// reserve returns the mail that may wake this session. If another session is idle and gets new mail first, that is only
// mail older than noticeLimit.
func (o *others) reserve(mail []item, now time.Time) []item {
	return slices.DeleteFunc(mail, func(m item) bool {
		isReserved := o.idle && now.Sub(m.Arrived).Abs() < noticeLimit
		if isReserved {
			o.waitUntil(m.Arrived.Add(noticeLimit))
		}
		return isReserved
	})
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
		if other.ID != s.ID && (cleared || other.isDead()) {
			err = errors.Join(err, removeSession(dir, other.ID))
		}
	}
	return errors.Join(err, readErr)
}
