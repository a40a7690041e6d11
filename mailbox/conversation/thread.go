// Package conversation groups messages into conversations, sorts them, and finds the answers to
// requests.
package conversation

import (
	"context"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Node is a message of a conversation, in its tree of answers.
type Node struct {
	// Entry is one of its files, a valid one if there is any. Files are all of them.
	mailbox.Entry
	Files []mailbox.Entry
	// Depth is how many messages lead to it from the first one that has no parent here.
	Depth int
	// Branch precedes it in a drawing of the tree: "├─ " or "└─ " after the branches that go past it.
	// Below precedes its further lines.
	Branch, Below string
}

// Thread returns the conversation of the message: every message with its conversation id, and every
// message that is the parent or an answer of one of these. They are in the order of the tree: each
// message is followed by its answers, each with its own, and those of one parent are in the order of
// Sort. With a *mailbox.UnreadableError, Thread also returns what it could read.
//
// Thread opens only files that can be as young as the earliest time that a message of the conversation names.
func Thread(ctx context.Context, w *mailbox.Workspace, id string) ([]Node, error) {
	found, err := w.Find(ctx, id)
	if _, err = mailbox.SplitUnreadable(err); err != nil {
		return nil, err
	}
	start := found[0].Message
	since := beginning(start)
	listing, err := w.Names(nil)
	if err != nil {
		return nil, err
	}
	for {
		// Most messages are not in the conversation, so their bodies are dropped; see readBodies.
		all, err := listing.Search(ctx, Following(since), func(m *schema.Message) bool {
			m.Body = schema.Value{}
			return m.ID != ""
		})
		if _, err := mailbox.SplitUnreadable(err); err != nil {
			return nil, err
		}
		thread := connected(start, all)
		begins := since
		for _, n := range thread {
			if at := beginning(n.Message); at.Before(begins) {
				begins = at
			}
		}
		if begins.Before(since) {
			since = begins
			continue
		}
		return inTree(w, thread), err
	}
}

// ThreadNamed is Thread among the files that have one of these names. It lists no box.
func ThreadNamed(ctx context.Context, w *mailbox.Workspace, id schema.ID, names []string) ([]Node, error) {
	all, err := mailbox.SearchNamed(ctx, w, names, func(m *schema.Message) bool {
		m.Body = schema.Value{}
		return m.ID != ""
	})
	if _, err := mailbox.SplitUnreadable(err); err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(e mailbox.Entry) bool { return e.Message.ID == id })
	if at < 0 {
		return nil, &mailbox.NotFoundError{ID: string(id), Workspace: w.Dir()}
	}
	return inTree(w, connected(all[at].Message, all)), err
}

// inTree completes the nodes of a conversation and puts them into the order of their tree.
func inTree(w *mailbox.Workspace, thread []Node) []Node {
	readBodies(w, thread)
	Sort(thread, func(m Node) *schema.Message { return m.Message })
	return tree(thread)
}

// beginning returns the earliest time that a message names: its own, its parent's or its conversation's. It is zero
// if one of them does not tell.
func beginning(m *schema.Message) time.Time {
	at := m.CreatedAt.Time()
	if m.ParentID != "" {
		parent, _ := schema.ParseID(m.ParentID)
		if parent.At.Before(at) {
			at = parent.At
		}
	}
	if m.ConversationID != "" {
		in, _ := schema.ParseConversationID(m.ConversationID)
		if in.Date.Before(at) {
			at = in.Date
		}
	}
	return at
}

// readBodies reads the files of the messages again, with their bodies. If a file is gone meanwhile, the
// node shows another file of the message.
func readBodies(w *mailbox.Workspace, thread []Node) {
	for i := range thread {
		n := &thread[i]
		for k := range n.Files {
			e := &n.Files[k]
			if e.IsHeld() {
				continue
			}
			if m, _, err := w.Read(*e); m != nil && m.ID == e.Message.ID {
				e.Message, e.Err = m, err
			}
		}
		n.Entry = n.Files[max(0, slices.IndexFunc(n.Files, func(e mailbox.Entry) bool { return e.Message.Body.Kind != schema.Absent }))]
	}
}

