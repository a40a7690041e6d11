package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
	"github.com/oacp-go/oacp/validate"
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
	ContextKeys    string          `json:"context_keys,omitempty" jsonschema:"Context, at most 500 words."`
	Choices        []string        `json:"choices,omitempty" jsonschema:"2 to 9 answers to choose from."`
	AllowSecret    bool            `json:"allow_secret,omitempty" jsonschema:"Send even a key."`
}

type replyMessageInput struct {
	messageIDInput
	Body        schema.Value `json:"body,omitempty" jsonschema:"Optional with choose."`
	Choose      string       `json:"choose,omitempty" jsonschema:"One of its choices."`
	Type        schema.Type  `json:"type,omitempty" jsonschema:"Default: the one that answers, such as review_feedback."`
	Subject     string       `json:"subject,omitempty" jsonschema:"Default: Re: and its subject."`
	Final       bool         `json:"final,omitempty" jsonschema:"The whole answer, of any type; else a notification does not answer a task or review."`
	Acknowledge bool         `json:"acknowledge,omitempty" jsonschema:"The answer is final, and the message leaves your inbox."`
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
	// More are the ids of further messages, to the recipients that one message has no room for.
	More []schema.ID `json:"more_message_ids,omitempty"`
}

func (s *Server) sendMessage(ctx context.Context, in sendMessageInput) (sentMessage, error) {
	draft := schema.Message{
		From: s.agent, Type: in.Type, Priority: in.Priority, Subject: in.Subject, Body: in.Body,
		ExpiresAt: schema.Timestamp(in.ExpiresAt),
		RelatedPR: in.RelatedPR, ContextKeys: in.ContextKeys,
	}
	for _, name := range strings.FieldsFunc(in.To, func(r rune) bool { return r == ',' || r == ' ' }) {
		draft.To = append(draft.To, schema.AgentName(name))
	}
	if in.AllowSecret {
		draft.AllowSecret()
	}
	if in.Choices != nil {
		if err := draft.Offer(in.Choices); err != nil {
			return sentMessage{}, argumentErrorf("choices: %v", err)
		}
	}
	parts, err := project.Recipients(s.workspace, s.agent, in.Type, draft.To)
	if err != nil {
		return sentMessage{}, argumentErrorf("to: %v", err)
	}
	draft.To = parts[0]
	if in.ConversationID != "" {
		if draft.ConversationID, err = conversation.Named(ctx, s.workspace, in.ConversationID); err != nil {
			return sentMessage{}, err
		}
	}
	found := true
	if in.InReplyTo != "" {
		if found, err = conversation.AnswerTo(ctx, s.workspace, &draft, in.InReplyTo); err != nil {
			return sentMessage{}, err
		}
	}
	result, err := s.deliver(ctx, draft, parts)
	if !found {
		result.Warnings = append(result.Warnings, "the message "+cut(in.InReplyTo, idTokens)+" no longer exists; this one names it anyway")
	}
	return result, err
}

