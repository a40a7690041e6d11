package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/oacp-go/oacp/schema"
)

// NotPendingError says that a message is not, or no longer, in an inbox.
type NotPendingError struct {
	ID schema.ID
	// Agent is whose inbox was looked into; empty means all of them.
	Agent schema.AgentName
	// Elsewhere are the files of the message that there are.
	Elsewhere []Entry
}

// Error names the message and where it is instead.
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

// SeveralInboxesError says that a message waits in several inboxes, so whose
// is meant has to be said.
type SeveralInboxesError struct {
	// ID is the message's id, or the name of its file where that was asked for.
	ID     schema.ID
	Agents []schema.AgentName
}

// Error names the message and the agents.
func (e *SeveralInboxesError) Error() string {
	names := make([]string, len(e.Agents))
	for i, name := range e.Agents {
		names[i] = string(name)
	}
	return fmt.Sprintf("message %s is in the inboxes of %s", e.ID, strings.Join(names, ", "))
}

// InboxEntry returns the copy of a message that waits in the agent's inbox,
// or, for an empty agent, in the only inbox that has one. The id may be
// shortened as for Find. Besides the errors of Find it returns a
// *NotPendingError or a *SeveralInboxesError.
func (w *Workspace) InboxEntry(ctx context.Context, id string, agent schema.AgentName) (Entry, error) {
	if agent != "" {
		if err := w.CheckAgent(agent); err != nil {
			return Entry{}, err
		}
	}
	found, err := w.Find(ctx, id)
	if err != nil {
		return Entry{}, err
	}
	var pending []Entry
	for _, e := range found {
		if e.Box == Inbox && (agent == "" || e.Agent == agent) {
			pending = append(pending, e)
		}
	}
	switch len(pending) {
	case 0:
		return Entry{}, &NotPendingError{ID: found[0].Message.ID, Agent: agent, Elsewhere: found}
	case 1:
		return pending[0], nil
	}
	return Entry{}, newSeveralInboxes(pending[0].Message.ID, pending)
}

func newSeveralInboxes(id schema.ID, entries []Entry) *SeveralInboxesError {
	several := &SeveralInboxesError{ID: id}
	for _, e := range entries {
		several.Agents = append(several.Agents, e.Agent)
	}
	return several
}

// Pending is InboxEntry, but takes the name of a file as well, as Inbox lists
// it. So can be named what is no message and has no id. A file of the name goes
// first: no whole id reads like one.
func (w *Workspace) Pending(ctx context.Context, idOrName string, agent schema.AgentName) (Entry, error) {
	e, err := w.InboxFile(idOrName, agent)
	var missing *NotFoundError
	if errors.As(err, &missing) {
		return w.InboxEntry(ctx, idOrName, agent)
	}
	return e, err
}

// InboxFile returns the file of the name in the agent's inbox or, for an empty
// agent, in the only inbox that has one. It need not hold a message. Names
// that Inbox does not list, paths among them, name nothing. It returns a
// *NotFoundError if there is no such file and a *SeveralInboxesError if there
// are several; inboxes that cannot be read hide nothing that is in others.
func (w *Workspace) InboxFile(name string, agent schema.AgentName) (Entry, error) {
	agents := []schema.AgentName{agent}
	var err error
	if agent == "" {
		agents, err = w.Agents()
	} else {
		err = w.CheckAgent(agent)
	}
	if err != nil {
		return Entry{}, err
	}
	missing := error(&NotFoundError{ID: name, Workspace: w.dir})
	if !schema.IsMessageFile(name) || filepath.Base(name) != name {
		return Entry{}, missing
	}
	var found []Entry
	var unreadable error
	for _, agent := range agents {
		switch e, err := w.inboxFile(name, agent); {
		case err == nil:
			found = append(found, e)
		case !errors.Is(err, fs.ErrNotExist):
			unreadable = errors.Join(unreadable, err)
		}
	}
	switch {
	case len(found) == 0 && unreadable != nil:
		return Entry{}, errors.Join(missing, &UnreadableError{unreadable})
	case len(found) == 0:
		return Entry{}, missing
	case len(found) == 1:
		return found[0], nil
	}
	return Entry{}, newSeveralInboxes(schema.ID(name), found)
}

// inboxFile returns an error matching fs.ErrNotExist when there is no such
// file.
func (w *Workspace) inboxFile(name string, agent schema.AgentName) (e Entry, err error) {
	dir, err := w.openBox(agent, Inbox)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	// What the entry is, its own place says and not where a link leads.
	if _, err := dir.Lstat(name); err != nil {
		return e, err
	}
	e = readEntry(dir, agent, Inbox, name)
	if errors.Is(e.Err, fs.ErrNotExist) {
		return e, e.Err // it was there a moment ago
	}
	return e, nil
}
