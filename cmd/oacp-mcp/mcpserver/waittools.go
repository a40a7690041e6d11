package mcpserver

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// defaultWait is how long next_message waits by default. Many clients abandon a call after a minute.
const defaultWait = seconds(50)

type nextMessageInput struct {
	Seconds seconds `json:"wait_seconds,omitempty" jsonschema:"Default 50, at most 480."`
	Again   bool    `json:"again,omitempty" jsonschema:"Also get one you got before."`
}

func (in *nextMessageInput) setDefaults() { in.Seconds = defaultWait }

func (in nextMessageInput) wait() time.Duration { return in.Seconds.wait() }

type nextMessage struct {
	// Pending is false if no message arrived in time.
	Pending bool `json:"pending"`
	// ShownBefore is when another session of the agent had the message, which is gone.
	ShownBefore schema.Timestamp `json:"shown_before,omitempty"`
	// Open are messages that the agent got before and has not handled, if none is new.
	Open       []openMessage `json:"open,omitempty"`
	Unreadable []unreadable  `json:"unreadable,omitempty"`
	fullMessage
}

type openMessage struct {
	ID      schema.ID `json:"message_id"`
	Subject string    `json:"subject"`
}

// openShown is how many open messages next_message names, and unreadableShown how many files that are not valid messages. They
// are small because each call names them again.
const openShown, unreadableShown = 3, 2

func (s *Server) nextMessage(ctx context.Context, in nextMessageInput) (nextMessage, error) {
	result := nextMessage{}
	waiting, end := whileInput(ctx)
	defer end()
	filter := client.Filter{
		Again: in.Again, Timeout: max(in.wait(), time.Nanosecond), // a first look is made in any case
		Problem: func(e mailbox.Entry) {
			if e.Name == "" {
				s.warn(e.Err)
			} else if len(result.Unreadable) < unreadableShown {
				result.Unreadable = append(result.Unreadable, newUnreadable(e))
			}
		},
	}
	got, err := s.client.Next(waiting, filter)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil { // the input has ended: what is there is still handed out
		filter.Timeout = time.Nanosecond
		got, err = s.client.Next(ctx, filter)
	}
	if errors.Is(err, watch.ErrTimeout) {
		return result, s.addOpen(ctx, &result)
	}
	if err != nil {
		return result, err
	}
	result.Pending = true
	err = s.fill(&result.fullMessage, got.Entry, 0, answerTokens-costAsJSON(result))
	if err = errors.Join(err, context.Cause(ctx)); err != nil { // a client that gave up did not get it
		return result, errors.Join(err, s.client.Return(true, got))
	}
	if !got.ShownBefore.IsZero() {
		result.ShownBefore = schema.NewTimestamp(got.ShownBefore)
	}
	s.show(ctx, got)
	return result, nil
}

// addOpen adds the open messages to a result.
func (s *Server) addOpen(ctx context.Context, result *nextMessage) error {
	open, err := track.NewsOf(s.workspace, s.agent).Open(ctx)
	if err != nil {
		return err
	}
	for _, m := range open[:min(openShown, len(open))] {
		result.Open = append(result.Open, openMessage{m.ID, cut(m.Subject, nameTokens)})
	}
	return nil
}

// awaitRecords is like receiveRecords, but waits until there is a message or the time is up.
func (s *Server) awaitRecords(ctx context.Context, in receiveMessagesInput) (result receivedRecords, err error) {
	waiting, end := whileInput(ctx)
	defer end()
	waiting, endTime := context.WithTimeoutCause(waiting, max(in.wait(), time.Nanosecond), watch.ErrTimeout)
	defer endTime()
	err = watch.Await(waiting, []string{filepath.Dir(s.log.Path())}, func() (done bool, err error) {
		result, err = s.receiveRecords(ctx, in)
		return len(result.Messages) > 0, err
	})
	if errors.Is(err, watch.ErrTimeout) {
		err = nil
	}
	return result, err
}
