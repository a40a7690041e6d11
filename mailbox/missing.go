package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/schema"
)

// NotFoundError reports that the workspace does not have a message.
type NotFoundError struct {
	// ID is the id, or the part of one, that was looked for.
	ID        string
	Workspace string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("workspace %s has no message %s", e.Workspace, e.ID)
}

func (e *NotFoundError) Explain() (code, hint string) {
	return "not_found", "oacp inbox lists pending messages, oacp list all messages"
}

// AmbiguousError is returned if several messages match a part of an id.
type AmbiguousError struct {
	Prefix string
	// Matches are the ids, sorted.
	Matches []schema.ID
}

func (e *AmbiguousError) Error() string {
	const most = 3
	more := ""
	if len(e.Matches) > most {
		more = ", …"
	}
	return fmt.Sprintf("%d messages match %s: %s%s", len(e.Matches), e.Prefix,
		spelling.Join(e.Matches[:min(most, len(e.Matches))]), more)
}

func (e *AmbiguousError) Explain() (code, hint string) { return "ambiguous", "type more of the id" }

// ShortIDError is returned if a text is a prefix of message ids, but too short to name one.
type ShortIDError struct{ Text string }

func (e *ShortIDError) Error() string { return e.Text + " is too short to name a message" }

func (e *ShortIDError) Explain() (code, hint string) {
	return "short_id", "give at least four characters of the last part of the id, which oacp inbox lists, or the full id"
}

// UnreadableError is returned if some mailbox folders could not be read, so that a result lacks
// their files.
type UnreadableError struct {
	Err error
	// Agents are the owners of the folders.
	Agents []schema.AgentName
}

func (e *UnreadableError) Error() string { return e.Err.Error() }

func (e *UnreadableError) Unwrap() error { return e.Err }

// Precedes says that the cause matters more than what was not found because of it.
func (e *UnreadableError) Precedes() {}

// Hides reports whether a folder of the agent could not be read. A nil error hides nothing.
func (e *UnreadableError) Hides(agent schema.AgentName) bool {
	return e != nil && slices.Contains(e.Agents, agent)
}

// Add adds an error about a folder of the agent, once.
func (e *UnreadableError) Add(agent schema.AgentName, err error) {
	if err == nil || e.Err != nil && strings.Contains(e.Err.Error(), err.Error()) {
		return
	}
	e.Err, e.Agents = errors.Join(e.Err, err), append(e.Agents, agent)
}

func (e *UnreadableError) orNil() error {
	if e.Err == nil {
		return nil
	}
	return e
}

// SplitUnreadable separates an *UnreadableError that came with a result, which lacks what could not be
// read, from an error without a result.
func SplitUnreadable(err error) (*UnreadableError, error) {
	if unreadable, ok := err.(*UnreadableError); ok {
		return unreadable, nil
	}
	return nil, err
}

// NotPendingError reports that a message is not in an inbox, perhaps no longer.
type NotPendingError struct {
	ID schema.ID
	// Agent is the owner of the inbox; empty means all inboxes.
	Agent schema.AgentName
	// Elsewhere are the files of the message in other boxes.
	Elsewhere []Entry
}

func (e *NotPendingError) Error() string {
	inbox := "any inbox"
	if e.Agent != "" {
		inbox = "the inbox of " + string(e.Agent)
	}
	places := make([]string, len(e.Elsewhere))
	for i, entry := range e.Elsewhere {
		places[i] = fmt.Sprintf("the %s of %s", entry.Box, entry.Agent)
	}
	return fmt.Sprintf("message %s is not in %s; it is in %s", e.ID, inbox, strings.Join(places, ", "))
}

func (e *NotPendingError) Explain() (code, hint string) {
	return "not_pending", fmt.Sprintf("oacp status %s shows what happened to it, oacp restore %[1]s returns it to the inbox", e.ID.Short())
}

// IsGone reports whether the error means that a message file no longer exists.
func IsGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
