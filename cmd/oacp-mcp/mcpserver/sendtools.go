package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

type sendMessageInput struct {
	To             string          `json:"to" jsonschema:"Up to 10 agents, with commas between them; all is every other one."`
	Type           schema.Type     `json:"type" jsonschema:"handoff, handoff_complete and follow_up need fields in the body; an error names them."`
	Subject        string          `json:"subject" jsonschema:"At most 200 characters."`
	Body           schema.Value    `json:"body" jsonschema:"Text of at most 20,000 characters, or an object."`
	Priority       schema.Priority `json:"priority,omitempty" jsonschema:"P0 (urgent) to P3; default P2."`
	ExpiresAt      string          `json:"expires_at,omitempty" jsonschema:"YYYY-MM-DDTHH:MM:SSZ."`
	InReplyTo      string          `json:"in_reply_to,omitempty" jsonschema:"The id of a message to follow up."`
	ConversationID string          `json:"conversation_id,omitempty" jsonschema:"A conversation, or the id of a message in it."`
	RelatedPR      string          `json:"related_pr,omitempty" jsonschema:"A pull request's number."`
	ContextKeys    string          `json:"context_keys,omitempty" jsonschema:"At most 500 words."`
	Choices        []string        `json:"choices,omitempty" jsonschema:"2 to 9 answers to choose from."`
	AllowSecret    bool            `json:"allow_secret,omitempty" jsonschema:"Send even a key."`
}

type replyMessageInput struct {
	messageIDInput
	Body        schema.Value `json:"body,omitempty" jsonschema:"Optional with choose."`
	Choose      string       `json:"choose,omitempty" jsonschema:"One of its choices, or approve, changes, accept, done, ask."`
	Decline     string       `json:"decline,omitempty" jsonschema:"Why not, instead of body."`
	Type        schema.Type  `json:"type,omitempty" jsonschema:"Default: the one that answers."`
	Subject     string       `json:"subject,omitempty" jsonschema:"Default: Re: its subject."`
	Final       bool         `json:"final,omitempty" jsonschema:"The whole answer, of any type."`
	Acknowledge bool         `json:"acknowledge,omitempty" jsonschema:"Final, and the message leaves your inbox."`
	Again       bool         `json:"again,omitempty" jsonschema:"Send even a second answer."`
	AllowSecret bool         `json:"allow_secret,omitempty" jsonschema:"Send even a key."`
}

type sentMessage struct {
	MessageID      schema.ID             `json:"message_id"`
	To             []schema.AgentName    `json:"to"`
	Type           schema.Type           `json:"type"`
	Priority       schema.Priority       `json:"priority"`
	Subject        string                `json:"subject"`
	ConversationID schema.ConversationID `json:"conversation_id,omitempty"`
	ParentID       schema.ID             `json:"parent_message_id,omitempty"`
	Warnings       []string              `json:"warnings,omitempty"`
	Acknowledged   schema.ID             `json:"acknowledged,omitempty"`
	// AlreadySent reports that nothing was sent: the message answers with what the agent has answered before.
	AlreadySent bool `json:"already_sent,omitempty"`
	// More are the ids of further messages, to the recipients that one message has no room for.
	More []schema.ID `json:"more_message_ids,omitempty"`
}

func (s *Server) sendMessage(ctx context.Context, in sendMessageInput) (sentMessage, error) {
	draft := client.Draft{
		Message: schema.Message{
			Type: in.Type, Priority: in.Priority, Subject: in.Subject, Body: in.Body, ExpiresAt: schema.Timestamp(in.ExpiresAt),
			RelatedPR: in.RelatedPR, ContextKeys: in.ContextKeys,
		},
		InReplyTo: in.InReplyTo, Conversation: in.ConversationID,
	}
	for _, name := range strings.FieldsFunc(in.To, func(r rune) bool { return r == ',' || r == ' ' }) {
		draft.To = append(draft.To, schema.AgentName(name))
	}
	draft.Marks.AllowSecret = in.AllowSecret
	if in.Choices != nil {
		if err := draft.Offer(in.Choices); err != nil {
			return sentMessage{}, argumentErrorf("choices: %v", err)
		}
	}
	receipt, err := s.client.Send(ctx, draft)
	if bad, ok := errors.AsType[*client.RecipientsError](err); ok {
		err = argumentErrorf("to: %v", bad)
	}
	return newSentMessage(receipt), err
}

