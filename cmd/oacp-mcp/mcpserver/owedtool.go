package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

type owedList struct {
	Mine       []openRequest `json:"mine" jsonschema:"Requests that wait for your answer, oldest first."`
	Theirs     []openRequest `json:"theirs" jsonschema:"Your requests that wait for an answer, oldest first."`
	Unreadable string        `json:"unreadable,omitempty" jsonschema:"What could not be read. Requests in it are missing."`
}

type openRequest struct {
	MessageID schema.ID        `json:"message_id" jsonschema:"Id of the request."`
	From      schema.AgentName `json:"from" jsonschema:"Who asks."`
	To        schema.AgentName `json:"to" jsonschema:"Who owes the answer."`
	Type      schema.Type      `json:"type" jsonschema:"What the request is for."`
	Subject   string           `json:"subject" jsonschema:"What it is about."`
	Age       string           `json:"age" jsonschema:"How old it is, such as 5m, 3h or 2d."`
	ExpiresAt schema.Timestamp `json:"expires_at,omitempty" jsonschema:"When it expires."`
	Stage     turn.Stage       `json:"stage" jsonschema:"How far it got, as oacp status says."`
}

func (s *Server) listOwed(ctx context.Context, _ struct{}) (owedList, string, error) {
	owed, err := turn.OwedBy(ctx, s.workspace, s.agent)
	var result owedList
	switch incomplete := new(mailbox.UnreadableError); {
	case errors.As(err, &incomplete):
		result.Unreadable = failure.OneLine(incomplete.Error())
	case err != nil:
		return result, "", err
	}
	var text strings.Builder
	if len(owed.Mine)+len(owed.Theirs) == 0 {
		text.WriteString("Nothing is owed.\n")
	}
	result.Mine = openRequests(&text, "Wait for your answer:\n", owed.Mine)
	result.Theirs = openRequests(&text, "You wait for an answer:\n", owed.Theirs)
	if result.Unreadable != "" {
		fmt.Fprintf(&text, "There may be more: %s\n", result.Unreadable)
	}
	return result, text.String(), nil
}

// openRequests also writes a line for each request, below a title.
func openRequests(text *strings.Builder, title string, open []turn.OpenRequest) []openRequest {
	list := make([]openRequest, len(open))
	now := time.Now()
	for i, r := range open {
		one := openRequest{r.ID, r.From, r.To, r.Type, r.Subject, spelling.Age(r.CreatedAt.Time(), now), r.ExpiresAt, r.Stage}
		list[i] = one
		if i == 0 {
			text.WriteString(title)
		}
		fmt.Fprintf(text, "%s from %s to %s, %s old, %s: %s (id %s)\n", one.Type, one.From, one.To, one.Age, one.Stage,
			oneLine(one.Subject), one.MessageID)
	}
	return list
}
