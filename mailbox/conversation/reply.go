package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// originChannels are channels that say where a message comes from, not what its conversation is
// about: a bridge log, which appends -all for a broadcast, or a runner.
var originChannels = []string{
	"bridge-task", "bridge-result", "bridge-review", "bridge-chat", "bridge-done", "bridge-pass", "bridge-fail", "bridge-other",
	schema.ChannelBounce, schema.ChannelBound,
}

// Reply returns the draft of an answer of a type to a message: to its sender, in its conversation,
// without a body. It keeps the message's channel, unless the channel only says where the message
// comes from.
func Reply(original *schema.Message, from schema.AgentName, kind schema.Type) schema.Message {
	channel := original.Channel
	if slices.Contains(originChannels, strings.TrimSuffix(channel, "-all")) {
		channel = ""
	}
	return schema.Message{
		From: from, To: []schema.AgentName{original.From},
		Type: kind, Priority: original.Priority,
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
	return visible.Short(mark+subject, schema.MaxSubject)
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
	return schema.NewConversationID(parts.At, parts.Sender, hash.Sum64()%sequences+1)
}

// After returns the id of the message that Find finds, and the conversation of its answers. If the message no
// longer exists but the given id is complete, found is false.
func After(ctx context.Context, w *mailbox.Workspace, id string) (parent schema.ID, in schema.ConversationID, found bool, err error) {
	entries, err := w.Find(ctx, id)
	if _, err = mailbox.SplitUnreadable(err); err == nil {
		return entries[0].Message.ID, Of(entries[0].Message), true, nil
	}
	in = startedBy(schema.ID(id))
	if _, missing := errors.AsType[*mailbox.NotFoundError](err); missing && in != "" {
		return schema.ID(id), in, false, nil
	}
	return "", "", false, err
}

// Named returns the conversation that the text names: by its id, or by a message as After finds it.
func Named(ctx context.Context, w *mailbox.Workspace, text string) (schema.ConversationID, error) {
	if strings.HasPrefix(text, "conv-") {
		return schema.ConversationID(text), nil // sending checks the form
	}
	_, in, _, err := After(ctx, w, text)
	return in, err
}

// AnswerTo makes the draft an answer to the message that After finds.
func AnswerTo(ctx context.Context, w *mailbox.Workspace, draft *schema.Message, id string) (found bool, err error) {
	parent, in, found, err := After(ctx, w, id)
	if err != nil {
		return false, err
	}
	draft.ParentID = parent
	draft.ConversationID = cmp.Or(draft.ConversationID, in)
	return found, nil
}

// Original returns the message that Find found, if the agent can reply to it. It returns an error for a
// message that was not sent to the agent, and the error of a message that is held or not valid.
func Original(found []mailbox.Entry, agent schema.AgentName) (*schema.Message, error) {
	m := found[0].Message
	for _, e := range found {
		if e.Agent == agent && e.IsHeld() {
			return nil, fmt.Errorf("message %s cannot be answered: %w", m.ID, e.Err)
		}
	}
	if err := found[0].Err; err != nil {
		return nil, fmt.Errorf("message %s cannot be answered: it is not valid: %w", m.ID, err)
	}
	if !m.IsFor(agent) {
		return nil, failure.New("not_recipient", fmt.Sprintf("message %s was sent to %s, not to %s", m.ID, spelling.Join(m.To), agent),
			"only a recipient can reply; oacp send --to AGENT --type TYPE --subject TEXT --body TEXT --in-reply-to "+m.ID.Short()+" writes to the conversation")
	}
	return m, nil
}

// Conclude makes a reply final if final is set. With acknowledge, it also does so if the reply would not
// answer the original otherwise, unless the reply is a question. It reports whether the sender may take the
// reply for the answer although it is not.
func Conclude(reply, original *schema.Message, final, acknowledge bool) (misleads bool) {
	misses := func() bool { return original.Type.IsRequest() && !reply.Answers(original) }
	if final || acknowledge && misses() && reply.Type != schema.Question {
		reply.Marks.Final = true
	}
	return misses() && !reply.Type.Asks()
}
