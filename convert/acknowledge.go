package convert

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Acknowledge acknowledges the messages in an agent's inbox that the agent knows from the bridge: those that a
// Mirror delivered for the records, and those that it made the records of. One that is gone already is no
// error, so doing it again changes nothing. Done is how many were acknowledged.
func Acknowledge(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, records []bridge.Record) (done int, err error) {
	known, err := identitiesOf(records)
	if err != nil || len(known) == 0 {
		return 0, err
	}
	entries, err := w.List(ctx, agent, mailbox.Inbox)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if e.Message == nil {
			continue
		}
		id, err := identityOf(e.Message)
		if err != nil {
			return done, err
		}
		if !known[id] {
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

// An identity tells whether a message and a record are one thing: the record that a born message was born
// from, without its id, which the message may not tell; or the sum of a message that the record carries.
type identity struct {
	kind, from, to, content, signal, at string
	sum                                 [sha256.Size]byte
}

// identitiesOf returns the identities of the messages that stand for the records.
func identitiesOf(records []bridge.Record) (map[identity]bool, error) {
	known := make(map[identity]bool, len(records))
	for _, r := range records {
		// A record whose message had its id taken by another was delivered as it stands.
		known[bornIdentity(r)] = true
		m, _ := carriedBy(r)
		if m == nil {
			continue
		}
		sum, err := sumOf(m)
		if err != nil {
			return nil, fmt.Errorf("message %s: %w", m.ID, err)
		}
		known[identity{sum: sum}] = true
	}
	return known, nil
}

// identityOf returns the identity of a message.
func identityOf(m *schema.Message) (identity, error) {
	if o, born := originOf(m); born {
		return bornIdentity(o.record), nil
	}
	sum, err := sumOf(m)
	if err != nil {
		return identity{}, fmt.Errorf("message %s: %w", m.ID, err)
	}
	return identity{sum: sum}, nil
}

func bornIdentity(r bridge.Record) identity {
	at, _ := timeOf(r.Timestamp)
	return identity{
		kind: string(r.Type), from: r.From, to: r.To, content: r.Content, signal: string(r.Signal),
		at: string(schema.NewTimestamp(at)),
	}
}
