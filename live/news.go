package live

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

const (
	// stable is the age from which the time of a folder tells a later change from the last one: times of
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
	// fresh came after the session began, waiting are those before that it was not told.
	fresh, waiting map[string]bool
}

// news returns what to say at an event, and notes in the session what that tells.
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
	if running {
		s.setWaiting(names.fresh)
		return "oacp run works the inbox of " + string(h.Agent) + ": it answers the mail, and this session gets none.", nil
	}
	wanted := names.fresh
	if begins || e.Name == UserPromptSubmit {
		wanted = make(map[string]bool)
		for _, some := range []map[string]bool{names.fresh, names.waiting} {
			for name := range some {
				wanted[name] = true
			}
		}
	}
	mail, unsettled, err := h.read(ctx, wanted)
	if err != nil {
		return "", err
	}
	now := h.now()
	wakes := slices.ContainsFunc(mail, func(m Mail) bool { return m.Err == nil && Wakes(m.Message, now) })
	waits := e.Name == Stop && (e.StopActive || !wakes) || e.Name == FileChanged && !wakes
	if waits && len(mail) > 0 {
		s.Looked = time.Time{} // a later event tells it
		return "", nil
	}
	return h.tell(ctx, s, e, tidings{names, mail, unsettled, begins})
}

// tidings are what there is to tell at an event.
type tidings struct {
	names     inboxNames
	mail      []Mail
	unsettled bool
	begins    bool
}

// tell composes the digest and notes what it names.
func (h *Hook) tell(ctx context.Context, s *Session, e Event, t tidings) (string, error) {
	var others map[string]bool
	if len(t.mail) > 0 {
		var err error
		if others, err = h.toldElsewhere(s); err != nil {
			return "", err
		}
	}
	for i := range t.mail {
		m := &t.mail[i]
		m.Elsewhere, m.Standing = others[m.File], t.begins || t.names.waiting[m.File]
	}
	o := DigestOptions{Agent: h.Agent, Project: project.Name(h.Workspace), Greeting: t.begins, Now: h.now()}
	if t.begins {
		o.Owed = h.owed(ctx)
	}
	digest := Compose(t.mail, o)
	named := make(map[string]bool, len(digest.Named))
	for _, i := range digest.Named {
		named[t.mail[i].File] = true
	}
	keys, err := h.keys(ctx, named)
	if err != nil {
		return "", err
	}
	for _, i := range digest.Named {
		told := Told{File: t.mail[i].File, At: h.now(), Key: keys[t.mail[i].File]}
		if told.Key.ID != "" {
			told.Proof = proofAfter(e.Name, s.Working)
		}
		s.Told = append(s.Told, told)
	}
	left, fresh := t.names.waiting, 0
	if t.begins {
		left = t.names.fresh
	}
	for name := range named {
		delete(left, name)
	}
	if !t.begins {
		for name := range t.names.fresh {
			if !named[name] {
				fresh++
			}
		}
	}
	s.Looked = time.Time{}
	if t.names.stable && fresh == 0 && !t.unsettled {
		s.Looked = t.names.changed
	}
	s.setWaiting(left)
	return digest.Text, nil
}

// look lists the inbox. It drops from the session what has left the inbox.
func (h *Hook) look(dir *durable.Dir, s *Session) (n inboxNames, err error) {
	n = inboxNames{changed: h.inboxTime(), fresh: make(map[string]bool)}
	age := h.now().Sub(n.changed)
	n.stable = !n.changed.IsZero() && age > stable
	n.waiting = s.waiting(dir)
	if s.Looked.Equal(n.changed) && !s.Looked.IsZero() {
		return n, nil
	}
	inbox, err := durable.OpenDir(h.Workspace.Root(), h.Workspace.Dir(), inboxOf(h.Agent))
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return n, err
	}
	all, err := inbox.Names()
	if err = errors.Join(err, inbox.Close()); err != nil {
		return n, err
	}
	for _, name := range all {
		if schema.IsMessageFile(name) {
			n.fresh[name] = true
		}
	}
	s.Told = slices.DeleteFunc(s.Told, func(t Told) bool { return t.Proof == none && !n.fresh[t.File] })
	for i := range s.Told {
		if t := &s.Told[i]; n.fresh[t.File] {
			delete(n.fresh, t.File)
		} else {
			t.File = ""
		}
	}
	for name := range n.waiting {
		if !n.fresh[name] {
			delete(n.waiting, name)
		}
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
	for _, e := range entries {
		if e.Err != nil && h.now().Sub(e.Modified).Abs() < settled {
			unsettled = true
			continue
		}
		mail = append(mail, Mail{Message: e.Message, File: e.Name, Err: e.Err})
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

// owed returns the requests that the agent has acknowledged and not answered. Nothing depends on them, so
// a search that fails or takes long finds none.
func (h *Hook) owed(ctx context.Context) []turn.OpenRequest {
	ctx, cancel := context.WithTimeout(ctx, owedLimit)
	defer cancel()
	owed, err := turn.OwedBy(ctx, h.Workspace, h.Agent)
	if err != nil && len(owed.Mine) == 0 {
		return nil
	}
	return owed.Mine
}

// toldElsewhere returns the files that other living sessions of the agent were told.
func (h *Hook) toldElsewhere(s *Session) (map[string]bool, error) {
	sessions, err := Sessions(h.Workspace, h.Agent)
	told := make(map[string]bool)
	for _, other := range sessions {
		if other.ID == s.ID {
			continue
		}
		for _, t := range other.Told {
			told[t.File] = true
		}
	}
	return told, err
}

// forget removes what is left of the dead sessions of the agent, of the one that this one takes the place
// of, and of hooks that were killed. In a session that begins, every file in the inbox waits.
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
