package watch

import "github.com/oacp-go/oacp/mailbox"

// An EventKind says what a Watcher saw.
type EventKind string

// The kinds of events. Their names are those of the reference implementation, which has no warnings.
const (
	// EventArrived reports a message that is in the box and was not reported before.
	EventArrived EventKind = "new_message"
	// EventArchived reports that a message is no longer in the box: it was acknowledged, archived,
	// moved or replaced.
	EventArchived EventKind = "message_archived"
	// EventError reports a file that is not a message, a folder that cannot be read, or a cursor or
	// recovery that failed.
	EventError EventKind = "error"
	// EventWarning reports a limitation that delays events but loses none.
	EventWarning EventKind = "warning"
)

// Event is one thing that a Watcher saw.
type Event struct {
	Kind EventKind
	// Project is the project name of the workspace.
	Project string
	// Entry is the file. EventArrived has the whole message, EventArchived only its ID, From, Type,
	// Priority and Subject. Errors and warnings have Err; their Name is empty if they do not concern
	// a single file.
	mailbox.Entry
}
