package main

import (
	"context"
	"errors"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// thread sets the parent and the conversation of the message.
func (o *sendOptions) thread(ctx context.Context, w *mailbox.Workspace, draft *schema.Message, s *command.Streams) (err error) {
	parent, found := schema.ID(""), true
	if o.conversationID != "" {
		if draft.ConversationID, err = conversation.Named(ctx, w, o.conversationID); err != nil {
			return explainID("--conversation-id", err)
		}
	}
	switch {
	case o.inReplyTo != "":
		parent = schema.ID(o.inReplyTo)
		if found, err = conversation.AnswerTo(ctx, w, draft, o.inReplyTo); err != nil {
			return explainID("--in-reply-to", err)
		}
	case o.parentID != "":
		parent = schema.ID(o.parentID)
		if draft.ParentID, _, found, err = conversation.After(ctx, w, o.parentID); err != nil {
			return explainID("--parent-message-id", err)
		}
	}
	if !found {
		o.warnings = append(o.warnings, "there is no message "+string(parent)+" any more; the new one names it as its parent anyway")
		s.Warn(o.warnings[len(o.warnings)-1])
	}
	return nil
}

// explainID adds what a flag takes to the error of a text that names no message.
func explainID(flag string, err error) error {
	if _, missing := errors.AsType[*mailbox.NotFoundError](err); !missing {
		return err
	}
	hint := flag + " takes the id of a message, short or whole; oacp inbox and oacp list show them"
	if flag == "--conversation-id" {
		hint = flag + " takes conv-DATE-AGENT-NUMBER, or the id of a message in it; without it, send begins one"
	}
	return failure.WithHint(err, hint)
}
