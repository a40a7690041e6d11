package live

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// A Session is a session of a program that acts for an agent.
type Session struct {
	Program Program          `json:"program"`
	ID      string           `json:"session"`
	Agent   schema.AgentName `json:"agent"`
	// Process is the process in whose terminal the session is. It is zero if that is unknown; then Server
	// is the process that runs the session.
	Process process.Process `json:"process,omitzero"`
	Server  process.Process `json:"server,omitzero"`
	Host    string          `json:"host"`
	Dir     string          `json:"dir"`
	Began   time.Time       `json:"began"`
	// Used is when a person last started the session or sent it a prompt.
	Used time.Time `json:"used,omitzero"`
	// Greeted reports whether a hook has told the session who its agent is, or that a Runner works the inbox. Until
	// then each event is handled like the start of the session.
	Greeted bool `json:"greeted"`
	// Working reports whether a turn is running, or was interrupted.
	Working bool `json:"working"`
	// Inbox is the modification time of the inbox at the last event.
	Inbox time.Time `json:"inbox,omitzero"`
	// Backlog are the files that no digest has had room for, in the order of the inbox.
	Backlog []string `json:"backlog,omitempty"`
	// Spent counts the tokens of the digests since Minute that no person asked for. Retry is when a waiting
	// hook looks at the inbox again.
	Spent  int       `json:"spent,omitempty"`
	Minute time.Time `json:"minute,omitzero"`
	Retry  time.Time `json:"retry,omitzero"`
	// Requests are those that were shown to the session, and when, unless a Stop has said that it owes the answer.
	Requests map[schema.ID]time.Time `json:"requests,omitempty"`
	// Woken reports whether mail began the turn.
	Woken bool `json:"woken,omitempty"`
	// Shown are the files in the inbox that were shown to the session, the oldest first.
	Shown []Shown `json:"shown,omitempty"`

	// offered are the messages that the ledger says this event shows.
	offered []track.Key
	// isCaughtUp reports whether the session was shown each file in the inbox, or has it in its backlog.
	isCaughtUp bool
}

const (
	// The process that follows a session locks the file with followSuffix. The file with followerSuffix
	// names that process.
	followSuffix   = ".follow"
	followerSuffix = ".follower"
	// maxState bounds the size of a state file, in bytes.
	maxState = 64 << 20
	// lockName is the lock of an agent's sessions.
	lockName = ".lock"
)

// errDamaged is returned for a file that is not the state of the session.
var errDamaged = errors.New("it is damaged")

// Sessions returns the living sessions of the agents, or of all agents if none is named, the oldest
// first. It changes nothing. With a *mailbox.UnreadableError, it also returns those of the other agents.
func Sessions(w *mailbox.Workspace, agents ...schema.AgentName) (sessions []Session, err error) {
	if len(agents) == 0 {
		if agents, err = w.Agents(); err != nil {
			return nil, err
		}
	}
	unreadable := new(mailbox.UnreadableError)
	for _, agent := range agents {
		found, err := readSessions(w, agent)
		if err != nil {
			unreadable.Add(agent, err)
			continue
		}
		sessions = append(sessions, slices.DeleteFunc(found, func(s Session) bool { return !s.alive() })...)
	}
	slices.SortStableFunc(sessions, func(a, b Session) int { return a.Began.Compare(b.Began) })
	if unreadable.Err != nil {
		return sessions, unreadable
	}
	return sessions, nil
}

// alive reports whether the process of the session lives. It is false for a session on another host.
func (s *Session) alive() bool { return s.Host == hostname() && s.lives() }

func (s *Session) lives() bool {
	if s.Process.PID > 0 {
		return s.Process.IsAlive()
	}
	return s.Server.IsAlive() && mayShow(s.Dir)
}

// Attended reports whether the session is in the terminal of a known process that lives.
func (s *Session) Attended() bool { return s.Host == hostname() && s.Process.IsAlive() }

func hostname() string {
	host, _ := os.Hostname() // after an error, all sessions count as those of this host
	return host
}

// readSessions returns the sessions of an agent, including dead ones. It skips files that are not the
// state of a session.
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

// forgetGone drops the files that are not among the names in the inbox.
func (s *Session) forgetGone(names map[string]bool) {
	s.Shown = slices.DeleteFunc(s.Shown, func(t Shown) bool { return t.Proof == none && !names[t.File] })
	for i := range s.Shown {
		if t := &s.Shown[i]; !names[t.File] {
			t.File = "" // the key is still needed
		}
	}
	s.Backlog = slices.DeleteFunc(s.Backlog, func(name string) bool { return !names[name] })
}

// prepare writes the state of a session beside the file that it replaces. If the file has that state already, prepare
// returns nil: most events change nothing, and syncing a file takes longer than the rest of a hook.
func (s *Session) prepare(dir *durable.Dir) (*durable.Replacement, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	name, data := s.ID+project.SessionSuffix, append(data, '\n')
	if before, err := dir.ReadFile(name, maxState); err == nil && bytes.Equal(before, data) {
		return nil, nil
	}
	return dir.Prepare(name, data, 0o644)
}

// holder returns what the ledger knows the session as: another process that continues it is another one.
func (s *Session) holder() track.Holder {
	h := track.HolderOf(s.Process)
	h.Session, h.Program = s.ID, string(s.Program)
	return h
}

func (s *Session) save(dir *durable.Dir) error {
	written, err := s.prepare(dir)
	if err != nil || written == nil {
		return err
	}
	return written.Publish()
}

func removeSession(dir *durable.Dir, id string) error {
	var err error
	for _, suffix := range []string{project.SessionSuffix, followSuffix, followerSuffix, quietSuffix} {
		err = errors.Join(err, dir.Remove(id+suffix))
	}
	return err
}
