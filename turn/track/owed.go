package track

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
)

// Owed lists the requests that an agent has not answered, and its own that others have not
// answered.
type Owed struct {
	Agent schema.AgentName `json:"agent"`
	// Mine are the requests that wait for the agent's answer, and Theirs its own requests that wait for the
	// answers of others, the oldest first.
	Mine   []OpenRequest `json:"mine"`
	Theirs []OpenRequest `json:"theirs"`
	// Unread counts the messages in the agent's inbox that are new to it: see News.
	Unread int `json:"unread"`
}

// OpenRequest is a request that one of its recipients has not answered, and that has not expired.
type OpenRequest struct {
	ID   schema.ID        `json:"id"`
	From schema.AgentName `json:"from"`
	// To is the recipient that owes the answer.
	To             schema.AgentName      `json:"to"`
	Type           schema.Type           `json:"type"`
	Priority       schema.Priority       `json:"priority"`
	Subject        string                `json:"subject"`
	CreatedAt      schema.Timestamp      `json:"created_at_utc"`
	ExpiresAt      schema.Timestamp      `json:"expires_at,omitempty"`
	ConversationID schema.ConversationID `json:"conversation_id,omitempty"`
	Stage          Stage                 `json:"stage"`
	// Reason says why the request is held or dead, or how its last turn failed.
	Reason string `json:"reason,omitempty"`
	// Working is what the recipient said last about its work on the request.
	Working *Working `json:"working,omitempty"`
	// Replies are the recipient's messages about the request, which do not answer it.
	Replies []Reply `json:"replies,omitempty"`
	// Recall is what became of the sender's request to take the request back.
	Recall *RecallRequest `json:"recall,omitempty"`
}

// Said returns what Progress.Said does.
func (r OpenRequest) Said(now time.Time) string {
	return Progress{Agent: r.To, Stage: r.Stage, Working: r.Working, Replies: r.Replies, Recall: r.Recall}.Said(now)
}

// OwedBy returns what the agent owes and is owed. A request counts wherever it is, even if it was acknowledged.
// With a *mailbox.UnreadableError, OwedBy also returns what it could read.
func OwedBy(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName) (Owed, error) {
	owed := Owed{Agent: agent, Mine: []OpenRequest{}, Theirs: []OpenRequest{}}
	if err := w.CheckAgent(agent); err != nil {
		return owed, err
	}
	t := newTracker(w)
	all, err := w.Names(nil)
	if err != nil {
		return owed, err
	}
	now, last := newMemory(t, agent, all), recall(w, agent)
	listing := all
	if last.isValid(now, all) {
		listing = all.Having(last.mayMatter(all))
	}
	nodes, err := t.list(ctx, Query{Agent: agent, open: true}, listing)
	if err != nil {
		return owed, err
	}
	if owed.Unread, err = t.unread(ctx, agent); err != nil {
		return owed, err
	}
	for _, n := range nodes {
		m := n.Message
		isOpen := n.Err != nil // somebody may repair the file
		for _, p := range n.Recipients {
			concerns := m.IsFor(p.Agent) && (m.From == agent || p.Agent == agent) && p.Agent != mailbox.Postmaster
			if n.Err != nil || !concerns || p.Answer != "" {
				continue
			}
			isOpen = true // even if its sender took it back: it may be restored
			if p.Stage == StageRecalled {
				continue
			}
			request := OpenRequest{
				ID: m.ID, From: m.From, To: p.Agent, Type: m.Type, Priority: m.Priority, Subject: m.Subject, CreatedAt: m.CreatedAt,
				ExpiresAt: m.ExpiresAt, ConversationID: m.ConversationID, Stage: p.Stage, Reason: p.Reason, Working: p.Working, Replies: p.Replies,
				Recall: p.Recall,
			}
			if p.Agent == agent {
				owed.Mine = append(owed.Mine, request)
			} else {
				owed.Theirs = append(owed.Theirs, request)
			}
		}
		if isOpen {
			now.add(n.Files)
			now.addReplies(t, m.ID)
		}
	}
	if t.unreadable == nil && (now.Old != last.Old || now.Sum != last.Sum || now.Trust != last.Trust) {
		now.keep(w, agent)
	}
	return owed, t.result()
}

