package dashboard

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// latestMessages is how many messages of a folder, and of a workspace, are
// looked at.
const latestMessages = 100

// messageReading is a message file that was read; nil is none.
type messageReading struct {
	message  *Message
	modified time.Time
	seen     int
}

// messages returns the latest messages of a workspace, each once, the oldest
// first. A file that is no message is left out: the agent's status counts it.
func (s *Source) messages(w *mailbox.Workspace, agents []schema.AgentName) []Message {
	known := make(map[schema.ID]*Message)
	all := []*Message{}
	for _, in := range []mailbox.Box{mailbox.Outbox, mailbox.Inbox, mailbox.Archive} {
		for _, agent := range agents {
			listed, err := s.list(w, agent, in)
			if err != nil {
				continue // the agent's own row says so
			}
			for _, name := range latest(w.BoxPath(agent, in), listed.names, latestMessages) {
				m := s.message(w, agent, in, name)
				if m == nil {
					continue
				}
				if known[m.ID] == nil {
					shown := *m
					known[m.ID] = &shown
					all = append(all, &shown)
				}
				if in == mailbox.Inbox {
					known[m.ID].Waiting = append(known[m.ID].Waiting, agent)
				}
			}
		}
	}
	result := make([]Message, len(all))
	for i, m := range all {
		result[i] = *m
	}
	sortMessages(result)
	return result[max(0, len(result)-latestMessages):]
}

// sortMessages puts the oldest first, those of one second in the order in
// which their files were written.
func sortMessages(messages []Message) {
	slices.SortFunc(messages, func(a, b Message) int {
		return cmp.Or(
			strings.Compare(string(a.CreatedAt), string(b.CreatedAt)),
			a.written.Compare(b.written),
			strings.Compare(string(a.ID), string(b.ID)),
		)
	})
}

// message reads a message file, unless it did so before.
func (s *Source) message(w *mailbox.Workspace, agent schema.AgentName, in mailbox.Box, name string) *Message {
	path := filepath.Join(w.BoxPath(agent, in), name)
	info, err := os.Lstat(path)
	if err != nil {
		return nil // it has gone meanwhile
	}
	if known := s.texts[path]; known != nil && known.modified.Equal(info.ModTime()) {
		known.seen = s.current
		return known.message
	}
	reading := &messageReading{modified: info.ModTime(), seen: s.current}
	s.texts[path] = reading
	data, err := w.ReadRaw(mailbox.Entry{Agent: agent, Box: in, Name: name, Path: path})
	if err != nil {
		return nil
	}
	m, err := validate.Read(data)
	if err != nil {
		return nil
	}
	reading.message = &Message{
		ID: m.ID, From: m.From, To: m.To, Type: m.Type, Priority: m.Priority, CreatedAt: m.CreatedAt,
		Subject: m.Subject, ConversationID: m.ConversationID, written: info.ModTime(), parent: m.ParentID,
	}
	return reading.message
}

// latest returns the names of the latest messages, by the minute that their
// names begin with and, where that does not decide, by the time of the file.
func latest(folder string, names []string, most int) []string {
	if len(names) <= most {
		return names
	}
	sorted := slices.SortedFunc(slices.Values(names), func(a, b string) int { return strings.Compare(minute(b), minute(a)) })
	last := minute(sorted[most-1])
	first := slices.IndexFunc(sorted, func(name string) bool { return minute(name) == last })
	end := first
	for end < len(sorted) && minute(sorted[end]) == last {
		end++
	}
	if end == most {
		return sorted[:most]
	}
	times := make(map[string]time.Time, end-first)
	for _, name := range sorted[first:end] {
		if info, err := os.Lstat(filepath.Join(folder, name)); err == nil {
			times[name] = info.ModTime()
		}
	}
	slices.SortFunc(sorted[first:end], func(a, b string) int { return times[b].Compare(times[a]) })
	return sorted[:most]
}

// minute returns the twelve digits of date, hour and minute that the name of
// a message file begins with, in either of the documented forms; nothing
// where it does not.
func minute(name string) string {
	digits := make([]byte, 0, 12)
	for i := 0; i < len(name) && len(digits) < cap(digits); i++ {
		switch c := name[i]; {
		case c >= '0' && c <= '9':
			digits = append(digits, c)
		case c != 'T' || i != 8:
			return ""
		}
	}
	return string(digits)
}