func connected(start *schema.Message, all []mailbox.Entry) (thread []Node) {
	slices.SortStableFunc(all, func(a, b mailbox.Entry) int { return schema.CompareAge(a.Message, b.Message) })
	ids, conversations := make(map[schema.ID]bool), make(map[schema.ConversationID]bool)
	follow := func(m *schema.Message) {
		ids[m.ID], conversations[m.ConversationID] = true, true
		if m.ParentID != "" {
			ids[m.ParentID] = true
		}
		delete(conversations, "")
	}
	follow(start)
	positions := make(map[schema.ID]int)
	// A message that only a younger one connects comes in a later round.
	for grows := true; grows; {
		grows = false
		rest := all[:0]
		for _, e := range all {
			m := e.Message
			if !ids[m.ID] && !ids[m.ParentID] && !conversations[m.ConversationID] {
				rest = append(rest, e)
				continue
			}
			grows = true
			follow(m)
			at, known := positions[m.ID]
			if !known {
				at = len(thread)
				positions[m.ID] = at
				thread = append(thread, Node{Entry: e})
			}
			thread[at].Files = append(thread[at].Files, e)
		}
		all = rest
	}
	return thread
}

// The pieces of a drawn tree, for one level each.
const (
	branchHere, lastBranchHere = "├─ ", "└─ "
	branchPast, nothingPast    = "│  ", "   "
	// mostBranches is the number of levels that are drawn. Deeper answers are drawn at the last level.
	mostBranches = 12
)

// tree puts messages, which are in the order of Sort, into the order of their tree. It is not
// recursive, because messages can answer each other in chains of any length, and in cycles.
func tree(sorted []Node) []Node {
	positions := make(map[schema.ID]int, len(sorted))
	for i := range sorted {
		positions[sorted[i].Message.ID] = i
	}
	answers := make([][]int, len(sorted))
	var first, others []int
	for i := range sorted {
		if parent, ok := positions[sorted[i].Message.ParentID]; ok {
			answers[parent] = append(answers[parent], i)
			others = append(others, i)
		} else {
			first = append(first, i)
		}
	}
	placed := make([]Node, 0, len(sorted))
	done := make([]bool, len(sorted))
	for _, root := range append(first, others...) {
		for passed := make(map[int]bool); !done[root] && !passed[root]; { // up to the top, or once around a cycle
			passed[root] = true
			if parent, ok := positions[sorted[root].Message.ParentID]; ok {
				root = parent
			}
		}
		for open := []int{root}; len(open) > 0; { // what is to be placed, the next one last
			i := open[len(open)-1]
			open = open[:len(open)-1]
			if done[i] {
				continue
			}
			done[i] = true
			m := &sorted[i]
			placed = append(placed, *m)
			for n, answer := range slices.Backward(answers[i]) {
				if !done[answer] {
					sorted[answer].hang(m, n == len(answers[i])-1)
					open = append(open, answer)
				}
			}
		}
	}
	return placed
}

// hang places a message below its parent.
func (n *Node) hang(parent *Node, last bool) {
	n.Depth = parent.Depth + 1
	switch {
	case n.Depth > mostBranches:
		n.Branch, n.Below = parent.Branch, parent.Below
	case last:
		n.Branch, n.Below = parent.Below+lastBranchHere, parent.Below+nothingPast
	default:
		n.Branch, n.Below = parent.Below+branchHere, parent.Below+branchPast
	}
}

// Sort sorts messages by their age; see schema.CompareAge.
func Sort[T any](items []T, message func(T) *schema.Message) {
	slices.SortFunc(items, func(a, b T) int { return schema.CompareAge(message(a), message(b)) })
}

// NewFor returns the messages of a conversation that are new for an agent, in the order of Sort: those
// after its own last one, or those from the pending one on if that is earlier. The entry of the pending
// message is the given one.
func NewFor(thread []Node, agent schema.AgentName, pending mailbox.Entry) (found []mailbox.Entry) {
	sorted := slices.Clone(thread)
	Sort(sorted, func(n Node) *schema.Message { return n.Message })
	from, at := 0, -1
	for i, n := range sorted {
		switch {
		case n.Message.ID == pending.Message.ID:
			sorted[i].Entry, at = pending, i
		case n.Message.From == agent:
			from = i + 1
		}
	}
	if at < 0 {
		return []mailbox.Entry{pending}
	}
	for _, n := range sorted[min(from, at):] {
		found = append(found, n.Entry)
	}
	return found
}
