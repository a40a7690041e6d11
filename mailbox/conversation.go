package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

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
	all, err := w.collect(ctx, schema.IsMessageFile, func(m *schema.Message) bool { return m.ID != "" })
	var unreadable *UnreadableError
	if err != nil && !errors.As(err, &unreadable) {
		return nil, err
	}
	thread := connected(start[0].Message, all)
	SortConversation(thread, func(e Entry) *schema.Message { return e.Message })
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

// SortConversation sorts what has messages by their age; see schema.CompareAge. A message that is
// older than the one it answers, because clocks differ, counts as sent right after that one.
func SortConversation[T any](items []T, message func(T) *schema.Message) {
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
