package dashboard

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// listing is the message files in a folder of a mailbox.
type listing struct {
	names    []string
	modified time.Time // of the folder
	listed   time.Time
}

// timeStep is the coarsest step of a file system's clock. A folder that changed less than this
// before it was listed may have changed afterwards within the same step.
const timeStep = 2 * time.Second

// list returns the message files in a folder. It reads the folder only if its time has changed. A
// missing folder is empty.
func (s *source) list(w *mailbox.Workspace, agent schema.AgentName, in mailbox.Box) (*listing, error) {
	path := w.BoxPath(agent, in)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &listing{}, nil
	}
	if err != nil {
		return &listing{}, err
	}
	known := s.listings[path]
	if known != nil && known.modified.Equal(info.ModTime()) && known.listed.Sub(known.modified) > timeStep {
		return known, nil
	}
	result := &listing{modified: info.ModTime(), listed: time.Now()}
	names, err := durable.ListFolder(w.Root(), w.Dir(), schema.BoxPath(agent, in))
	if err != nil {
		return &listing{}, err
	}
	result.names = slices.DeleteFunc(names, func(name string) bool { return !schema.IsMessageFile(name) })
	s.listings[path] = result
	return result, nil
}

// statusReading is the last reading of an agent's status.
type statusReading struct {
	status track.AgentStatus
	err    error
	at     time.Time
	took   time.Duration
}

// statusShare bounds the time for reading a status, which reads every message in the inbox: one
// part in statusShare.
const statusShare = 20

// status returns the status of an agent, and reads it again if that is due.
func (s *source) status(ctx context.Context, w *mailbox.Workspace, name schema.AgentName) *statusReading {
	path, begin := w.BoxPath(name, mailbox.Inbox), time.Now()
	if known := s.statuses[path]; known != nil && begin.Sub(known.at) < statusShare*known.took {
		return known
	}
	result := &statusReading{status: track.AgentStatus{Agent: name}}
	statuses, err := track.Status(ctx, w, name)
	if err == nil {
		result.status = statuses[0]
	}
	result.err, result.at = err, time.Now()
	result.took = result.at.Sub(begin)
	s.statuses[path] = result
	return result
}

// journalPath returns the path of the journal of an agent's turns.
func journalPath(w *mailbox.Workspace, name schema.AgentName) string {
	return filepath.Join(w.Dir(), "state", "turns", string(name)+".jsonl")
}

// agent returns the state of an agent.
func (s *source) agent(ctx context.Context, w *mailbox.Workspace, name schema.AgentName) Agent {
	inbox, err := s.list(w, name, mailbox.Inbox)
	outbox, outboxErr := s.list(w, name, mailbox.Outbox)
	journal := markOf(journalPath(w, name))
	reading := s.status(ctx, w, name)
	result := Agent{AgentStatus: reading.status, Inbox: len(inbox.names)}
	for _, at := range []time.Time{inbox.modified, outbox.modified, journal.modified} {
		if at.After(result.Activity) {
			result.Activity = at.UTC().Truncate(time.Second)
		}
	}
	if err := errors.Join(err, outboxErr, reading.err); err != nil {
		result.Problem = err.Error()
	}
	return result
}

// latestMessages is how many messages of a folder, and of a workspace, a source reads.
const latestMessages = 100

// messageReading is a file that was read. The message is nil if it is not a message.
type messageReading struct {
	message  *Message
	modified time.Time
	trusted  trust.Stamp // by which it was read
	seen     int
}

// messages returns the latest messages of a workspace, each once, the oldest first. It omits files
// of which no id can be read, which the agent's status counts as it does those that are not valid.
func (s *source) messages(w *mailbox.Workspace, agents []schema.AgentName) []Message {
	known := make(map[schema.ID]*Message)
	for _, in := range []mailbox.Box{mailbox.Outbox, mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters} {
		for _, agent := range agents {
			listed, err := s.list(w, agent, in)
			if err != nil {
				continue // the agent's row has the error
			}
			recorded, trusted := markOf(journalPath(w, agent)).modified, trust.StampOf(w, agent)
			for _, name := range latest(listed.names, latestMessages) {
				m := s.message(w, agent, in, name, trusted)
				if m == nil {
					continue
				}
				if known[m.ID] == nil {
					shown := *m
					known[m.ID] = &shown
				}
				switch shown := known[m.ID]; in {
				case mailbox.Inbox:
					shown.Waiting = append(shown.Waiting, agent)
					if recorded.After(shown.recorded) {
						shown.recorded = recorded
					}
				case mailbox.DeadLetters:
					shown.Dead = append(shown.Dead, agent)
				}
			}
		}
	}
	result := make([]Message, 0, len(known))
	for _, m := range known {
		result = append(result, *m)
	}
	sortMessages(result)
	return result[max(0, len(result)-latestMessages):]
}

// sortMessages puts messages in the order of a conversation.
func sortMessages(messages []Message) {
	conversation.Sort(messages, func(m Message) *schema.Message {
		return &schema.Message{ID: m.ID, ParentID: m.parent, CreatedAt: m.CreatedAt}
	})
}

// message reads a message file, unless it did so before.
func (s *source) message(w *mailbox.Workspace, agent schema.AgentName, in mailbox.Box, name string, trusted trust.Stamp) *Message {
	path := filepath.Join(w.BoxPath(agent, in), name)
	info, err := os.Lstat(path)
	if err != nil {
		return nil // it was removed meanwhile
	}
	if known := s.texts[path]; known != nil && known.modified.Equal(info.ModTime()) && known.trusted == trusted {
		known.seen = s.current
		return known.message
	}
	reading := &messageReading{modified: info.ModTime(), trusted: trusted, seen: s.current}
	s.texts[path] = reading
	e := mailbox.Entry{Agent: agent, Box: in, Name: name, Path: path}
	data, err := w.ReadRaw(e)
	if err != nil {
		return nil
	}
	m, err := w.Decode(e, data)
	if m == nil || m.ID == "" {
		return nil
	}
	problem := ""
	if err != nil {
		m = command.Preview(&mailbox.Entry{Message: m, Err: err, Modified: info.ModTime()})
		problem = err.Error()
	}
	reading.message = &Message{
		ID: m.ID, From: m.From, To: m.To, Type: m.Type, Priority: m.Priority, CreatedAt: m.CreatedAt,
		Subject: m.Subject, ConversationID: m.ConversationID, parent: m.ParentID, Error: problem,
	}
	return reading.message
}

// latest returns the names of the n latest message files, and all others of the same minute as the
// last of them. Names begin with the minute in one of two forms, with and without a T.
func latest(names []string, n int) []string {
	if len(names) <= n {
		return names
	}
	minute := func(name string) string {
		digits := strings.Replace(name[:min(len(name), 13)], "T", "", 1)
		if digits = digits[:min(len(digits), 12)]; strings.Trim(digits, "0123456789") != "" {
			return ""
		}
		return digits
	}
	sorted := slices.SortedFunc(slices.Values(names), func(a, b string) int { return strings.Compare(minute(b), minute(a)) })
	for n < len(sorted) && minute(sorted[n]) == minute(sorted[n-1]) {
		n++
	}
	return sorted[:n]
}
