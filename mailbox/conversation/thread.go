// Package conversation groups messages into conversations, sorts them, and finds the answers to
// requests.
package conversation

import (
	"cmp"
	"context"
	"slices"
	"strings"
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
	// Branch is what is drawn before it in a list of the tree: "├─ " or "└─ " after the branches that
	// go past it. Below is what is drawn before further lines of it.
	Branch, Below string
}

// Thread returns the conversation of the message: every message with its conversation id, and every
// message that is the parent or an answer of one of these. They are in the order of the tree: each
// message is followed by its answers, each with its own, and those of one parent are in the order of
// Sort. With a *mailbox.UnreadableError, Thread also returns what it could read.
//
// Thread opens only files that can be as young as the oldest message that anything in the conversation names.
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
		// There may be many messages, of which few are in the conversation: only their bodies are kept.
		mayBelong := Following(since)
		all, err := listing.Search(ctx, func(_ schema.AgentName, _ mailbox.Box, name string) bool { return mayBelong(name) },
			func(m *schema.Message) bool {
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
		readBodies(w, thread)
		Sort(thread, func(m Node) *schema.Message { return m.Message })
		return tree(thread), err
	}
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

// readBodies reads the files of the messages again, with their bodies. A file that is gone meanwhile
// stays as it is, and another one of the message is shown.
func readBodies(w *mailbox.Workspace, thread []Node) {
	for i := range thread {
		n := &thread[i]
		for k := range n.Files {
			e := &n.Files[k]
			if e.IsHeld() {
				continue
			}
			data, err := w.ReadRaw(*e)
			if err != nil {
				continue
			}
			if m, err := w.Decode(*e, data); m != nil && m.ID == e.Message.ID {
				e.Message, e.Err = m, err
			}
		}
		n.Entry = n.Files[max(0, slices.IndexFunc(n.Files, func(e mailbox.Entry) bool { return e.Message.Body.Kind != schema.Absent }))]
	}
}

// connected returns the messages that are connected to the start.
func connected(start *schema.Message, all []mailbox.Entry) []Node {
	links := func(m *schema.Message) []string {
		keys := []string{"id " + string(m.ID)}
		if m.ParentID != "" {
			keys = append(keys, "id "+string(m.ParentID))
		}
		if m.ConversationID != "" {
			keys = append(keys, "conversation "+string(m.ConversationID))
		}
		return keys
	}
	byLink := make(map[string][]int)
	for i, e := range all {
		for _, key := range links(e.Message) {
			byLink[key] = append(byLink[key], i)
		}
	}
	var thread []Node
	positions := make(map[schema.ID]int)
	taken := make([]bool, len(all))
	followed := make(map[string]bool)
	for queue := links(start); len(queue) > 0; queue = queue[1:] {
		if followed[queue[0]] {
			continue
		}
		followed[queue[0]] = true
		for _, i := range byLink[queue[0]] {
			if taken[i] {
				continue
			}
			taken[i] = true
			m := all[i].Message
			position, known := positions[m.ID]
			if !known {
				position = len(thread)
				positions[m.ID] = position
				thread = append(thread, Node{Entry: all[i]})
				queue = append(queue, links(m)...)
			}
			thread[position].Files = append(thread[position].Files, all[i])
		}
	}
	return thread
}

// The pieces of a drawn tree, for one level each.
const (
	branchHere, lastBranchHere = "├─ ", "└─ "
	branchPast, nothingPast    = "│  ", "   "
	branchesCut                = "…  "
	// mostBranches is how many levels are drawn: those next to the message.
	mostBranches = 12
)

// tree puts messages, which are in the order of Sort, into the order of their tree. It is not
// recursive, because messages can answer each other in chains of any length.
func tree(sorted []Node) []Node {
	positions := make(map[schema.ID]int, len(sorted))
	answers := make([][]int, len(sorted))
	var open []int // what is to be placed, the next one last
	for i := range sorted {
		// A parent comes first. If messages answer each other in a cycle, the first one has none.
		if parent, ok := positions[sorted[i].Message.ParentID]; ok {
			answers[parent] = append(answers[parent], i)
		} else {
			open = append(open, i)
		}
		positions[sorted[i].Message.ID] = i
	}
	slices.Reverse(open)
	placed := make([]Node, 0, len(sorted))
	for len(open) > 0 {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		m := &sorted[i]
		placed = append(placed, *m)
		past := nextLevel(m.Below, m.Depth)
		for n, answer := range slices.Backward(answers[i]) {
			here, further := branchHere, branchPast
			if n == len(answers[i])-1 {
				here, further = lastBranchHere, nothingPast
			}
			a := &sorted[answer]
			a.Depth, a.Branch, a.Below = m.Depth+1, past+here, past+further
			open = append(open, answer)
		}
	}
	return placed
}

// nextLevel returns what is drawn before the branches of a message's answers.
func nextLevel(below string, depth int) string {
	if depth < mostBranches {
		return below
	}
	const level = 3 // characters
	drawn := []rune(strings.TrimPrefix(below, branchesCut))
	return branchesCut + string(drawn[len(drawn)-(mostBranches-1)*level:])
}

// Sort sorts messages by their age; see schema.CompareAge. A message that is older than the one it answers,
// because clocks differ, counts as sent right after that one.
func Sort[T any](items []T, message func(T) *schema.Message) {
	// If messages answer each other in a cycle, the earliest one is taken for an answer.
	slices.SortFunc(items, func(a, b T) int { return schema.CompareAge(message(a), message(b)) })
	byID := make(map[schema.ID]*schema.Message, len(items))
	for _, item := range items {
		byID[message(item).ID] = message(item)
	}
	positions := make(map[schema.ID]position, len(items))
	for _, item := range items {
		locate(message(item), byID, positions)
	}
	slices.SortStableFunc(items, func(a, b T) int {
		p, q := positions[message(a).ID], positions[message(b).ID]
		return cmp.Or(schema.CompareAge(p.after, q.after), cmp.Compare(p.answers, q.answers))
	})
}

// position is a message's place in a conversation: that of another message or its own, and how many
// messages lead from there to it, each an answer to the one before.
type position struct {
	after   *schema.Message
	answers int
}

// locate finds the positions of a message and of those it answers. It is not recursive, because
// messages can answer each other in chains of any length and in cycles.
func locate(m *schema.Message, byID map[schema.ID]*schema.Message, positions map[schema.ID]position) {
	var chain []*schema.Message
	inChain := make(map[schema.ID]bool)
	for ; m != nil && !inChain[m.ID]; m = byID[m.ParentID] {
		if _, known := positions[m.ID]; known {
			break
		}
		inChain[m.ID] = true
		chain = append(chain, m)
	}
	for _, m := range slices.Backward(chain) {
		own := position{after: m}
		if parent, ok := positions[m.ParentID]; ok && schema.CompareAge(m, parent.after) <= 0 {
			own = position{parent.after, parent.answers + 1}
		}
		positions[m.ID] = own
	}
}

// NewFor returns what a conversation has that is new for an agent, in the order of Sort: the messages
// after its own last one, from the pending one on if that is earlier. The pending message is the file
// that is given.
func NewFor(thread []Node, agent schema.AgentName, pending mailbox.Entry) []mailbox.Entry {
	sorted := slices.Clone(thread)
	Sort(sorted, func(n Node) *schema.Message { return n.Message })
	at := slices.IndexFunc(sorted, func(n Node) bool { return n.Message.ID == pending.Message.ID })
	if at < 0 {
		return []mailbox.Entry{pending}
	}
	from := 0
	for i, n := range sorted {
		if n.Message.From == agent {
			from = i + 1
		}
	}
	var part []mailbox.Entry
	for i := min(from, at); i < len(sorted); i++ {
		if i == at {
			part = append(part, pending)
		} else {
			part = append(part, sorted[i].Entry)
		}
	}
	return part
}
