package mailbox

import (
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
	if m.ConversationID != "" {
		return m.ConversationID
	}
	return conversationStartedBy(m.ID)
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
	entries, err := w.Find(ctx, id)
	var missing *NotFoundError
	switch {
	case err == nil:
		original := entries[0].Message
		draft.ParentID = original.ID
		if draft.ConversationID == "" {
			draft.ConversationID = ConversationOf(original)
		}
		return true, nil
	case errors.As(err, &missing):
		if _, parseErr := schema.ParseID(schema.ID(id)); parseErr != nil {
			return false, err
		}
		draft.ParentID = schema.ID(id)
		if draft.ConversationID == "" {
			draft.ConversationID = conversationStartedBy(draft.ParentID)
		}
		return false, nil
	}
	return false, err
}

// Depths returns, for each message of a conversation, how many messages lead to it from the first one that has
// no parent here.
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
