package mcpserver

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

// seconds is how long a call waits: a whole number, which JSON may also write as 10.0 or 1e2.
type seconds float64

const (
	// defaultWait is how long next_message waits. Many clients give up a call after a minute.
	defaultWait = 50
	maxWait     = 480
)

// A waiting input says how long its call waits, besides the time that it takes.
type waiting interface{ wait() time.Duration }

func (s seconds) wait() time.Duration { return time.Duration(s) * time.Second }

// addWaitTool offers the mailbox tool that waits.
func (s *Server) addWaitTool() {
	addTool(s, "next_message",
		"Get the first pending message in full, or wait for one. It comes again until it is acknowledged.",
		reads(), s.nextMessage)
}

type nextMessageInput struct {
	Seconds *seconds         `json:"wait_seconds,omitempty" jsonschema:"Default 50, at most 480."`
	Type    schema.Type      `json:"type,omitempty" jsonschema:"Only one of this type."`
	From    schema.AgentName `json:"from,omitempty" jsonschema:"Only one from this agent."`
}

func (in nextMessageInput) wait() time.Duration {
	if in.Seconds == nil {
		return seconds(defaultWait).wait()
	}
	return in.Seconds.wait()
}

func (in nextMessageInput) matches(m *schema.Message) bool {
	return (in.Type == "" || in.Type == m.Type) && (in.From == "" || in.From == m.From)
}

type nextMessage struct {
	Pending    bool            `json:"pending" jsonschema:"There is a message; false if none came in time."`
	Message    *schema.Message `json:"message,omitempty" jsonschema:"The fields of the message."`
	Unreadable []unreadable    `json:"unreadable,omitempty" jsonschema:"Files in the inbox that are not valid messages, at most two; list_inbox lists all."`
	bodyPart
	trust.Finding
}

// unreadableShown is how many files that are not valid messages next_message names, and
// unreadableTokens what they cost at most: each call names them again.
const (
	unreadableShown  = 2
	unreadableTokens = 1000
)

func (s *Server) nextMessage(ctx context.Context, in nextMessageInput) (nextMessage, string, error) {
	result := nextMessage{}
	ctx, cancel := s.waitContext(ctx)
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
	var text string
	switch {
	case errors.Is(err, watch.ErrTimeout):
		err = nil
		text = "No message came for " + string(s.agent) + ". Call again to wait longer: nothing that comes in between is missed."
	case err != nil:
		return result, "", err
	default:
		e := found[0]
		full := fullMessage{Copies: []messageCopy{{e.Agent, e.Box}}, Finding: shortFinding(trust.NewChecker(s.workspace).Check(e))}
		tokens := answerTokens
		if len(result.Unreadable) > 0 {
			tokens -= unreadableTokens
		}
		text, err = full.fill(e.Message, 0, tokens)
		result.Pending, result.Message, result.bodyPart, result.Finding = true, full.Message, full.bodyPart, full.Finding
	}
	for _, u := range result.Unreadable {
		text += "\n" + u.line()
	}
	return result, text, err
}

// waitContext returns a context that also ends, with watch.ErrTimeout, when the server stops.
func (s *Server) waitContext(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	release := context.AfterFunc(s.stopping, func() { cancel(watch.ErrTimeout) })
	return ctx, func() {
		release()
		cancel(nil)
	}
}

// awaitRecords is receiveRecords, but waits until there is a message.
func (s *Server) awaitRecords(ctx context.Context, in receiveMessagesInput) (result receivedRecords, text string, err error) {
	waiting, cancel := s.waitContext(ctx)
	defer cancel()
	waiting, end := context.WithTimeoutCause(waiting, max(in.wait(), time.Nanosecond), watch.ErrTimeout)
	defer end()
	err = watch.Await(waiting, []string{filepath.Dir(s.bridge.place.Path)}, func() (done bool, err error) {
		result, text, err = s.receiveRecords(ctx, in)
		return len(result.Messages) > 0, err
	})
	if errors.Is(err, watch.ErrTimeout) {
		err = nil
	}
	return result, text, err
}
