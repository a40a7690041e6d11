package track

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
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
	// Mine are the requests that wait for the agent's answer, and Theirs its own requests that wait for
	// others' answers, the oldest first.
	Mine   []OpenRequest `json:"mine"`
	Theirs []OpenRequest `json:"theirs"`
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
	listing, stamp, err := t.listOpen(agent)
	if err != nil {
		return owed, err
	}
	nodes, err := t.list(ctx, Query{Agent: agent, open: true}, listing)
	if err != nil {
		return owed, err
	}
	open := memory{Stamp: stamp}
	for _, n := range nodes {
		m := n.Message
		for _, p := range n.Recipients {
			if n.Err != nil || p.Answer != "" || p.Agent == mailbox.Postmaster || !m.IsFor(p.Agent) || m.From != agent && p.Agent != agent {
				continue
			}
			open.add(n.Files)
			open.add(t.replies[m.ID])
			request := OpenRequest{
				ID: m.ID, From: m.From, To: p.Agent, Type: m.Type, Priority: m.Priority, Subject: m.Subject, CreatedAt: m.CreatedAt,
				ExpiresAt: m.ExpiresAt, ConversationID: m.ConversationID, Stage: p.Stage, Reason: p.Reason, Replies: p.Replies,
			}
			if p.Agent == agent {
				owed.Mine = append(owed.Mine, request)
			} else {
				owed.Theirs = append(owed.Theirs, request)
			}
		}
	}
	if t.unreadable == nil {
		open.keep(w, agent)
	}
	return owed, t.result()
}

// memory is what the last search for an agent's open requests found.
type memory struct {
	// Stamp tells whether files were added or removed since then, or the agent's trust changed.
	Stamp string `json:"stamp"`
	// Names are the names of the files that held open requests and replies to them.
	Names []string `json:"names"`
}

const (
	memoryFolder = "state/owed"
	maxMemory    = 1 << 20
	// settled is the age of a change after which another one gives a folder another time.
	settled = time.Second
)

func memoryName(agent schema.AgentName) string { return memoryFolder + "/" + string(agent) + ".json" }

// listOpen lists all files or, if nothing was added or removed since the last search, those that it found open. The
// stamp is empty if there is nothing new to remember.
func (t *tracker) listOpen(agent schema.AgentName) (listing *mailbox.Listing, stamp string, err error) {
	agents, err := t.w.Agents()
	if err != nil {
		return nil, "", err
	}
	stamp = fmt.Sprint(trust.StampOf(t.w, agent))
	isSettled := true
	for _, owner := range agents {
		for _, box := range schema.Boxes() {
			if info, err := os.Stat(t.w.BoxPath(owner, box)); err == nil {
				stamp += fmt.Sprint(" ", owner, " ", box, " ", info.ModTime().UnixNano())
				isSettled = isSettled && t.now.Sub(info.ModTime()) >= settled
			}
		}
	}
	var last memory
	data, err := durable.ReadFile(t.w.Root(), t.w.Dir(), memoryName(agent), maxMemory)
	isSame := err == nil && json.Unmarshal(data, &last) == nil && last.Stamp == stamp
	listing, err = t.w.Names(func(schema.AgentName, mailbox.Box) bool { return !isSame })
	if isSame && err == nil {
		listing.Assume(last.Names, schema.Boxes()...)
	}
	if isSame || !isSettled {
		stamp = ""
	}
	return listing, stamp, err
}

func (m *memory) add(files []mailbox.Entry) {
	for _, e := range files {
		m.Names = append(m.Names, e.Name)
	}
}

// keep writes down what was found. Without it, the next search takes longer.
func (m *memory) keep(w *mailbox.Workspace, agent schema.AgentName) {
	if m.Stamp == "" {
		return
	}
	slices.Sort(m.Names)
	m.Names = slices.Compact(m.Names)
	if data, err := json.Marshal(m); err == nil && w.MakeStateFolder(memoryFolder) == nil {
		_ = durable.ReplaceFile(w.Root(), w.Dir(), memoryName(agent), data, 0o644)
	}
}
