package mirror

import (
	"context"
	"fmt"
	"slices"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/convert"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Acknowledge acknowledges the messages in an agent's inbox that the agent knows from the bridge: those that the
// records carry, and those derived from the records. It returns how many it acknowledged. A message that is no longer
// there is not an error.
func Acknowledge(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, records []bridge.Record) (done int, err error) {
	if len(records) == 0 {
		return 0, nil
	}
	carried := make(map[schema.ID]bool)
	for _, r := range records {
		if m, _ := convert.Carried(r); m != nil {
			carried[m.ID] = true
		}
	}
	entries, err := w.List(ctx, agent, mailbox.Inbox)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if e.Message == nil {
			continue
		}
		origin, derived := convert.OriginOf(e.Message)
		if !carried[e.Message.ID] && !(derived && slices.ContainsFunc(records, origin.Names)) {
			continue
		}
		switch err := w.Acknowledge(e); {
		case err == nil:
			done++
		case !mailbox.IsGone(err):
			return done, fmt.Errorf("acknowledging message %s: %w", e.Message.ID, err)
		}
	}
	return done, nil
}
