package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// A Session is a session of a program that acts for an agent.
type Session struct {
	Program Program          `json:"program"`
	ID      string           `json:"session"`
	Agent   schema.AgentName `json:"agent"`
	// Process is the one whose terminal the session is in. It is the zero value if that is not known;
	// then Server runs the session.
	Process Process   `json:"process,omitzero"`
	Server  Process   `json:"server,omitzero"`
	Host    string    `json:"host"`
	Dir     string    `json:"dir"`
	Began   time.Time `json:"began"`
	// Working reports whether a turn is running that nobody has interrupted. Transcript is the program's
	// record of the session.
	Working    bool   `json:"working"`
	Transcript string `json:"transcript,omitempty"`
	// Looked is the time of the inbox when it held nothing that was not shown to the session. It is zero if
	// the inbox may hold more.
	Looked time.Time `json:"looked,omitzero"`
	// Backlog counts the files that a digest had no room for and that are not shown yet. A file of their own
	// holds their names; newBacklog holds them if it is to be written.
	Backlog    int `json:"backlog,omitempty"`
	newBacklog []string
	// Spent counts the tokens of the digests since Minute that no person has asked for. Retry is when a hook that waits looks at the
	// inbox again.
	Spent  int       `json:"spent,omitempty"`
	Minute time.Time `json:"minute,omitzero"`
	Retry  time.Time `json:"retry,omitzero"`
	// Shown are the files in the inbox that were shown to the session, the oldest first.
	Shown []Shown `json:"shown,omitempty"`
	// Events says when an event of each name first came.
	Events map[string]time.Time `json:"events,omitempty"`
}

const (
	backlogSuffix = ".backlog"
	// followSuffix is that of the file that the process that follows a session locks, and followerSuffix
	// that of the file that names the process.
	followSuffix   = ".follow"
	followerSuffix = ".follower"
	// maxState bounds the size of a state file, in bytes.
	maxState = 64 << 20
	lockName = ".lock"
	// lockRetry is the pause between attempts to take the lock of an agent's sessions.
	lockRetry = 5 * time.Millisecond
)

// errDamaged is returned for a file that is not the state of the session.
var errDamaged = errors.New("it is damaged")

// Sessions returns the living sessions of the agents, or of all agents if none is named, the oldest
// first. It changes nothing.
func Sessions(w *mailbox.Workspace, agents ...schema.AgentName) (sessions []Session, err error) {
	if len(agents) == 0 {
		if agents, err = w.Agents(); err != nil {
			return nil, err
		}
	}
	for _, agent := range agents {
		found, err := readSessions(w, agent)
		if err != nil {
			return nil, err
		}
		sessions = append(sessions, slices.DeleteFunc(found, func(s Session) bool { return !s.alive() })...)
	}
	slices.SortStableFunc(sessions, func(a, b Session) int { return a.Began.Compare(b.Began) })
	return sessions, nil
}

// Find returns the state of a session. The error matches fs.ErrNotExist if there is none.
func Find(w *mailbox.Workspace, agent schema.AgentName, id string) (Session, error) {
	dir, err := openFolder(w, agent)
	if err != nil {
		return Session{}, err
	}
	defer dir.Close() // nothing is written
	return readSession(dir, id)
}

// alive reports whether the process of the session lives. It is false for a session on another host.
func (s *Session) alive() bool { return s.Host == hostname() && s.lives() }

// isDead reports whether the session is known to have ended.
func (s *Session) isDead() bool {
	known := s.Process.PID > 0 || s.Server.PID > 0
	return known && s.Host == hostname() && !s.lives()
}

func (s *Session) lives() bool {
	if s.Process.PID > 0 {
		return s.Process.alive()
	}
	return s.Server.alive() && mayShow(s.Dir)
}

// Attended reports whether the process of the terminal that the session is in is known and lives.
func (s *Session) Attended() bool { return s.Host == hostname() && s.Process.alive() }

// Interrupted reports whether the person has interrupted the last turn. Only the transcript of codex says so at once.
func (s *Session) Interrupted() bool {
	const tail = 16 << 10
	file, err := os.Open(s.Transcript)
	if err != nil || s.Program != Codex {
		return false
	}
	defer file.Close() // it was only read
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return false
	}
	last, _ := io.ReadAll(io.NewSectionReader(file, max(0, end-tail), tail)) // the rest says nothing
	return bytes.LastIndex(last, []byte(`"type":"turn_aborted"`)) > bytes.LastIndex(last, []byte(`"type":"task_started"`))
}

