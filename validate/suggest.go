package validate

import (
	"fmt"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/schema"
)

// otherNames maps names that people and other formats use to our fields, where their spelling differs too
// much for spelling.Nearest.
var otherNames = map[string]string{
	"sender": "from", "recipient": "to", "recipients": "to", "kind": "type",
	"timestamp": "created_at_utc", "created_at": "created_at_utc", "created": "created_at_utc", "date": "created_at_utc",
	"message": "body", "content": "body", "text": "body", "title": "subject", "summary": "subject",
	"pr": "related_pr", "thread_id": "conversation_id", "parent_id": "parent_message_id",
	"in_reply_to": "parent_message_id", "reply_to": "parent_message_id", "expires": "expires_at",
	"signature": "auth", "context": "context_keys",
}

func suggestField(name string) string {
	plain := strings.ToLower(strings.NewReplacer("-", "_", " ", "_").Replace(name))
	if field, ok := otherNames[plain]; ok {
		return fmt.Sprintf("did you mean %s?", field)
	}
	return spelling.DidYouMean(schema.FieldNames(), name, "leave it out, or write it in the body")
}

func suggestType(name string) string {
	var types []string
	for _, t := range schema.Types() {
		types = append(types, string(t))
	}
	return spelling.DidYouMean(types, name, "write one of "+strings.Join(types, ", "))
}

// priorityWords maps common words to priorities.
var priorityWords = map[string]schema.Priority{
	"urgent": schema.P0, "critical": schema.P0, "0": schema.P0,
	"blocking": schema.P1, "high": schema.P1, "1": schema.P1,
	"default": schema.P2, "normal": schema.P2, "medium": schema.P2, "2": schema.P2,
	"low": schema.P3, "3": schema.P3,
}

// SuggestPriority returns a hint for an invalid priority, with the one that it probably means.
func SuggestPriority(text string) string {
	if p := schema.Priority(strings.ToUpper(text)); p.Known() {
		return fmt.Sprintf("did you mean %s?", p)
	}
	if p, ok := priorityWords[strings.ToLower(text)]; ok {
		return fmt.Sprintf("did you mean %s?", p)
	}
	return "write P0, P1, P2 or P3"
}

// suggestTime returns a hint for an invalid time, with the timestamp if the text has another common form.
func suggestTime(text string) string {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return "write " + string(schema.NewTimestamp(t)) + ", which is that time in UTC"
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04Z", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return "write " + string(schema.NewTimestamp(t)) + ", if that is the time in UTC"
		}
	}
	return "write a time such as 2026-03-13T14:30:00Z"
}
