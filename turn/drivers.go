package turn

import (
	"context"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/schema"
)

// A markedDriver marks the processes that its driver starts and that outlive a turn.
type markedDriver struct {
	agent.Driver
	mark orphans.Mark
}

// Start starts the driver and marks what it starts.
func (d *markedDriver) Start(ctx context.Context) error {
	return d.Driver.Start(orphans.WithMark(ctx, d.mark))
}

// newPool returns the pool of the drivers of conversations.
func newPool(turns orphans.Owner, newDriver func(schema.ConversationID, string) agent.Driver, most int) *agent.Pool {
	return &agent.Pool{Most: most, New: func(conversation, session string) agent.Driver {
		return &markedDriver{newDriver(schema.ConversationID(conversation), session), turns.NewMark()}
	}}
}
