package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// originChannels are channels that say where a message comes from, not what its conversation is
// about: from a bridge log, which appends -all for a broadcast, or from a runner's notices.
var originChannels = []string{
	"bridge-task", "bridge-result", "bridge-review", "bridge-chat", "bridge-done", "bridge-pass", "bridge-fail", "bridge-other",
	schema.ChannelBounce, schema.ChannelBound,
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
		ParentID: original.ID, ConversationID: Of(original),
	}
}

func replySubject(subject string) string {
	const mark = "Re: "
	subject = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ").Replace(subject)
	if strings.HasPrefix(subject, mark) {
		return subject
	}
	if runes := []rune(mark + subject); len(runes) > schema.MaxSubject {
		return strings.TrimSpace(string(runes[:schema.MaxSubject-1])) + "…"
	}
	return mark + subject
}

// Of returns the conversation that an answer to the message belongs to: the message's
// own, or the one that it starts.
func Of(m *schema.Message) schema.ConversationID {
	return cmp.Or(m.ConversationID, startedBy(m.ID))
}

// startedBy returns the id of the conversation that a message without one starts. It
// depends only on the message's id, so that all answers get the same one.
func startedBy(id schema.ID) schema.ConversationID {
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
func AnswerTo(ctx context.Context, w *mailbox.Workspace, draft *schema.Message, id string) (found bool, err error) {
	parent := schema.ID(id)
	conversation := startedBy(parent)
	entries, err := w.Find(ctx, id)
	var missing *mailbox.NotFoundError
	switch {
	case err == nil:
		parent, conversation = entries[0].Message.ID, Of(entries[0].Message)
	case conversation == "" || !errors.As(err, &missing):
		return false, err
	}
	draft.ParentID = parent
	draft.ConversationID = cmp.Or(draft.ConversationID, conversation)
	return err == nil, nil
}
