package mailbox

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// sorted returns entries in the order in which pending messages are processed: by priority, then
// requests first, then by time, then by id; see schema.Compare. Files that are not messages come
// last.
func sorted(entries []Entry) []Entry {
	// Sorting keys is faster than sorting the entries, which are large.
	type key struct {
		class     int
		createdAt schema.Timestamp
		id        schema.ID
		entry     *Entry
	}
	keys := make([]key, len(entries))
	for i := range entries {
		keys[i] = key{class: math.MaxInt, entry: &entries[i]}
		if m := entries[i].Message; m != nil {
			keys[i] = key{m.Class(), m.CreatedAt, m.ID, &entries[i]}
		}
	}
	slices.SortFunc(keys, func(a, b key) int {
		if c := cmp.Compare(a.class, b.class); c != 0 {
			return c
		}
		if c := strings.Compare(string(a.createdAt), string(b.createdAt)); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(string(a.id), string(b.id)), strings.Compare(a.entry.Name, b.entry.Name))
	})
	result := make([]Entry, len(entries))
	for i, k := range keys {
		result[i] = *k.entry
	}
	return result
}

// SortConversation sorts messages by time, and messages of one second in the order in which their
// files were written. A message that is older than the one it answers, because clocks differ,
// counts as written right after that one.
func SortConversation(entries []Entry) {
	byID := make(map[schema.ID]*Entry, len(entries))
	earliestFirst := make([]*Entry, len(entries))
	for i := range entries {
		byID[entries[i].Message.ID] = &entries[i]
		earliestFirst[i] = &entries[i]
	}
	// If messages answer each other in a cycle, the earliest one is taken for an answer.
	slices.SortFunc(earliestFirst, func(a, b *Entry) int {
		return cmp.Or(positionOf(a).compareTime(positionOf(b)), strings.Compare(string(a.Message.ID), string(b.Message.ID)))
	})
	positions := make(map[schema.ID]position, len(entries))
	for _, e := range earliestFirst {
		locate(e, byID, positions)
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(
			positions[a.Message.ID].compare(positions[b.Message.ID]),
			strings.Compare(string(a.Message.ID), string(b.Message.ID)),
		)
	})
}

// position is a message's place in a conversation.
type position struct {
	createdAt schema.Timestamp
	modified  time.Time
	// answers counts the messages that this one follows at the same time and that it answers.
	answers int
}

func (p position) compare(other position) int {
	return cmp.Or(p.compareTime(other), cmp.Compare(p.answers, other.answers))
}

func (p position) compareTime(other position) int {
	return cmp.Or(
		strings.Compare(string(p.createdAt), string(other.createdAt)),
		p.modified.Compare(other.modified),
	)
}

func positionOf(e *Entry) position {
	return position{createdAt: e.Message.CreatedAt, modified: e.Modified}
}

// locate finds the positions of a message and of those it answers. It is not recursive, because
// messages can answer each other in chains of any length and in cycles.
func locate(e *Entry, byID map[schema.ID]*Entry, positions map[schema.ID]position) {
	var chain []*Entry
	inChain := make(map[schema.ID]bool)
	for ; e != nil && !inChain[e.Message.ID]; e = byID[e.Message.ParentID] {
		if _, known := positions[e.Message.ID]; known {
			break
		}
		inChain[e.Message.ID] = true
		chain = append(chain, e)
	}
	for _, e := range slices.Backward(chain) {
		own := positionOf(e)
		if parent, ok := positions[e.Message.ParentID]; ok && own.compareTime(parent) <= 0 {
			own = parent
			own.answers++
		}
		positions[e.Message.ID] = own
	}
}
