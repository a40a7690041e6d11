package turn

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/schema"
)

// drivers keeps agents running between the turns of their conversations, a
// few at most.
type drivers struct {
	make func(schema.ConversationID, string) agent.Driver
	most int

	mu   sync.Mutex
	idle []idleDriver
}

type idleDriver struct {
	// conversation is empty for an agent that has had no turn yet.
	conversation schema.ConversationID
	driver       *markedDriver
}

// A markedDriver is a driver that was started, with the mark of what it has
// started for more than one turn.
type markedDriver struct {
	agent.Driver
	mark orphans.Mark
}

// preflight finds out whether the agent can be started at all. The one that is
// started for that is kept for the first conversation that begins: some
// bridges say only once that they are ready.
func (d *drivers) preflight(ctx context.Context) error {
	driver, err := d.start(ctx, "", "")
	if err != nil {
		return err
	}
	return d.put(context.WithoutCancel(ctx), "", driver)
}

// take returns the conversation's agent, started. Any error says that it
// cannot be started, and that no message is to blame.
func (d *drivers) take(ctx context.Context, conversation schema.ConversationID, session string) (*markedDriver, error) {
	if driver := d.takeIdle(conversation); driver != nil {
		return driver, nil
	}
	if session == "" {
		if driver := d.takeIdle(""); driver != nil {
			return driver, nil
		}
	}
	driver, err := d.start(ctx, conversation, session)
	if session != "" && errors.Is(err, agent.ErrUnknownSession) {
		// The agent has forgotten the session; the conversation goes on
		// without it, rather than never.
		return d.start(ctx, conversation, "")
	}
	return driver, err
}

// takeIdle returns the conversation's agent if one is idle, or nil.
func (d *drivers) takeIdle(conversation schema.ConversationID) *markedDriver {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.idle, func(idle idleDriver) bool { return idle.conversation == conversation })
	if i < 0 {
		return nil
	}
	driver := d.idle[i].driver
	d.idle = slices.Delete(d.idle, i, i+1)
	return driver
}

func (d *drivers) start(ctx context.Context, conversation schema.ConversationID, session string) (*markedDriver, error) {
	driver := &markedDriver{d.make(conversation, session), orphans.NewMark()}
	if err := driver.Start(orphans.WithMark(ctx, driver.mark)); err != nil {
		return nil, errors.Join(err, driver.Stop(context.WithoutCancel(ctx)))
	}
	return driver, nil
}

// put keeps an agent whose turn went well for the next one. It stops the one
// that has been idle longest when there are too many.
func (d *drivers) put(ctx context.Context, conversation schema.ConversationID, driver *markedDriver) error {
	d.mu.Lock()
	d.idle = append(d.idle, idleDriver{conversation, driver})
	var old *markedDriver
	if len(d.idle) > d.most {
		old = d.idle[0].driver
		d.idle = d.idle[1:]
	}
	d.mu.Unlock()
	if old == nil {
		return nil
	}
	return old.Stop(ctx)
}

// stop stops all idle agents.
func (d *drivers) stop(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	for _, idle := range d.idle {
		err = errors.Join(err, idle.driver.Stop(ctx))
	}
	d.idle = nil
	return err
}
