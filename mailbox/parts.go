package mailbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/schema"
)

// PartsError reports that only some of the messages of SendParts were sent.
type PartsError struct {
	Sent, NotSent []schema.AgentName
	// Err is the failure of the first message that was not sent.
	Err error
}

func (e *PartsError) Error() string {
	return fmt.Sprintf("sent to %s, but not to %s: %v", spelling.Join(e.Sent), spelling.Join(e.NotSent), e.Err)
}

func (e *PartsError) Explain() (code, hint string) {
	return "partly_sent", "send it again only to the rest: --to " + spelling.Join(e.NotSent)
}

func (e *PartsError) Unwrap() error { return e.Err }

// Precedes says that what is sent matters more than why the rest is not.
func (e *PartsError) Precedes() {}

// SendParts sends a draft once for each part, with the part as its recipients, all in one conversation. Without parts it
// sends the draft as it is. It stops at the first message that cannot be sent, and returns the receipts of those before it.
// The errors are those of Send; if a message was sent before, a *PartsError says who has one and who has not.
func (w *Workspace) SendParts(ctx context.Context, draft schema.Message, parts [][]schema.AgentName, options *SendOptions) (receipts []*Receipt, failed error) {
	if len(parts) == 0 {
		parts = [][]schema.AgentName{draft.To}
	}
	for i, to := range parts {
		draft.To = to
		receipt, err := w.Send(ctx, draft, options)
		if receipt == nil && i > 0 {
			err = &PartsError{Sent: slices.Concat(parts[:i]...), NotSent: slices.Concat(parts[i:]...), Err: err}
		}
		failed = errors.Join(failed, err)
		if receipt == nil {
			break
		}
		receipts = append(receipts, receipt)
		draft.ConversationID = receipt.Message.ConversationID
	}
	return receipts, failed
}
