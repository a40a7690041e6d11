package command

import (
	"context"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
	"github.com/oacp-go/oacp/validate"
)

// PrepareDraft counts the turn from within which a message is sent, and then is client.CheckText.
func PrepareDraft(ctx context.Context, w *mailbox.Workspace, draft *schema.Message, source validate.Source) error {
	if err := track.InheritHops(w, draft); err != nil {
		return err
	}
	return client.CheckText(ctx, w, draft, source)
}
