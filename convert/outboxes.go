package convert

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// settled is how long a folder must have been left alone before its modification time is taken to tell of
// every later change: file systems count time in steps.
const settled = 3 * time.Second

// outboxes knows what the agents of a workspace sent. It is asked for single messages in workspaces of any
// size, so it finds their files by name and opens no others.
type outboxes struct {
	workspace *mailbox.Workspace
	root      *os.Root
	// copies are what was read, by message id.
	copies map[schema.ID][]sent
	// others are the files whose names do not tell which message they hold, of each outbox.
	others map[schema.AgentName]*otherFiles
	// round counts the times from which on a folder is to be looked at again; see begin.
	round int
}

// sent is what is known of a message in an outbox.
type sent struct {
	sum [sha256.Size]byte // of the message without its recipients
	to  []schema.AgentName
}

// otherFiles are the files of an outbox that other tools named, as far as they have not been read.
type otherFiles struct {
	round    int       // in which it was listed last
	modified time.Time // of the folder, before it was listed
	listed   time.Time
	known    map[string]bool
	byMinute map[int64][]string // the minute in their name, since 1970
	unnamed  []string           // of no form that we know
}

func openOutboxes(w *mailbox.Workspace) (*outboxes, error) {
	root, err := os.OpenRoot(w.Dir())
	if err != nil {
		return nil, fmt.Errorf("opening workspace: %w", err)
	}
	return &outboxes{
		workspace: w, root: root,
		copies: make(map[schema.ID][]sent), others: make(map[schema.AgentName]*otherFiles), round: 1,
	}, nil
}

// begin says that what other tools put into outboxes from now on is of interest. Within a round each outbox is
// listed once at most: the messages that are delivered in it change the folder again and again, and to list it
// for each of them would cost the square of their number.
func (o *outboxes) begin() { o.round++ }

func (o *outboxes) close() error { return o.root.Close() }

// open opens an agent's outbox; it is nil where there is none.
func (o *outboxes) open(agent schema.AgentName) (*durable.Dir, error) {
	dir, err := durable.OpenDir(o.root, o.workspace.Dir(), outboxName(agent))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return dir, err
}

// outboxName is the path of an outbox below the workspace, for an agent name that was checked.
func outboxName(agent schema.AgentName) string {
	return "agents/" + string(agent) + "/" + string(mailbox.Outbox)
}