func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return host
}

// readSessions returns the sessions of an agent, also dead ones. It passes over files that it cannot
// read as a session.
func readSessions(w *mailbox.Workspace, agent schema.AgentName) (sessions []Session, err error) {
	dir, err := openFolder(w, agent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	names, err := dir.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		id, ok := strings.CutSuffix(name, project.SessionSuffix)
		if !ok || !project.ValidSession(id) {
			continue
		}
		if s, err := readSession(dir, id); err == nil && s.Agent == agent {
			sessions = append(sessions, s)
		}
	}
	return sessions, nil
}

// openFolder opens the folder with the sessions of an agent.
func openFolder(w *mailbox.Workspace, agent schema.AgentName) (*durable.Dir, error) {
	if _, err := schema.ParseAgentName(string(agent)); err != nil {
		return nil, err
	}
	return durable.OpenDir(w.Root(), w.Dir(), project.SessionsName(agent))
}

func readSession(dir *durable.Dir, id string) (s Session, err error) {
	if !project.ValidSession(id) {
		return s, fmt.Errorf("session %q: %w", id, fs.ErrNotExist)
	}
	data, err := dir.ReadFile(id+project.SessionSuffix, maxState)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("reading %s: %w: %w", dir.Path(id+project.SessionSuffix), errDamaged, err)
	}
	if s.ID != id {
		return s, fmt.Errorf("reading %s: %w: it is about session %q", dir.Path(id+project.SessionSuffix), errDamaged, s.ID)
	}
	return s, nil
}

// locked calls change while it holds the lock of the sessions of an agent.
func locked(ctx context.Context, dir *durable.Dir, change func() error) (err error) {
	lock := dir.NewLock(lockName)
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return errors.Join(err, lock.Close())
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	return change()
}

// hasLooked reports whether the session knows all that the inbox holds, which last changed at that time.
func (s *Session) hasLooked(changed time.Time) bool {
	return !s.Looked.IsZero() && s.Looked.Equal(changed)
}

// forgetGone drops the files that have left the inbox, which has these names.
func (s *Session) forgetGone(names map[string]bool) {
	s.Shown = slices.DeleteFunc(s.Shown, func(t Shown) bool { return t.Proof == none && !names[t.File] })
	for i := range s.Shown {
		if t := &s.Shown[i]; !names[t.File] {
			t.File = "" // the key is still needed
		}
	}
}

// backlog reads the names of the files that a digest had no room for, in order. Those that cannot be read count
// as new.
func (s *Session) backlog(dir *durable.Dir) (names []string) {
	if s.Backlog == 0 {
		return nil
	}
	data, err := dir.ReadFile(s.ID+backlogSuffix, maxState)
	if err != nil || json.Unmarshal(data, &names) != nil {
		return nil
	}
	return names
}

func (s *Session) setBacklog(names []string) { s.Backlog, s.newBacklog = len(names), names }

// replacements are files that are written, and replace others when they are published.
type replacements []*durable.Replacement

func (r replacements) publish() (err error) {
	for _, one := range r {
		err = errors.Join(err, one.Publish())
	}
	return err
}

func (r replacements) discard() (err error) {
	for _, one := range r {
		err = errors.Join(err, one.Discard())
	}
	return err
}

// prepare writes the state of a session beside the files that it replaces.
func (s *Session) prepare(dir *durable.Dir) (written replacements, err error) {
	add := func(suffix string, value any) error {
		data, err := json.Marshal(value)
		if err != nil {
			return err
		}
		one, err := dir.Prepare(s.ID+suffix, append(data, '\n'), 0o644)
		if err == nil {
			written = append(written, one)
		}
		return err
	}
	err = add(project.SessionSuffix, s)
	if err == nil && len(s.newBacklog) > 0 {
		err = add(backlogSuffix, s.newBacklog)
	}
	if err != nil {
		return nil, errors.Join(err, written.discard())
	}
	return written, nil
}

// register records that the session lives. It has had no event yet, so the next one begins it if this one fails.
func (s *Session) register(dir *durable.Dir) error {
	registered := *s
	registered.Events = nil
	written, err := registered.prepare(dir)
	if err != nil {
		return err
	}
	return written.publish()
}

// removeSession forgets a session.
func removeSession(dir *durable.Dir, id string) error {
	var err error
	for _, suffix := range []string{project.SessionSuffix, backlogSuffix, followSuffix, followerSuffix} {
		err = errors.Join(err, dir.Remove(id+suffix))
	}
	return err
}
