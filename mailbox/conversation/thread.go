// Package conversation reads conversations: which messages belong together, in which order, and what
// answers what.
package conversation

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Thread returns the conversation of the message: every message with its conversation id, and every
// message that is the parent or an answer of one of these, in the order of Sort. Of
// each message, it returns one file. With a *mailbox.UnreadableError, it also returns what it could read.
func Thread(ctx context.Context, w *mailbox.Workspace, id string) ([]mailbox.Entry, error) {
	start, err := w.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	all, err := w.Search(ctx, nil, func(m *schema.Message) bool { return m.ID != "" })
	var unreadable *mailbox.UnreadableError
	if err != nil && !errors.As(err, &unreadable) {
		return nil, err
	}
	thread := connected(start[0].Message, all)
	Sort(thread, func(e mailbox.Entry) *schema.Message { return e.Message })
	return thread, err
}

// connected returns one entry of each message that is connected to the start.
func connected(start *schema.Message, all []mailbox.Entry) []mailbox.Entry {
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
	var thread []mailbox.Entry
	taken := make(map[schema.ID]bool)
	followed := make(map[string]bool)
	for queue := links(start); len(queue) > 0; queue = queue[1:] {
		if followed[queue[0]] {
			continue
		}
		followed[queue[0]] = true
		for _, i := range byLink[queue[0]] {
			if m := all[i].Message; !taken[m.ID] {
				taken[m.ID] = true
				thread = append(thread, all[i])
				queue = append(queue, links(m)...)
			}
		}
	}
	return thread
}

// Depths returns, for each message of a conversation, how many messages lead to it from the first
// one that has no parent here.
func Depths(thread []mailbox.Entry) map[schema.ID]int {
	depths := make(map[schema.ID]int, len(thread))
	for _, e := range thread {
		depth := 0
		if parent, ok := depths[e.Message.ParentID]; ok {
			depth = parent + 1
		}
		depths[e.Message.ID] = depth
	}
	return depths
}

// Sort sorts what has messages by their age; see schema.CompareAge. A message that is
// older than the one it answers, because clocks differ, counts as sent right after that one.
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

// NewFor returns what a conversation has that is new for an agent: the messages after its own last
// one, from the pending one on if that is earlier. The pending message is the file that is given.
func NewFor(thread []mailbox.Entry, agent schema.AgentName, pending mailbox.Entry) []mailbox.Entry {
	at := slices.IndexFunc(thread, func(e mailbox.Entry) bool { return e.Message.ID == pending.Message.ID })
	if at < 0 {
		return []mailbox.Entry{pending}
	}
	from := 0
	for i, e := range thread {
		if e.Message.From == agent {
			from = i + 1
		}
	}
	part := slices.Clone(thread[min(from, at):])
	part[at-min(from, at)] = pending
	return part
}
