package live

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

const (
	// stable is the age from which the time of a folder distinguishes a later change from the last one: times of
	// files are coarse.
	stable = 2 * time.Second
	// settled is the age from which a file that is not a message counts: somebody may be writing it.
	settled = 10 * time.Second
	// maxBody bounds what is kept of a body, in bytes. No digest has more.
	maxBody = 8 << 10
	// owedLimit bounds the search for what the agent owes, while the program starts.
	owedLimit = 2 * time.Second
)

// inboxNames are the files in an inbox, by what the session knows of them.
type inboxNames struct {
	// changed is when the folder last changed, and stable says that a later change has another time.
	changed time.Time
	stable  bool
	// fresh files came after the session began. Waiting ones came before, and were not shown to the session.
	fresh, waiting map[string]bool
}

// news returns what to say at an event, and notes in the session which messages that shows. The session begins if it
// knows nothing yet.
func (h *Hook) news(ctx context.Context, dir *durable.Dir, s *Session, e Event, begins bool) (string, error) {
	if begins {
		if err := h.forget(dir, s, e.Source); err != nil {
			return "", err
		}
	}
	running, err := turn.IsRunning(h.Workspace, h.Agent)
	if err != nil {
		return "", err
	}
	if running && !begins {
		s.Looked = time.Time{}
		return "", nil
	}
	names, err := h.look(dir, s)
	if err != nil {
		return "", err
	}
	if begins {
		names.waiting, names.fresh = names.fresh, make(map[string]bool)
	}
	if running {
		s.setWaiting(names.waiting)
		return "oacp run works the inbox of " + string(h.Agent) + ": it answers the mail, and this session gets none.", nil
	}
	wanted := names.fresh
	if begins || e.Name == UserPromptSubmit {
		wanted = maps.Clone(names.fresh)
		maps.Copy(wanted, names.waiting)
	}
	mail, unsettled, err := h.read(ctx, wanted)
	if err != nil {
		return "", err
	}
	if len(mail) > 0 && !e.shows(mail, h.now()) {
		s.Looked = time.Time{} // a later event shows it
		return "", nil
	}
	digest, err := h.compose(ctx, s, names, mail, begins)
	if err != nil {
		return "", err
	}
	shown, err := h.shown(ctx, digest, mail)
	if err != nil {
		return "", err
	}
	for _, t := range shown {
		if t.Key.ID != "" {
			t.Proof = proofAfter(e.Name, s.Working)
		}
		s.Shown = append(s.Shown, t)
		delete(names.fresh, t.File)
		delete(names.waiting, t.File)
	}
	s.setWaiting(names.waiting)
	s.Looked = time.Time{}
	if names.stable && len(names.fresh) == 0 && !unsettled {
		s.Looked = names.changed
	}
	return digest.Text, nil
}

// shows reports whether an event is one to show mail at. Those that cause a turn need mail that is worth one.
func (e *Event) shows(mail []Mail, now time.Time) bool {
	switch {
	case e.Name != Stop && e.Name != FileChanged:
		return true
	case e.Name == Stop && e.StopActive:
		return false
	}
	return slices.ContainsFunc(mail, func(m Mail) bool { return m.Err == nil && Wakes(m.Message, now) })
}

// compose writes the digest of mail for a session.
func (h *Hook) compose(ctx context.Context, s *Session, names inboxNames, mail []Mail, begins bool) (Digest, error) {
	if len(mail) > 0 {
		others, err := h.shownElsewhere(s)
		if err != nil {
			return Digest{}, err
		}
		for i := range mail {
			m := &mail[i]
			m.Elsewhere, m.Standing = others[m.File], names.waiting[m.File]
		}
	}
	o := DigestOptions{Agent: h.Agent, Project: project.Name(h.Workspace), Greeting: begins, Now: h.now()}
	if begins {
		o.Owed = h.owed(ctx)
	}
	return Compose(mail, o), nil
}

// shown returns the files that a digest names, in its order.
func (h *Hook) shown(ctx context.Context, digest Digest, mail []Mail) ([]Shown, error) {
	named := make(map[string]bool, len(digest.Named))
	for _, i := range digest.Named {
		named[mail[i].File] = true
	}
	keys, err := h.keys(ctx, named)
	shown := make([]Shown, 0, len(digest.Named))
	for _, i := range digest.Named {
		file := mail[i].File
		shown = append(shown, Shown{File: file, At: h.now(), Key: keys[file]})
	}
	return shown, err
}