// modified returns when entries of an agent's outbox last came or went.
func (o *outboxes) modified(agent schema.AgentName) (time.Time, error) {
	info, err := o.root.Stat(outboxName(agent))
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// isSettled reports whether a folder that was modified then cannot have changed, unseen, since it was listed.
func isSettled(modified, listed time.Time) bool { return listed.Sub(modified) > settled }

// note remembers a message that is in an outbox.
func (o *outboxes) note(m *schema.Message) error {
	sum, err := sumOf(m)
	if err != nil {
		return err
	}
	known := o.copies[m.ID]
	if !slices.ContainsFunc(known, func(c sent) bool { return c.sum == sum && slices.Equal(c.to, m.To) }) {
		o.copies[m.ID] = append(known, sent{sum: sum, to: m.To})
	}
	return nil
}

// sumOf returns a sum of all of a message but its recipients: a workspace that does not know some of them
// has the message without those.
func sumOf(m *schema.Message) ([sha256.Size]byte, error) {
	without := *m
	without.To = nil
	text, err := without.MarshalJSON()
	return sha256.Sum256(text), err
}

// has reports whether the message was sent to the agent, and with taken whether another message, or this one
// to others only, has its id. Of a broadcast, to is empty: then any recipient will do.
func (o *outboxes) has(ctx context.Context, m *schema.Message, to schema.AgentName) (there, taken bool, err error) {
	sum, err := sumOf(m)
	if err != nil {
		return false, false, err
	}
	isIt := func(c sent) bool { return c.sum == sum && (to == "" || slices.Contains(c.to, to)) }
	if slices.ContainsFunc(o.copies[m.ID], isIt) {
		return true, true, nil
	}
	if err := o.find(ctx, m); err != nil {
		return false, false, err
	}
	known := o.copies[m.ID]
	return slices.ContainsFunc(known, isIt), len(known) > 0, nil
}

// recipients returns to whom a message was sent, with the same words and id; nil where it was not.
func (o *outboxes) recipients(ctx context.Context, m *schema.Message) ([]schema.AgentName, error) {
	sum, err := sumOf(m)
	if err != nil {
		return nil, err
	}
	if err := o.find(ctx, m); err != nil {
		return nil, err
	}
	for _, c := range o.copies[m.ID] {
		if c.sum == sum {
			return c.to, nil
		}
	}
	return nil, nil
}

// find reads the files that may hold the message into copies.
func (o *outboxes) find(ctx context.Context, m *schema.Message) (err error) {
	dir, err := o.open(m.From)
	if err != nil || dir == nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	names := []string{m.FileName()}
	if long, err := m.LongFileName(); err == nil {
		names = append(names, long)
	}
	for _, name := range names {
		if err := o.read(dir, name); err != nil {
			return err
		}
	}
	if _, born := originOf(m); born {
		return nil // only a mirror makes these, under their long name
	}
	return o.readOthers(ctx, dir, m)
}

// read notes the message in a file, if there is one.
func (o *outboxes) read(dir *durable.Dir, name string) error {
	data, err := dir.ReadFile(name, schema.MaxFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	m, err := validate.Read(data)
	if err != nil {
		return nil // a file that is no message is not this one
	}
	return o.note(m)
}

// readOthers reads the files of other tools that may hold the message: those named with about its time, and
// those whose names tell nothing.
func (o *outboxes) readOthers(ctx context.Context, dir *durable.Dir, m *schema.Message) error {
	files, err := o.listOthers(dir, m.From)
	if err != nil {
		return err
	}
	names := files.unnamed
	files.unnamed = nil
	minute := m.CreatedAt.Time().Unix() / 60
	for near := minute - 1; near <= minute+1; near++ {
		names = append(names, files.byMinute[near]...)
		delete(files.byMinute, near)
	}
	for _, name := range names {
		if err := errors.Join(context.Cause(ctx), o.read(dir, name)); err != nil {
			delete(o.others, m.From) // what was not read is to be found again
			return err
		}
	}
	return nil
}

// listOthers lists an outbox, unless it did so in this round or nothing came since it did so last.
func (o *outboxes) listOthers(dir *durable.Dir, agent schema.AgentName) (*otherFiles, error) {
	files := o.others[agent]
	if files == nil {
		files = &otherFiles{known: make(map[string]bool), byMinute: make(map[int64][]string)}
		o.others[agent] = files
	}
	if files.round == o.round {
		return files, nil
	}
	modified, err := o.modified(agent)
	if err != nil || modified.Equal(files.modified) && isSettled(modified, files.listed) {
		return files, err
	}
	files.modified, files.listed = modified, time.Now()
	names, err := dir.Names()
	if err != nil {
		return files, err
	}
	for _, name := range names {
		if files.known[name] || !schema.IsMessageFile(name) || isOurs(name) {
			continue
		}
		files.known[name] = true
		if parsed, err := schema.ParseFileName(name); err == nil {
			minute := parsed.At.Unix() / 60
			files.byMinute[minute] = append(files.byMinute[minute], name)
		} else {
			files.unnamed = append(files.unnamed, name)
		}
	}
	files.round = o.round
	return files, nil
}

// isOurs reports whether a file is named as the workspace itself names it, by a time to the minute. Whoever
// asks does so for every file there is, so the name is not taken apart any further.
func isOurs(name string) bool {
	const minute = "20060102T1504Z"
	return len(name) > len(minute) && name[8] == 'T' && name[len(minute)-1] == 'Z' && name[len(minute)] == '_'
}