func (s *Server) replyMessage(ctx context.Context, in replyMessageInput) (sentMessage, error) {
	if in.Final && in.Type == schema.Question {
		return sentMessage{}, argumentErrorf("final: a question is never the answer")
	}
	found, err := s.workspace.Find(ctx, in.MessageID)
	if _, err = mailbox.SplitUnreadable(err); err != nil {
		return sentMessage{}, err
	}
	original, err := conversation.Original(found, s.agent)
	if err != nil {
		return sentMessage{}, err
	}
	var held conversation.Copy
	if in.Acknowledge {
		if held, err = conversation.FindCopy(ctx, s.workspace, string(original.ID), s.agent); err != nil {
			return sentMessage{}, err
		}
	}
	draft := conversation.Reply(original, s.agent)
	draft.Body = in.Body
	if in.AllowSecret {
		draft.AllowSecret()
	}
	if in.Choose != "" {
		if err := draft.Choose(original, in.Choose); err != nil {
			return sentMessage{}, err
		}
	}
	draft.Type = cmp.Or(in.Type, draft.Type)
	draft.Subject = cmp.Or(in.Subject, draft.Subject)
	waits := conversation.Conclude(&draft, original, in.Final, in.Acknowledge)
	var result sentMessage
	err = track.SendOnce(ctx, s.workspace, original, &draft, s.caller, in.Again, func() (err error) {
		result, err = s.deliver(ctx, draft, nil)
		return err
	})
	if err != nil {
		return sentMessage{}, err
	}
	if waits {
		result.Warnings = append(result.Warnings, fmt.Sprintf("a %s does not answer a %s", draft.Type, original.Type))
	}
	if in.Acknowledge {
		err := held.Acknowledge(s.workspace)
		if unsynced, moved := errors.AsType[*mailbox.NotDurableError](err); moved {
			result.Warnings = append(result.Warnings, unsynced.Error())
		} else if err != nil {
			return sentMessage{}, &failure.Error{
				Code: "not_acknowledged",
				Err:  fmt.Errorf("the answer %s is sent, but %s was not acknowledged: %w", result.MessageID, original.ID, err),
				Hint: "do not answer again; acknowledge_message takes the message out of the inbox",
			}
		}
		result.Acknowledged = original.ID
	}
	return result, nil
}

// deliver checks a draft and sends it, once for each part of its recipients if there are parts.
func (s *Server) deliver(ctx context.Context, draft schema.Message, parts [][]schema.AgentName) (sentMessage, error) {
	if draft.ParentID != "" {
		if err := project.CheckProgram(s.workspace, s.agent); err != nil {
			return sentMessage{}, err
		}
	}
	if err := command.PrepareDraft(ctx, s.workspace, &draft, validate.Source{}); err != nil {
		return sentMessage{}, err
	}
	receipts, err := s.workspace.SendParts(ctx, draft, parts, nil)
	if err != nil {
		return sentMessage{}, err
	}
	m := receipts[0].Message
	result := sentMessage{
		MessageID: m.ID, To: m.To, Type: m.Type, Priority: m.Priority, Subject: m.Subject,
		ConversationID: m.ConversationID, ParentID: m.ParentID,
	}
	for _, w := range receipts[0].Warnings {
		result.Warnings = append(result.Warnings, w.String())
	}
	for _, r := range receipts {
		result.Warnings = slices.Concat(result.Warnings, project.OfflineNotes(s.workspace, r.Message), trust.HeldNotes(s.workspace, r.Message))
	}
	for _, r := range receipts[1:] {
		result.To, result.More = append(result.To, r.Message.To...), append(result.More, r.Message.ID)
	}
	const most = 10
	result.Warnings = cutAll(result.Warnings, most, reasonTokens)
	return result, nil
}

type reportWorkingInput struct {
	messageIDInput
	Text string `json:"text,omitempty" jsonschema:"A line, at most 200 characters."`
}

func (s *Server) reportWorking(ctx context.Context, in reportWorkingInput) (messageIDInput, error) {
	m, err := track.SayWorking(ctx, s.workspace, s.agent, in.MessageID, in.Text, s.caller)
	if errors.Is(err, track.ErrWorkingText) {
		err = argumentErrorf("text: %v", err)
	}
	if err != nil {
		return messageIDInput{}, err
	}
	if err := project.SetStatus(s.workspace, s.agent, project.Busy, track.Task(m, in.Text), time.Now()); err != nil {
		s.warn(err) // the journal has it
	}
	return messageIDInput{string(cut(m.ID, idTokens))}, nil
}

type acknowledged struct {
	MessageID schema.ID `json:"message_id"`
	Already   bool      `json:"already,omitempty"`
}

func (s *Server) acknowledgeMessage(ctx context.Context, in messageIDInput) (acknowledged, error) {
	held, err := conversation.FindCopy(ctx, s.workspace, in.MessageID, s.agent)
	if err != nil {
		return acknowledged{}, err
	}
	err = held.Acknowledge(s.workspace)
	return acknowledged{MessageID: cut(held.ID, idTokens), Already: held.Gone}, err
}
