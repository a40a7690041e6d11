package dashboard

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

// box is the listing of a folder of a mailbox.
type box struct {
	names    []string
	modified time.Time
	listed   time.Time
}

// settled is how long ago a folder must have changed for its time to tell
// every later change: file systems count time in steps.
const settled = 2 * time.Second

// list returns the names of the message files in a folder, and when it last
// changed. A folder that is not there is empty.
func (s *Source) list(w *mailbox.Workspace, agent schema.AgentName, in mailbox.Box) (*box, error) {
	path := w.BoxPath(agent, in)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &box{}, nil
	}
	if err != nil {
		return &box{}, err
	}
	known := s.boxes[path]
	if known != nil && known.modified.Equal(info.ModTime()) && known.listed.Sub(known.modified) > settled {
		return known, nil
	}
	listed := time.Now() // before reading: what changes meanwhile is later
	dir, err := os.Open(path)
	if err != nil {
		return &box{}, err
	}
	names, err := dir.Readdirnames(-1)
	if err := errors.Join(err, dir.Close()); err != nil {
		return &box{}, err
	}
	result := &box{modified: info.ModTime(), listed: listed}
	for _, name := range names {
		if schema.IsMessageFile(name) {
			result.names = append(result.names, name)
		}
	}
	s.boxes[path] = result
	return result, nil
}

// agentReading is the last reading of an agent's status.
type agentReading struct {
	status turn.AgentStatus
	err    error
	mark   mark
	at     time.Time
	took   time.Duration
}

// mark changes when what a status is read from does.
type mark struct {
	inbox, dead, journal time.Time
	journalSize          int64
}

// Reading the status of an agent reads every message in its inbox. It takes
// at most one part in changedShare of the time while the mailbox changes, and
// one in idleShare otherwise, when a runner may still have died, or a message
// expired.
const (
	changedShare = 10
	idleShare    = 50
)

// agent tells how it stands with an agent.
func (s *Source) agent(ctx context.Context, w *mailbox.Workspace, name schema.AgentName) Agent {
	inbox, err := s.list(w, name, mailbox.Inbox)
	dead, deadErr := s.list(w, name, mailbox.DeadLetters)
	outbox, outboxErr := s.list(w, name, mailbox.Outbox)
	err = errors.Join(err, deadErr, outboxErr)
	now := mark{inbox: inbox.modified, dead: dead.modified}
	if info, err := os.Stat(filepath.Join(w.Dir(), "state", "turns", string(name)+".jsonl")); err == nil {
		now.journal, now.journalSize = info.ModTime(), info.Size()
	}
	reading := s.status(ctx, w, name, now)
	result := Agent{AgentStatus: reading.status, Inbox: len(inbox.names)}
	for _, at := range []time.Time{inbox.modified, outbox.modified, now.journal} {
		if at.After(result.Activity) {
			result.Activity = at.UTC()
		}
	}
	if err := errors.Join(err, reading.err); err != nil {
		result.Problem = err.Error()
	}
	return result
}

// status returns the status of an agent, read anew where that is due.
func (s *Source) status(ctx context.Context, w *mailbox.Workspace, name schema.AgentName, now mark) *agentReading {
	path := w.BoxPath(name, mailbox.Inbox)
	known, began := s.agents[path], time.Now()
	if known != nil {
		share := time.Duration(changedShare)
		if known.mark == now {
			share = idleShare
		}
		if began.Sub(known.at) < share*known.took {
			return known
		}
	}
	result := &agentReading{status: turn.AgentStatus{Agent: name}, mark: now}
	statuses, err := turn.Status(ctx, w, name)
	if err == nil {
		result.status = statuses[0]
	}
	result.err, result.at = err, time.Now()
	result.took = result.at.Sub(began)
	s.agents[path] = result
	return result
}
