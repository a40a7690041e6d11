package track

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
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
}

// OwedBy returns what the agent owes and is owed. A request counts wherever it is, even if it was acknowledged.
// With a *mailbox.UnreadableError, OwedBy also returns what it could read.
func OwedBy(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName) (Owed, error) {
	owed := Owed{Agent: agent, Mine: []OpenRequest{}, Theirs: []OpenRequest{}}
	if err := w.CheckAgent(agent); err != nil {
		return owed, err
	}
	t := newTracker(w)
	listing, open, err := t.listOpen(ctx, agent)
	if err != nil {
		return owed, err
	}
	nodes, err := t.list(ctx, Query{Agent: agent, open: true}, listing)
	if err != nil {
		return owed, err
	}
	if owed.Unread, err = t.unread(ctx, agent); err != nil {
		return owed, err
	}
	recently := open.latest().Truncate(time.Minute)
	for _, n := range nodes {
		m := n.Message
		isPending := slices.ContainsFunc(n.Files, func(e mailbox.Entry) bool { return e.Box == mailbox.Inbox })
		isOpen := isPending || !m.CreatedAt.Time().Before(recently)
		for _, p := range n.Recipients {
			concerns := m.IsFor(p.Agent) && (m.From == agent || p.Agent == agent) && p.Agent != mailbox.Postmaster
			if n.Err != nil || !concerns || p.Answer != "" || p.Stage == StageRecalled {
				continue
			}
			isOpen = true
			request := OpenRequest{
				ID: m.ID, From: m.From, To: p.Agent, Type: m.Type, Priority: m.Priority, Subject: m.Subject, CreatedAt: m.CreatedAt,
				ExpiresAt: m.ExpiresAt, ConversationID: m.ConversationID, Stage: p.Stage, Reason: p.Reason, Working: p.Working, Replies: p.Replies,
			}
			if p.Agent == agent {
				owed.Mine = append(owed.Mine, request)
			} else {
				owed.Theirs = append(owed.Theirs, request)
			}
		}
		if isOpen {
			open.add(n.Files)
			open.addReplies(t, m.ID)
		}
	}
	if t.unreadable == nil {
		open.keep(w, agent)
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
		if e.Err == nil && !e.Message.ExpiredAt(t.now) && state.known(e.Message.ID).isNew(state.running) {
			n++
		}
	}
	return n, nil
}

// memory is what the last search for an agent's open requests found.
type memory struct {
	// Trust tells whether the agent's trust changed.
	Trust string `json:"trust"`
	// Folders are the boxes that were searched.
	Folders map[string]searched `json:"folders"`
	// Names are the names of the files that held open requests, the replies to these, and the replies to those. The
	// requests that are pending or new count as open, because acknowledging one adds its file to the archive.
	Names []string `json:"names"`
}

// searched is the state of a box when it was searched.
type searched struct {
	// Changed is when the box last changed, in nanoseconds.
	Changed int64 `json:"changed"`
	// Sum is the mailbox.Listing.Sum of the names before Old. If it is the same later, no file with such a name was added.
	Old string `json:"old"`
	Sum uint64 `json:"sum"`
}

// latest is when a box changed last.
func (m *memory) latest() time.Time {
	var latest int64
	for _, s := range m.Folders {
		latest = max(latest, s.Changed)
	}
	return time.Unix(0, latest)
}

// sum notes which old names are in the boxes. A file with a young name may still be written after its box was searched.
func (m *memory) sum(listing *mailbox.Listing, now time.Time) {
	old := now.Add(-24 * time.Hour).UTC().Format("20060102T1504Z")
	listing.Boxes(func(agent schema.AgentName, box mailbox.Box) {
		path := schema.BoxPath(agent, box)
		if s, ok := m.Folders[path]; ok {
			s.Old, s.Sum = old, listing.Sum(agent, box, old)
			m.Folders[path] = s
		}
	})
}

const (
	memoryFolder = "state/owed"
	maxMemory    = 1 << 20
)

// settled is the age of a change after which the next one surely gives the folder another time. Tests change it.
var settled = time.Second