// look lists the inbox, unless the session knows all that it holds. It drops from the session what has left
// the inbox.
func (h *Hook) look(dir *durable.Dir, s *Session) (n inboxNames, err error) {
	n = inboxNames{changed: h.inboxTime(), fresh: make(map[string]bool), waiting: s.waiting(dir)}
	n.stable = !n.changed.IsZero() && h.now().Sub(n.changed) > stable
	if s.hasLooked(n.changed) {
		return n, nil
	}
	all, err := durable.ListFolder(h.Workspace.Root(), h.Workspace.Dir(), inboxOf(h.Agent))
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return n, err
	}
	for _, name := range all {
		if schema.IsMessageFile(name) {
			n.fresh[name] = true
		}
	}
	s.forgetGone(n.fresh)
	maps.DeleteFunc(n.waiting, func(name string, _ bool) bool { return !n.fresh[name] })
	for _, t := range s.Shown {
		delete(n.fresh, t.File)
	}
	for name := range n.waiting {
		delete(n.fresh, name)
	}
	return n, nil
}

// read reads files in the inbox. Unsettled says that it left some out, because they may not be complete.
func (h *Hook) read(ctx context.Context, names map[string]bool) (mail []Mail, unsettled bool, err error) {
	if len(names) == 0 {
		return nil, false, nil
	}
	entries, err := h.Workspace.ListNamed(ctx, h.Agent, mailbox.Inbox, func(name string) bool { return names[name] }, func(e *mailbox.Entry) bool {
		if m := e.Message; m != nil && m.Body.Kind == schema.Text && len(m.Body.Text) > maxBody {
			m.Body.Text = strings.ToValidUTF8(m.Body.Text[:maxBody], "")
		}
		return true
	})
	signatures := trust.NewChecker(h.Workspace)
	for _, e := range entries {
		if e.Err != nil && h.now().Sub(e.Modified).Abs() < settled {
			unsettled = true
			continue
		}
		mail = append(mail, Mail{Message: e.Message, File: e.Name, Err: e.Err, Signature: signatures.Check(e).Verdict})
	}
	return mail, unsettled, err
}

// keys returns the keys of messages, which depend on their whole bodies.
func (h *Hook) keys(ctx context.Context, names map[string]bool) (map[string]turn.Key, error) {
	keys := make(map[string]turn.Key, len(names))
	if len(names) == 0 {
		return keys, nil
	}
	var mu sync.Mutex
	_, err := h.Workspace.ListNamed(ctx, h.Agent, mailbox.Inbox, func(name string) bool { return names[name] }, func(e *mailbox.Entry) bool {
		if e.Err != nil {
			return false
		}
		if k, err := turn.KeyOf(e.Message); err == nil {
			mu.Lock()
			defer mu.Unlock()
			keys[e.Name] = k
		}
		return false
	})
	return keys, err
}

// owed returns the requests that the agent has acknowledged and not answered. It returns none if the search
// fails or takes long: the digest is useful without them.
func (h *Hook) owed(ctx context.Context) []turn.OpenRequest {
	ctx, cancel := context.WithTimeout(ctx, owedLimit)
	defer cancel()
	owed, err := turn.OwedBy(ctx, h.Workspace, h.Agent)
	if err != nil && len(owed.Mine) == 0 {
		return nil
	}
	return owed.Mine
}

// shownElsewhere returns the files that were shown to other living sessions of the agent.
func (h *Hook) shownElsewhere(s *Session) (map[string]bool, error) {
	sessions, err := Sessions(h.Workspace, h.Agent)
	shown := make(map[string]bool)
	for _, other := range sessions {
		if other.ID == s.ID {
			continue
		}
		for _, t := range other.Shown {
			shown[t.File] = true
		}
	}
	return shown, err
}

// forget prepares a session that begins. It removes the files of dead sessions of the agent, of the session that
// this one replaces, and of hooks that were killed.
func (h *Hook) forget(dir *durable.Dir, s *Session, source string) error {
	s.Looked, s.Left = time.Time{}, 0
	names, err := dir.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, ".") && strings.Contains(name, ".tmp-") {
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
