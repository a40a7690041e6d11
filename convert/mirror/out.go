package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

// A folder can change without a new modification time, because file systems count time in steps. So an outbox is
// listed again in each pass until its last modification is as old as changing.
const changing = 10 * time.Second

// outbox is what a session knows about an outbox.
type outbox struct {
	// modified is when the folder was last modified. It is zero unless the session has handled every file in it.
	modified time.Time
	// done has the files that were handled.
	done map[fileKey]bool
	// sightings has the files that were not settled.
	sightings map[fileKey]watch.Sighting
}

// A fileKey identifies a version of a file of an outbox. It includes size and time because names are used
// again.
type fileKey struct {
	name     string
	size     int64
	modified int64 // in nanoseconds
}

func keyOf(info fs.FileInfo) fileKey {
	return fileKey{info.Name(), info.Size(), info.ModTime().UnixNano()}
}

// outboxFile is a file that was not handled yet.
type outboxFile struct {
	entry mailbox.Entry
	key   fileKey
	box   *outbox
	// place has only the fields that the order of messages depends on.
	place schema.Message
}

// errChanging reports a file that another program may still be writing.
var errChanging = errors.New("another program is writing the file")

// passOut copies new messages from the outboxes to the log. An outbox that cannot be listed does not stop
// the others.
func (s *session) passOut(ctx context.Context, report *Report) error {
	known, err := hasPlace(ctx, s.Log, s.recorded)
	if err != nil {
		return err
	}
	if !known {
		s.recorded, s.outboxes = "", make(map[schema.AgentName]*outbox)
	}
	s.unsettled = nil
	agents, err := s.Workspace.Agents()
	if err != nil {
		return err
	}
	var found []*outboxFile
	var failed error
	for _, agent := range agents {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		files, err := s.listOutbox(agent)
		found, failed = append(found, files...), errors.Join(failed, err)
	}
	// To keep few messages in memory, files are read twice: here for the order, and again by record.
	found = slices.DeleteFunc(found, func(f *outboxFile) bool {
		m, err := s.read(f)
		if err != nil {
			s.leave(f, err, report)
			return true
		}
		f.place = schema.Message{ID: m.ID, CreatedAt: m.CreatedAt}
		f.place.NoteArrival(time.Unix(0, f.key.modified))
		return false
	})
	slices.SortFunc(found, func(a, b *outboxFile) int {
		return cmp.Or(schema.CompareAge(&a.place, &b.place), cmp.Compare(a.entry.Agent, b.entry.Agent), cmp.Compare(a.entry.Name, b.entry.Name))
	})
	before := report.NotRecorded
	for batch := range slices.Chunk(found, appendBatch) {
		if err := s.record(ctx, batch, report); err != nil {
			return err
		}
	}
	if n := report.NotRecorded - before; n > 0 {
		report.warn("%s is finished, so nobody reads its log any more: %s not recorded, and kept in the mailboxes; "+
			"once another run has begun, oacp mirror --since 2h records what was sent in two hours", s.runName(), spelling.Plural(n, "message"))
	}
	if len(found) > 0 {
		if s.recorded, err = s.Log.End(ctx); err != nil {
			return fmt.Errorf("end of the log: %w", err)
		}
	}
	return failed
}

// listOutbox returns the files of an outbox that were not handled, if it changed.
func (s *session) listOutbox(agent schema.AgentName) (found []*outboxFile, err error) {
	path := schema.BoxPath(agent, mailbox.Outbox)
	info, err := durable.StatFolder(s.Workspace.Root(), s.Workspace.Dir(), path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	known := s.outboxes[agent]
	if known == nil {
		known = &outbox{}
		s.outboxes[agent] = known
	}
	if err != nil || info.ModTime().Equal(known.modified) {
		return nil, err
	}
	dir, err := durable.OpenDir(s.Workspace.Root(), s.Workspace.Dir(), path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	names, err := dir.Names()
	if err != nil {
		return nil, err
	}
	now := s.now()
	box := outbox{modified: info.ModTime(), done: make(map[fileKey]bool), sightings: make(map[fileKey]watch.Sighting)}
	if now.Sub(info.ModTime()) <= changing {
		box.modified = time.Time{}
	}
	for _, name := range names {
		if !schema.IsMessageFile(name) {
			continue
		}
		info, err := dir.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if now.Sub(info.ModTime()) < changing {
			box.modified = time.Time{}
		}
		f := &outboxFile{entry: mailbox.Entry{Agent: agent, Box: mailbox.Outbox, Name: name}, key: keyOf(info), box: known}
		sighting := known.sightings[f.key].Seen(info, now)
		switch {
		case known.done[f.key]:
			box.done[f.key] = true
		case sighting.Settled(now):
			found = append(found, f)
		default:
			box.modified, box.sightings[f.key] = time.Time{}, sighting
			s.unsettled = append(s.unsettled, dir.Path(name))
		}
	}
	if len(found) > 0 {
		box.modified = time.Time{}
	}
	*known = box
	return found, nil
}

// read returns the message in a file, or errChanging if the file has changed since it was listed.
func (s *session) read(f *outboxFile) (*schema.Message, error) {
	m, data, err := s.Workspace.Read(f.entry)
	for i := 0; err == nil && i < len(m.To); i++ { // a message that its recipients could not read is not recorded
		_, err = s.Workspace.Decoder(m.To[i], mailbox.Inbox)(mailbox.Entry{Name: f.entry.Name}, data)
	}
	info, statErr := s.Workspace.Root().Lstat(schema.BoxPath(f.entry.Agent, f.entry.Box) + "/" + f.entry.Name)
	switch {
	case statErr != nil:
		return nil, statErr
	case keyOf(info) != f.key:
		return nil, errChanging
	}
	return m, err
}

func (s *session) record(ctx context.Context, files []*outboxFile, report *Report) error {
	var messages []*schema.Message
	var done []*outboxFile
	for _, f := range files {
		m, err := s.read(f)
		if err != nil {
			s.leave(f, err, report)
			continue
		}
		done = append(done, f)
		messages = append(messages, m)
	}
	ended, _, _ := bridge.RunState(s.Log.Path()) // a manifest that cannot be read is an error in open, unless Since is given
	a := appender{log: s.Log, report: report, since: s.Since, earlier: s.earlier, ended: ended}
	if err := a.append(ctx, messages); err != nil {
		return err
	}
	for _, f := range done {
		f.box.done[f.key] = true
	}
	return nil
}

// runName names the run of the log.
func (s *session) runName() string {
	if id := bridge.RunNumber(s.Log.Path()); id > 0 {
		return fmt.Sprintf("run %d", id)
	}
	return "the run of " + s.Log.Path()
}

// leave leaves a file for another pass.
func (s *session) leave(f *outboxFile, reason error, report *Report) {
	path := filepath.Join(s.Workspace.BoxPath(f.entry.Agent, f.entry.Box), f.entry.Name)
	reported := fmt.Sprint(path, f.key)
	switch {
	case errors.Is(reason, fs.ErrNotExist):
	case errors.Is(reason, errChanging):
		s.unsettled = append(s.unsettled, path)
	case !s.reported[reported]:
		s.reported[reported] = true
		report.warn("%s: left out: %v", path, reason)
	}
}
