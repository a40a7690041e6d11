package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/schema"
)

// NotFoundError says that no message has the id.
type NotFoundError struct {
	// ID is the id or the beginning of one that was looked for.
	ID        string
	Workspace string
}

// Error names the id and the workspace.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("workspace %s has no message %s", e.Workspace, e.ID)
}

// AmbiguousError says that several messages have ids that begin alike.
type AmbiguousError struct {
	Prefix string
	// Matches are the ids, sorted.
	Matches []schema.ID
}

// Error names the beginning and the ids.
func (e *AmbiguousError) Error() string {
	names := make([]string, 0, 4)
	for _, id := range e.Matches {
		if len(names) == 3 {
			names = append(names, "…")
			break
		}
		names = append(names, string(id))
	}
	return fmt.Sprintf("%d messages have ids that match %s: %s", len(e.Matches), e.Prefix, strings.Join(names, ", "))
}

// UnreadableError says that some folders of mailboxes could not be read, so
// that what is in them is missing from an answer.
type UnreadableError struct{ Err error }

// Error names the folders and the causes.
func (e *UnreadableError) Error() string { return e.Err.Error() }

// Unwrap returns the causes.
func (e *UnreadableError) Unwrap() error { return e.Err }

// Find returns the files of the message that has the id, or the only one
// whose id begins with the text. "msg-" and, where the rest is unique, all
// before the last hyphen may be left out. The files come in the order inbox,
// archive, dead letters, outbox. It returns a *NotFoundError or an
// *AmbiguousError if there is no single such message. Folders that cannot be
// read hide nothing that stands elsewhere; where nothing is found, an
// *UnreadableError tells of them as well.
func (w *Workspace) Find(ctx context.Context, id string) ([]Entry, error) {
	found, err := w.collect(ctx, fileNameFilter(id), func(m *schema.Message) bool { return matchesID(m.ID, id) })
	var unreadable *UnreadableError
	if err != nil && !errors.As(err, &unreadable) {
		return nil, err
	}
	var ids []schema.ID
	for _, e := range found {
		if string(e.Message.ID) == id {
			return slices.DeleteFunc(found, func(e Entry) bool { return string(e.Message.ID) != id }), nil
		}
		ids = append(ids, e.Message.ID)
	}
	slices.Sort(ids)
	switch ids = slices.Compact(ids); len(ids) {
	case 0:
		return nil, errors.Join(&NotFoundError{ID: id, Workspace: w.dir}, err)
	case 1:
		return found, nil
	}
	return nil, &AmbiguousError{Prefix: id, Matches: ids}
}

// FindNamed is Find, but takes the name of a file in an inbox as well; see
// InboxFile for that and the agent. Then the one entry may be no message.
func (w *Workspace) FindNamed(ctx context.Context, idOrName string, agent schema.AgentName) ([]Entry, error) {
	e, err := w.InboxFile(idOrName, agent)
	var missing *NotFoundError
	switch {
	case err == nil:
		return []Entry{e}, nil
	case errors.As(err, &missing):
		return w.Find(ctx, idOrName)
	}
	return nil, err
}

func matchesID(id schema.ID, text string) bool {
	if text == "" {
		return false
	}
	full := string(id)
	if strings.HasPrefix(full, text) || strings.HasPrefix(full, "msg-"+text) {
		return true
	}
	return full[strings.LastIndexByte(full, '-')+1:] == text
}

// fileNameFilter spares opening files that cannot hold the message: a whole
// id of our form names the minute and sender that its file's name begins
// with. Names that other tools chose are always looked into.
func fileNameFilter(id string) func(name string) bool {
	parts, err := schema.ParseID(schema.ID(id))
	if err != nil {
		return schema.IsMessageFile
	}
	return func(name string) bool {
		if !schema.IsMessageFile(name) {
			return false
		}
		parsed, err := schema.ParseFileName(name)
		return err != nil || parsed.From != parts.Sender || parsed.At.Equal(parts.At) || parsed.At.Truncate(60e9).Equal(parts.At.Truncate(60e9))
	}
}

