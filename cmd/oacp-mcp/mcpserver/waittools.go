package mcpserver

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
)

// defaultWait is how long next_message waits by default. Many clients abandon a call after a minute.
const defaultWait = seconds(50)

type nextMessageInput struct {
	Seconds seconds `json:"wait_seconds,omitempty" jsonschema:"Default 50, at most 480."`
}

func (in *nextMessageInput) setDefaults() { in.Seconds = defaultWait }

func (in nextMessageInput) wait() time.Duration { return in.Seconds.wait() }

type nextMessage struct {
	// Pending is false if no message arrived in time.
	Pending    bool         `json:"pending"`
	Unreadable []unreadable `json:"unreadable,omitempty"`
	fullMessage
}

// unreadableShown is how many files that are not valid messages next_message names. It is small because each call
// names them again.
const unreadableShown = 2

func (s *Server) nextMessage(ctx context.Context, in nextMessageInput) (nextMessage, error) {
	result := nextMessage{}
	found, err := watch.AwaitPending(ctx, []watch.Target{{Workspace: s.workspace, Agent: s.agent}}, watch.PendingOptions{
		Most: 1, Timeout: max(in.wait(), time.Nanosecond),
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

// awaitRecords is like receiveRecords, but waits until there is a message or the time is up.
func (s *Server) awaitRecords(ctx context.Context, in receiveMessagesInput) (result receivedRecords, err error) {
	waiting, end := context.WithTimeoutCause(ctx, max(in.wait(), time.Nanosecond), watch.ErrTimeout)
	defer end()
	err = watch.Await(waiting, []string{filepath.Dir(s.log.Path())}, func() (done bool, err error) {
		result, err = s.receiveRecords(ctx, in)
		return len(result.Messages) > 0, err
	})
	if errors.Is(err, watch.ErrTimeout) {
		err = nil
	}
	return result, err
}