func (s *Server) replyMessage(ctx context.Context, in replyMessageInput) (sentMessage, error) {
	request, err := s.client.Request(ctx, in.MessageID)
	if err != nil {
		return sentMessage{}, err
	}
	answer := request.Draft()
	answer.Body, answer.Choose = in.Body, in.Choose
	answer.Type, answer.Subject = cmp.Or(in.Type, answer.Type), cmp.Or(in.Subject, answer.Subject)
	answer.Final, answer.Acknowledge, answer.Again = in.Final, in.Acknowledge, in.Again
	answer.Marks.AllowSecret = in.AllowSecret
	if in.Decline != "" {
		if in.Body.Kind != schema.Absent || in.Choose != "" || in.Type != "" {
			return sentMessage{}, argumentErrorf("decline: sends its reason alone, without body, choose and type")
		}
		answer.Body, answer.Decline = schema.TextValue(in.Decline), true
	}
	receipt, err := request.Answer(ctx, answer)
	if errors.Is(err, client.ErrFinalQuestion) {
		err = argumentErrorf("%v", err)
	}
	result := newSentMessage(receipt)
	if unsynced, ok := errors.AsType[*mailbox.NotDurableError](err); ok && receipt != nil && receipt.Acknowledged != "" {
		result.Warnings, err = append(result.Warnings, unsynced.Error()), nil
	}
	return result, err
}

// newSentMessage returns what a client sees of a receipt, which may be nil.
func newSentMessage(r *client.Receipt) (result sentMessage) {
	if r == nil {
		return result
	}
	m := r.Message()
	result = sentMessage{
		MessageID: m.ID, To: m.To, Type: m.Type, Priority: m.Priority, Subject: m.Subject,
		ConversationID: m.ConversationID, ParentID: m.ParentID, AlreadySent: r.Receipts[0].AlreadySent,
	}
	for _, w := range r.Receipts[0].Warnings {
		result.Warnings = append(result.Warnings, w.String())
	}
	for _, more := range r.Receipts[1:] {
		result.To, result.More = append(result.To, more.Message.To...), append(result.More, more.Message.ID)
	}
	const most = 10
	result.Warnings = cutAll(append(result.Warnings, r.Notes...), most, reasonTokens)
	result.Acknowledged = r.Acknowledged
	return result
}

type reportWorkingInput struct {
	messageIDInput
	Text string `json:"text,omitempty" jsonschema:"A line, at most 200 characters."`
}

func (s *Server) reportWorking(ctx context.Context, in reportWorkingInput) (messageIDInput, error) {
	m, err := s.client.Working(ctx, in.MessageID, in.Text)
	if errors.Is(err, track.ErrWorkingText) {
		err = argumentErrorf("text: %v", err)
	}
	if late, ok := errors.AsType[*client.StatusFileError](err); ok {
		s.warn(late)
	} else if err != nil {
		return messageIDInput{}, err
	}
	return messageIDInput{string(cut(m.ID, idTokens))}, nil
}

type acknowledged struct {
	MessageID schema.ID `json:"message_id"`
	Already   bool      `json:"already,omitempty"`
}

func (s *Server) acknowledgeMessage(ctx context.Context, in messageIDInput) (acknowledged, error) {
	done, err := s.client.Acknowledge(ctx, in.MessageID)
	return acknowledged{MessageID: cut(done.ID, idTokens), Already: done.Already}, err
}