// collect returns all readable messages of all mailboxes that match accepts,
// in the order of boxes. With an *UnreadableError it returns what it could
// read.
func (w *Workspace) collect(ctx context.Context, want func(name string) bool, match func(*schema.Message) bool) ([]Entry, error) {
	agents, err := w.Agents()
	if err != nil {
		return nil, err
	}
	var found []Entry
	var unreadable error
	for _, box := range boxes {
		for _, agent := range agents {
			entries, err := w.load(ctx, agent, box, want)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			unreadable = errors.Join(unreadable, err)
			for _, e := range entries {
				if e.Message != nil && match(e.Message) {
					found = append(found, e)
				}
			}
		}
	}
	if unreadable != nil {
		return found, &UnreadableError{unreadable}
	}
	return found, nil
}

// Thread returns the conversation that the message belongs to: every message
// with its conversation id, and every one tied to one of those as parent or
// answer. Each message stands once, the oldest first; Entry tells one of the
// places where it is. Where folders cannot be read, the thread of what can be
// is returned with an *UnreadableError.
func (w *Workspace) Thread(ctx context.Context, id string) ([]Entry, error) {
	start, err := w.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	all, err := w.collect(ctx, schema.IsMessageFile, func(*schema.Message) bool { return true })
	var unreadable *UnreadableError
	if err != nil && !errors.As(err, &unreadable) {
		return nil, err
	}
	return inOrder(connected(start[0].Message, all)), err
}

// inOrder sorts a thread by time, messages of one second in the order in which
// their files were written, and puts no message before what it answers.
func inOrder(thread []Entry) []Entry {
	slices.SortFunc(thread, func(a, b Entry) int {
		return cmp.Or(
			strings.Compare(string(a.Message.CreatedAt), string(b.Message.CreatedAt)),
			a.Modified.Compare(b.Modified),
			strings.Compare(string(a.Message.ID), string(b.Message.ID)),
		)
	})
	waiting := make(map[schema.ID]Entry, len(thread))
	for _, e := range thread {
		waiting[e.Message.ID] = e
	}
	ordered := make([]Entry, 0, len(thread))
	for _, e := range thread {
		// The message and what it answers, back to the first not yet told.
		var chain []Entry
		for id := e.Message.ID; ; {
			link, ok := waiting[id]
			if !ok {
				break
			}
			delete(waiting, id)
			chain = append(chain, link)
			id = link.Message.ParentID
		}
		slices.Reverse(chain)
		ordered = append(ordered, chain...)
	}
	return ordered
}

// connected returns one entry of each message that is tied to the start.
func connected(start *schema.Message, all []Entry) []Entry {
	ties := func(m *schema.Message) []string {
		keys := []string{"id " + string(m.ID)}
		if m.ParentID != "" {
			keys = append(keys, "id "+string(m.ParentID))
		}
		if m.ConversationID != "" {
			keys = append(keys, "conversation "+string(m.ConversationID))
		}
		return keys
	}
	byTie := make(map[string][]int)
	for i, e := range all {
		for _, key := range ties(e.Message) {
			byTie[key] = append(byTie[key], i)
		}
	}
	var thread []Entry
	taken := make(map[schema.ID]bool)
	followed := make(map[string]bool)
	for queue := ties(start); len(queue) > 0; queue = queue[1:] {
		if followed[queue[0]] {
			continue
		}
		followed[queue[0]] = true
		for _, i := range byTie[queue[0]] {
			if m := all[i].Message; !taken[m.ID] {
				taken[m.ID] = true
				thread = append(thread, all[i])
				queue = append(queue, ties(m)...)
			}
		}
	}
	return thread
}

// ReadRaw returns the bytes of a message file.
func (w *Workspace) ReadRaw(e Entry) (data []byte, err error) {
	dir, err := w.openBox(e.Agent, e.Box)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return dir.ReadFile(e.Name, schema.MaxFileSize)
}

// IsGone reports whether the error says that a message file is no longer
// where it was: somebody dealt with it meanwhile.
func IsGone(err error) bool { return errors.Is(err, os.ErrNotExist) }