func memoryName(agent schema.AgentName) string { return memoryFolder + "/" + string(agent) + ".json" }

// listOpen lists the files that the last search found open, and those that were added since then. It lists all files if
// it cannot tell which these are. The memory has no folders if there is nothing new to remember.
func (t *tracker) listOpen(ctx context.Context, agent schema.AgentName) (listing *mailbox.Listing, now memory, err error) {
	agents, err := t.w.Agents()
	if err != nil {
		return nil, now, err
	}
	now = memory{Trust: fmt.Sprint(trust.StampOf(t.w, agent)), Folders: make(map[string]searched)}
	isSettled := true
	for _, owner := range agents {
		for _, box := range schema.Boxes() {
			if info, err := os.Stat(t.w.BoxPath(owner, box)); err == nil {
				at := durable.Changed(info)
				now.Folders[schema.BoxPath(owner, box)] = searched{Changed: at.UnixNano()}
				isSettled = isSettled && !at.IsZero() && t.now.Sub(at) >= settled
			}
		}
	}
	var last memory
	data, err := durable.ReadFile(t.w.Root(), t.w.Dir(), memoryName(agent), maxMemory)
	isKnown := err == nil && json.Unmarshal(data, &last) == nil && last.Trust == now.Trust
	isSame := isKnown && maps.EqualFunc(last.Folders, now.Folders, func(a, b searched) bool { return a.Changed == b.Changed })
	if isKnown && !isSame {
		var added []string
		added, isKnown, err = t.added(ctx, &last, &now)
		last.Names = append(last.Names, added...)
	}
	if err == nil && isKnown {
		listing, err = t.w.Assume(last.Names)
	} else {
		listing, err = t.w.Names(nil)
		now.sum(listing, t.now)
	}
	if isSame || !isSettled {
		now.Folders = nil
	}
	return listing, now, err
}

// added returns the names of the files that were added since the last search. It reports false if a search of
// these and what was open could miss something: a clock went back, or a request was made before the last search, so
// that its answer may have been there already.
func (t *tracker) added(ctx context.Context, last, now *memory) (names []string, ok bool, err error) {
	latest := last.latest()
	for path, s := range now.Folders {
		before := last.Folders[path]
		switch {
		case before.Changed == s.Changed:
			now.Folders[path] = before
		case time.Unix(0, s.Changed).Before(latest):
			return nil, false, nil
		}
	}
	changed, err := t.w.Names(func(agent schema.AgentName, box mailbox.Box) bool {
		path := schema.BoxPath(agent, box)
		return last.Folders[path].Changed != now.Folders[path].Changed
	})
	if err != nil {
		return nil, false, err
	}
	nothing := func(string) bool { return false }
	if _, err := changed.Search(ctx, nothing, nil); err != nil { // a folder cannot be read
		return nil, false, context.Cause(ctx)
	}
	ok = true
	changed.Boxes(func(agent schema.AgentName, box mailbox.Box) {
		before, isKnown := last.Folders[schema.BoxPath(agent, box)]
		from := "" // the first name whose file may have been added
		if changed.Sum(agent, box, before.Old) == before.Sum {
			from = before.Old
		}
		for _, name := range changed.From(agent, box, from) {
			info, err := os.Lstat(filepath.Join(t.w.BoxPath(agent, box), name))
			if !ok || err != nil || isKnown && durable.Changed(info).Before(latest) || slices.Contains(last.Names, name) {
				continue
			}
			parsed, err := schema.ParseFileName(name)
			ok = err == nil && !(parsed.Type.IsRequest() && parsed.At.Before(latest.Truncate(time.Minute)))
			names = append(names, name)
		}
	})
	now.sum(changed, t.now)
	return names, ok, nil
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
	if m.Folders == nil {
		return
	}
	slices.Sort(m.Names)
	m.Names = slices.Compact(m.Names)
	if data, err := json.Marshal(m); err == nil && w.MakeStateFolder(memoryFolder) == nil {
		_ = durable.ReplaceFile(w.Root(), w.Dir(), memoryName(agent), data, 0o644)
	}
}
