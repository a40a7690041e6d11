package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// A Filter selects what Next gives. The zero value selects the next message of any kind, and waits for it until the context
// ends.
type Filter struct {
	// Match reports whether a message is wanted; nil wants all.
	Match func(*schema.Message) bool
	// Timeout bounds the wait, 0 by the context alone. The error is then watch.ErrTimeout.
	Timeout time.Duration
	// Again also selects what the agent was given before. All gives all that are there instead of one.
	Again, All bool
	// Problem receives files of the inbox that are not messages, and Idle is called before the wait begins. Both may be nil.
	Problem func(mailbox.Entry)
	Idle    func()
}

// Next gives the agent the next pending message that is new to it, in processing order, or waits for one. While the process
// that gets it lives, no other process of the agent gets it, and the sender cannot take it back. The caller calls Shown once it
// has shown the text, and Return if the reader went away. If the process is killed before that, the message is new again.
func (c *Client) Next(ctx context.Context, f Filter) (*Request, error) {
	f.All = false
	got, err := c.Take(ctx, f)
	if err != nil {
		return nil, err
	}
	return got[0], nil
}

// Take is Next for one message or more.
func (c *Client) Take(ctx context.Context, f Filter) ([]*Request, error) {
	news, most := track.NewsOf(c.w, c.agent), 1
	if f.All {
		most = 0
	}
	deadline := time.Now().Add(f.Timeout)
	options := watch.PendingOptions{Idle: f.Idle, Problem: f.Problem, Match: func(m *schema.Message) bool {
		return (f.Match == nil || f.Match(m)) && (f.Again || news.Has(m))
	}}
	for {
		if f.Timeout > 0 {
			options.Timeout = max(time.Until(deadline), time.Nanosecond) // a first look is made in any case
		}
		found, err := watch.AwaitPending(ctx, []watch.Target{{Workspace: c.w, Agent: c.agent}}, options)
		if err != nil {
			return nil, err
		}
		given, err := track.Offer(ctx, c.w, c.agent, c.holder(), found, most, f.Again)
		if err != nil || len(given) > 0 { // else another process of the agent was faster
			return c.requests(given), err
		}
	}
}

// Read gives the agent the files that are messages in its inbox, even if another process has them: the agent named them. If
// Read cannot record that, it returns an error, and the caller may show the messages anyway.
func (c *Client) Read(ctx context.Context, files []mailbox.Entry) ([]*Request, error) {
	pending := slices.DeleteFunc(slices.Clone(files), func(e mailbox.Entry) bool {
		return e.Agent != c.agent || e.Box != mailbox.Inbox || e.Err != nil
	})
	if len(pending) == 0 {
		return nil, nil
	}
	given, err := track.Offer(ctx, c.w, c.agent, c.holder(), pending, 0, true)
	return c.requests(given), err
}

// Display is Read for what stays in sight, such as a page that is loaded again: it records once that the agent has a message. The
// message stays new to the other fronts of a person.
func (c *Client) Display(ctx context.Context, files []mailbox.Entry) error {
	news := track.NewsOf(c.w, c.agent)
	_, err := c.Read(ctx, slices.DeleteFunc(slices.Clone(files), func(e mailbox.Entry) bool {
		return e.Err == nil && news.IsOfferedTo(e.Message, c.holder())
	}))
	return err
}

func (c *Client) requests(given []track.Given) (all []*Request) {
	for _, g := range given {
		all = append(all, &Request{Message: g.Message, Entry: g.Entry, ShownBefore: g.Before, client: c})
	}
	return all
}

// holder is who is given messages.
func (c *Client) holder() track.Holder {
	if c.caller.IsPerson && c.process.PID == 0 {
		return track.Person
	}
	return track.HolderOf(c.process)
}

// Announce returns new messages of the agent that it was not told of yet, at most track.MostAnnounced, and records that it is.
func (c *Client) Announce(ctx context.Context) []*schema.Message {
	return track.NewsOf(c.w, c.agent).Announce(ctx, c.holder())
}

// Shown records that the agent has noticed messages. Callers call it after they wrote the text to its reader.
func (c *Client) Shown(requests ...*Request) error {
	return track.NoteNoticed(c.w, c.agent, keysOf(requests), track.Noticed{Holder: c.holder()})
}

// Awaited records that the agent waited for a reply and was shown it. If a turn does that, the reply gets no turn of its own once that
// one has ended well.
func (c *Client) Awaited(reply *schema.Message) error { return track.NoteAwaited(c.w, c.agent, reply) }

// Return makes messages new again, unless others have them, too. If nothing of them was written, their sender can still take them back.
func (c *Client) Return(unwritten bool, requests ...*Request) error {
	return track.Return(c.w, c.agent, c.holder(), unwritten, keysOf(requests)...)
}

func keysOf(requests []*Request) (keys []track.Key) {
	for _, r := range requests {
		keys = append(keys, track.KeyOf(r.Message))
	}
	return keys
}

// ReturnMessage makes a pending message new again, even if another process has it. A person who has read the mail of an agent
// so leaves it to the agent.
func (c *Client) ReturnMessage(ctx context.Context, id string) (*schema.Message, error) {
	e, err := c.Pending(ctx, id)
	if err == nil {
		err = e.Err
	}
	if err != nil {
		return nil, err
	}
	if e.Message == nil {
		return nil, errors.New(e.Name + " is not a message")
	}
	return e.Message, track.Return(c.w, c.agent, track.Holder{}, false, track.KeyOf(e.Message))
}

// Shown is Client.Shown for one message, and Awaited for a reply that Ask returned.
func (r *Request) Shown() error {
	err := r.client.Shown(r)
	if err == nil && r.awaited {
		err = r.client.Awaited(r.Message)
	}
	return err
}

// Return is Client.Return for one message.
func (r *Request) Return(unwritten bool) error { return r.client.Return(unwritten, r) }
