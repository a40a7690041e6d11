package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// Thread returns the conversation of the message: every message with its conversation id, and every
// message that is the parent or an answer of one of these, in the order of SortConversation. Of
// each message, it returns one file. With an *UnreadableError, it also returns what it could read.
func (w *Workspace) Thread(ctx context.Context, id string) ([]Entry, error) {
	start, err := w.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	all, err := w.collect(ctx, schema.IsMessageFile, func(*schema.Message) bool { return true })
	var unreadable *UnreadableError
	if err != nil && !errors.As(err, &unreadable) {
		return nil, err
	}
	thread := connected(start[0].Message, all)
	SortConversation(thread)
	return thread, err
}

// connected returns one entry of each message that is connected to the start.
func connected(start *schema.Message, all []Entry) []Entry {
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
	var thread []Entry
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

// originChannels are channels that say where a message comes from, not what its conversation is
// about: from a bridge log, which appends -all for a broadcast, or from a runner's notices.
var originChannels = []string{
	"bridge-task", "bridge-result", "bridge-review", "bridge-chat", "bridge-done", "bridge-pass", "bridge-fail", "bridge-other",
	"bounce", "bound",
}

// Reply returns the draft of an answer to a message: to its sender, in its conversation, of the
// type that answers its type, without a body. It keeps the message's channel, unless the channel
// only says where the message comes from.
func Reply(original *schema.Message, from schema.AgentName) schema.Message {
	channel := original.Channel
	if slices.Contains(originChannels, strings.TrimSuffix(channel, "-all")) {
		channel = ""
	}
	return schema.Message{
		From: from, To: []schema.AgentName{original.From},
		Type: original.Type.Answer(), Priority: original.Priority,
		Subject: replySubject(original.Subject), Channel: channel,
		RelatedPacket: original.RelatedPacket, RelatedPR: original.RelatedPR,
		ParentID: original.ID, ConversationID: ConversationOf(original),
	}
}

func replySubject(subject string) string {
	const mark = "Re: "
	if strings.HasPrefix(subject, mark) {
		return subject
	}
	if runes := []rune(mark + subject); len(runes) > schema.MaxSubject {
		return strings.TrimSpace(string(runes[:schema.MaxSubject-1])) + "…"
	}
	return mark + subject
}

// ConversationOf returns the conversation that an answer to the message belongs to: the message's
// own, or the one that it starts.
func ConversationOf(m *schema.Message) schema.ConversationID {
	return cmp.Or(m.ConversationID, conversationStartedBy(m.ID))
}

// conversationStartedBy returns the id of the conversation that a message without one starts. It
// depends only on the message's id, so that all answers get the same one.
func conversationStartedBy(id schema.ID) schema.ConversationID {
	parts, err := schema.ParseID(id)
	if err != nil {
		return ""
	}
	const sequences = 999_999
	hash := fnv.New64a()
	hash.Write([]byte(id))
	return schema.ConversationID(fmt.Sprintf("conv-%s-%s-%06d",
		parts.At.Format("20060102"), parts.Sender, hash.Sum64()%sequences+1))
}

// AnswerTo makes the draft an answer to the message that Find finds. If there is no such message
// any more, but the id is complete, the draft names it as its parent, and found is false.
func (w *Workspace) AnswerTo(ctx context.Context, draft *schema.Message, id string) (found bool, err error) {
	parent := schema.ID(id)
	conversation := conversationStartedBy(parent)
	entries, err := w.Find(ctx, id)
	var missing *NotFoundError
	switch {
	case err == nil:
		parent, conversation = entries[0].Message.ID, ConversationOf(entries[0].Message)
	case conversation == "" || !errors.As(err, &missing):
		return false, err
	}
	draft.ParentID = parent
	draft.ConversationID = cmp.Or(draft.ConversationID, conversation)
	return err == nil, nil
}

// Depths returns, for each message of a conversation, how many messages lead to it from the first
// one that has no parent here.
func Depths(thread []Entry) map[schema.ID]int {
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
