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

// drivers keeps a few agents running between the turns of their conversations.
type drivers struct {
	make func(schema.ConversationID, string) agent.Driver
	most int

	mu   sync.Mutex
	idle []idleDriver
}

type idleDriver struct {
	// conversation is empty for an agent that had no turn yet.
	conversation schema.ConversationID
	driver       *markedDriver
}

// A markedDriver is a started driver. The mark is on the processes that it started for more than
// one turn.
type markedDriver struct {
	agent.Driver
	mark orphans.Mark
}

// preflight finds out whether the agent can be started. It keeps the started one for the first
// conversation that begins: some bridges say only once that they are ready.
func (d *drivers) preflight(ctx context.Context) error {
	driver, err := d.start(ctx, "", "")
	if err != nil {
		return err
	}
	return d.keep(context.WithoutCancel(ctx), "", driver)
}

// get returns the conversation's agent, started. An error says that it cannot be started; no
// message is at fault.
func (d *drivers) get(ctx context.Context, conversation schema.ConversationID, session string) (*markedDriver, error) {
	if driver := d.idleFor(conversation); driver != nil {
		return driver, nil
	}
	if session == "" {
		if driver := d.idleFor(""); driver != nil {
			return driver, nil
		}
	}
	driver, err := d.start(ctx, conversation, session)
	if session != "" && errors.Is(err, agent.ErrUnknownSession) {
		// The agent has forgotten the session. The conversation goes on without it.
		return d.start(ctx, conversation, "")
	}
	return driver, err
}

// idleFor returns the conversation's idle agent and no longer counts it as idle; it returns nil if
// there is none.
func (d *drivers) idleFor(conversation schema.ConversationID) *markedDriver {
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

// keep keeps an agent for the next turn. If too many are idle, it stops the one that has been idle
// longest.
func (d *drivers) keep(ctx context.Context, conversation schema.ConversationID, driver *markedDriver) error {
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
