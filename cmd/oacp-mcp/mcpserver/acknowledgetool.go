package mcpserver

import (
	"context"
	"errors"
	"fmt"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// addAcknowledgeTool offers the one tool that takes something away.
func (s *Server) addAcknowledgeTool() error {
	return addTool(s, tool[acknowledgeInput, acknowledged]{
		name: "acknowledge_message", title: "Acknowledge a message",
		description: "Remove a message from your inbox, or with archive true move it to your archive. Do this when the work is " +
			"done, not when you read the message. The sender keeps a copy.",
		effect: effect{destructive: true, idempotent: true},
		call: func(ctx context.Context, in acknowledgeInput) (acknowledged, string, error) {
			result, err := s.acknowledge(ctx, in.MessageID, in.Archive)
			return result, acknowledgedText(result), err
		},
	})
}

type acknowledgeInput struct {
	MessageID string `json:"message_id" jsonschema:"Id of the message in your inbox, or a unique part of it."`
	Archive   bool   `json:"archive,omitempty" jsonschema:"Keep the message in your archive instead of removing it."`
}

type acknowledged struct {
	MessageID schema.ID        `json:"message_id" jsonschema:"Id of the message."`
	Agent     schema.AgentName `json:"agent" jsonschema:"The agent of the inbox: you."`
	Already   bool             `json:"already" jsonschema:"It was already gone from the inbox."`
	Archived  string           `json:"archive_path,omitempty" jsonschema:"The file in the archive."`
}

// acknowledge takes a message out of the agent's inbox. One that was for the agent and has left the inbox already is no
// error: the answer to the first call may have been lost.
func (s *Server) acknowledge(ctx context.Context, id string, archive bool) (acknowledged, error) {
	e, err := s.workspace.Pending(ctx, id, s.agent)
	var gone *mailbox.NotPendingError
	if errors.As(err, &gone) && s.acknowledgedBefore(gone) {
		return acknowledged{MessageID: gone.ID, Agent: s.agent, Already: true}, nil
	}
	if err != nil {
		return acknowledged{}, err
	}
	result := acknowledged{MessageID: e.Message.ID, Agent: s.agent}
	if archive {
		result.Archived, err = s.workspace.ArchiveEntry(e)
	} else {
		err = s.workspace.Acknowledge(e)
	}
	if mailbox.IsGone(err) {
		result.Already, err = true, nil
	}
	return result, err
}

// acknowledgedBefore reports whether a message that is not in the inbox was for the agent and is not a dead letter of it.
func (s *Server) acknowledgedBefore(gone *mailbox.NotPendingError) bool {
	done := false
	for _, e := range gone.Elsewhere {
		if e.Agent == s.agent && e.Box == mailbox.DeadLetters {
			return false
		}
		done = done || e.Message != nil && e.Message.IsFor(s.agent)
	}
	return done
}

func acknowledgedText(r acknowledged) string {
	switch {
	case r.Already:
		return fmt.Sprintf("Acknowledged: %s was already gone from the inbox.", r.MessageID)
	case r.Archived != "":
		return fmt.Sprintf("Acknowledged: %s, kept at %s.", r.MessageID, r.Archived)
	}
	return fmt.Sprintf("Acknowledged: %s.", r.MessageID)
}
