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

// originChannels say where one message comes from, and nothing of what its
// conversation is about: out of a bridge log, where a broadcast has -all
// behind it, or from a runner, whose notices are never answered automatically.
var originChannels = []string{
	"bridge-task", "bridge-result", "bridge-review", "bridge-chat", "bridge-done", "bridge-pass", "bridge-fail", "bridge-other",
	"bounce", "bound",
}

// Reply returns the draft of an answer to a message: back to its sender, in
// its conversation, of the type that answers its type, without a body. It is
// on the message's channel, unless that one says where the message comes from.
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

// ConversationOf returns the conversation that an answer to the message
// belongs to: the message's own, or the one it starts.
func ConversationOf(m *schema.Message) schema.ConversationID {
	if m.ConversationID != "" {
		return m.ConversationID
	}
	return conversationStartedBy(m.ID)
}

// conversationStartedBy names the conversation that a message without one
// starts. It depends on the message's id alone, so that all who answer the
// message agree on it without asking each other.
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

// AnswerTo makes the draft an answer to the message that has the id, or the
// only one whose id begins so. When there is no such message any more, the
// draft still names a whole id as its parent, and found is false.
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
