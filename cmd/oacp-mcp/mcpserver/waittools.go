package mcpserver

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

// defaultWait is how long next_message waits. Many clients give up a call after a minute.
const defaultWait = seconds(50)

// A waiting input says how long its call waits, besides the time that it takes.
type waiting interface{ wait() time.Duration }

func (s seconds) wait() time.Duration { return time.Duration(s) * time.Second }

type nextMessageInput struct {
	Seconds *seconds         `json:"wait_seconds,omitempty" jsonschema:"Default 50, at most 480."`
	Type    schema.Type      `json:"type,omitempty" jsonschema:"Only one of this type."`
	From    schema.AgentName `json:"from,omitempty" jsonschema:"Only one from this agent."`
}

func (in nextMessageInput) wait() time.Duration {
	if in.Seconds == nil {
		return defaultWait.wait()
	}
	return in.Seconds.wait()
}

func (in nextMessageInput) matches(m *schema.Message) bool {
	return (in.Type == "" || in.Type == m.Type) && (in.From == "" || in.From == m.From)
}

type nextMessage struct {
	Pending    bool         `json:"pending" jsonschema:"There is a message; false if none came in time."`
	Unreadable []unreadable `json:"unreadable,omitempty" jsonschema:"Files in the inbox that are not valid messages, at most two; list_inbox lists all."`
	fullMessage
}

// unreadableShown is how many files that are not valid messages next_message names: each call names them again.
const unreadableShown = 2

func (s *Server) nextMessage(ctx context.Context, in nextMessageInput) (nextMessage, error) {
	result := nextMessage{}
	ctx, cancel := s.untilStopped(ctx)
	defer cancel()
	found, err := watch.AwaitPending(ctx, []watch.Target{{Workspace: s.workspace, Agent: s.agent}}, watch.PendingOptions{
		Match: in.matches, Most: 1, Timeout: max(in.wait(), time.Nanosecond),
		Problem: func(e mailbox.Entry) {
			if e.Name == "" {
				s.warn(e.Err)
			} else if len(result.Unreadable) < unreadableShown {
				result.Unreadable = append(result.Unreadable, newUnreadable(e))
			}
		},
	})
	if errors.Is(err, watch.ErrTimeout) {
		return result, nil
	}
	if err == nil {
		result.Pending = true
		err = s.fill(&result.fullMessage, found[0], 0, answerTokens-costAsJSON(result))
	}
	return result, err
}

// untilStopped returns a context that also ends, with watch.ErrTimeout, when the server stops.
func (s *Server) untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	release := context.AfterFunc(s.stopping, func() { cancel(watch.ErrTimeout) })
	return ctx, func() {
		release()
		cancel(nil)
	}
}

// awaitRecords is receiveRecords, but waits until there is a message.
func (s *Server) awaitRecords(ctx context.Context, in receiveMessagesInput) (result receivedRecords, err error) {
	waiting, cancel := s.untilStopped(ctx)
	defer cancel()
	waiting, end := context.WithTimeoutCause(waiting, max(in.wait(), time.Nanosecond), watch.ErrTimeout)
	defer end()
	err = watch.Await(waiting, []string{filepath.Dir(s.bridge.place.Path)}, func() (done bool, err error) {
		result, err = s.receiveRecords(ctx, in)
		return len(result.Messages) > 0, err
	})
	if errors.Is(err, watch.ErrTimeout) {
		err = nil
	}
	return result, err
}