// unread counts the messages in the inbox of an agent that are new to it, as News does.
func (t *tracker) unread(ctx context.Context, agent schema.AgentName) (n int, err error) {
	state, err := t.inbox(agent)
	if err != nil {
		return 0, err
	}
	entries, err := t.w.Inbox(ctx, agent)
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err != nil:
		t.unreadable = &mailbox.UnreadableError{Err: err, Agents: []schema.AgentName{agent}}
	}
	for _, e := range entries {
		if e.Err == nil && !e.Message.ExpiredAt(t.now) && state.history.isNew(state.known(e.Message.ID), state.running, t.now) {
			n++
		}
	}
	return n, nil
}

// memory is what a search for an agent's open requests found. Requests in old files stay answered, so the next search opens
// only the young files, and the old ones of requests that were open.
type memory struct {
	// Trust tells whether the agent's trust changed.
	Trust string `json:"trust"`
	// Old is the first name that is not old, and Sum the sum of the old names. If the sum is the same later, no old file was
	// added, such as one that another machine sent late.
	Old string `json:"old"`
	Sum uint64 `json:"sum"`
	// Names are the names of the files that held open requests, the replies to these, and the replies to those, sorted.
	Names []string `json:"names"`
}

const (
	memoryFolder = "state/owed"
	maxMemory    = 1 << 20
	// youngFor is the age, to the hour, of the oldest young file.
	youngFor = time.Hour
)

func memoryName(agent schema.AgentName) string { return memoryFolder + "/" + string(agent) + ".json" }

// newMemory returns a memory of no requests.
func newMemory(t *tracker, agent schema.AgentName, all *mailbox.Listing) *memory {
	old := t.now.Add(-youngFor).UTC().Format("20060102T15")
	return &memory{Trust: fmt.Sprint(trust.StampOf(t.w, agent)), Old: old, Sum: sumBefore(old, all), Names: []string{}}
}

// recall returns what the last search found, or an empty memory.
func recall(w *mailbox.Workspace, agent schema.AgentName) *memory {
	last := new(memory)
	data, err := durable.ReadFile(w.Root(), w.Dir(), memoryName(agent), maxMemory)
	if err != nil || json.Unmarshal(data, last) != nil {
		return new(memory)
	}
	return last
}

// sumBefore returns the sum of the hashes of the names that sort before a string. It is the same whatever box a file is in.
func sumBefore(old string, all *mailbox.Listing) (sum uint64) {
	for _, name := range all.MessageFiles() {
		if name >= old {
			continue
		}
		hash := uint64(14695981039346656037) // FNV-1a
		for i := range len(name) {
			hash = (hash ^ uint64(name[i])) * 1099511628211
		}
		sum += hash
	}
	return sum
}

// isValid reports whether the memory tells which old files matter now.
func (m *memory) isValid(now *memory, all *mailbox.Listing) bool {
	sum := now.Sum
	if m.Old != now.Old {
		sum = sumBefore(m.Old, all)
	}
	return m.Old != "" && m.Trust == now.Trust && m.Sum == sum
}

// mayMatter returns the filter of the names of files that may hold an open request or a reply to one. What is in an inbox
// may have been restored.
func (m *memory) mayMatter(all *mailbox.Listing) mailbox.NameFilter {
	pending := make(map[string]bool)
	for _, name := range all.Only(func(_ schema.AgentName, box mailbox.Box) bool { return box == mailbox.Inbox }).MessageFiles() {
		pending[name] = true
	}
	return func(name string) bool {
		_, wasOpen := slices.BinarySearch(m.Names, name)
		return name >= m.Old || wasOpen || pending[name]
	}
}

func (m *memory) add(files []mailbox.Entry) {
	for _, e := range files {
		m.Names = append(m.Names, e.Name)
	}
}

// addReplies adds the replies to a request, and those to replies that ask back.
func (m *memory) addReplies(t *tracker, request schema.ID) {
	m.add(t.replies[request])
	for _, e := range t.replies[request] {
		m.add(t.replies[e.Message.ID])
	}
}

// keep writes what was found to a file. If it cannot, the next search only takes longer.
func (m *memory) keep(w *mailbox.Workspace, agent schema.AgentName) {
	slices.Sort(m.Names)
	m.Names = slices.Compact(m.Names)
	if data, err := json.Marshal(m); err == nil && w.MakeStateFolder(memoryFolder) == nil {
		_ = durable.ReplaceFile(w.Root(), w.Dir(), memoryName(agent), data, 0o644)
	}
}
