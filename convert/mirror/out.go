package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

const (
	// memoryBudget bounds the bytes of message files that are held at once; those beyond are read
	// twice.
	memoryBudget = 64 << 20
	// changing is how long an outbox is listed again after it, or a file in it, was modified: file
	// systems count time in steps, and a program may write a file slowly.
	changing = 10 * time.Second
)

// outboxFile is a file that was not dealt with.
type outboxFile struct {
	agent    schema.AgentName
	name     string
	key      copyKey
	sighting watch.Sighting

	place   schema.Message  // what the order depends on
	message *schema.Message // nil if it is not held in memory
	err     error
}

// scan is one look at the outboxes.
type scan struct {
	*session
	report *Report
	dirs   map[schema.AgentName]*durable.Dir
	// found are the files to be recorded.
	found []*outboxFile
	// before are the sightings of the pass before.
	before map[copyKey]watch.Sighting
	// modified are the outboxes that need not be listed again if all goes well, with their times.
	modified map[schema.AgentName]time.Time
	// again are the agents whose outboxes must be listed again, by this process or the next one.
	again map[schema.AgentName]bool
	// failed are the errors of outboxes that could not be listed.
	failed error
}

func (s *session) newScan(report *Report) *scan {
	before := s.sightings
	s.unsettled, s.sightings = nil, make(map[copyKey]watch.Sighting)
	return &scan{
		session: s, report: report, dirs: make(map[schema.AgentName]*durable.Dir), before: before,
		modified: make(map[schema.AgentName]time.Time), again: make(map[schema.AgentName]bool),
	}
}

// passOut copies new messages from the outboxes to the log.
func (s *session) passOut(ctx context.Context, report *Report, count *progress) (err error) {
	if err := s.check(ctx); err != nil {
		return err
	}
	scan := s.newScan(report)
	defer func() {
		for _, dir := range scan.dirs {
			err = errors.Join(err, dir.Close())
		}
	}()
	if err := scan.list(ctx); err != nil {
		return err
	}
	if err := scan.read(ctx); err != nil {
		return err
	}
	count.add(0, len(scan.found))
	for batch := range slices.Chunk(scan.found, appendBatch) {
		if err := scan.record(ctx, batch); err != nil {
			return err
		}
		count.add(len(batch), 0)
	}
	return errors.Join(scan.finish(ctx), scan.failed)
}

// check forgets what was seen if it is not about this log.
func (s *session) check(ctx context.Context) error {
	known, err := hasPlace(ctx, s.Log, s.out.Recorded)
	if err != nil {
		return err
	}
	if !known || s.out.Recorded == "" || s.out.Outboxes == nil {
		s.out.Outboxes = make(map[schema.AgentName]time.Time)
	}
	if !known {
		s.out.Recorded = ""
		if s.ledger != nil {
			return s.ledger.forgetCopies()
		}
	}
	return nil
}

// needLedger returns the ledger, which it reads the first time.
func (s *session) needLedger(ctx context.Context) (*ledger, error) {
	if s.ledger == nil {
		l, err := loadLedger(ctx, s.Workspace, s.Log)
		if err != nil {
			return nil, err
		}
		if s.afresh {
			clear(l.copies)
		}
		s.ledger = l
	}
	return s.ledger, nil
}

// list finds the files of the outboxes that changed. An outbox that cannot be listed does not stop
// the others.
func (s *scan) list(ctx context.Context) error {
	agents, err := s.Workspace.Agents()
	if err != nil {
		return err
	}
	for _, agent := range agents {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		s.failed = errors.Join(s.failed, s.listOutbox(ctx, agent))
	}
	return nil
}

func (s *scan) listOutbox(ctx context.Context, agent schema.AgentName) error {
	box := schema.BoxPath(agent, mailbox.Outbox)
	info, err := durable.StatFolder(s.Workspace.Root(), s.Workspace.Dir(), box)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.ModTime().Equal(s.out.Outboxes[agent]) {
		return err
	}
	delete(s.out.Outboxes, agent)
	listed := s.now()
	dir, err := durable.OpenDir(s.Workspace.Root(), s.Workspace.Dir(), box)
	if err != nil {
		return err
	}
	s.dirs[agent] = dir
	names, err := dir.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !schema.IsMessageFile(name) {
			continue
		}
		if err := s.look(ctx, agent, name); err != nil {
			return err
		}
	}
	if listed.Sub(info.ModTime()) > changing {
		s.modified[agent] = info.ModTime()
	}
	return nil
}

// look adds a file of an outbox to those found, unless it was dealt with.
func (s *scan) look(ctx context.Context, agent schema.AgentName, name string) error {
	info, err := s.dirs[agent].Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ledger, err := s.needLedger(ctx)
	if err != nil {
		return err
	}
	now := s.now()
	if now.Sub(info.ModTime()) < changing {
		s.again[agent] = true
	}
	f := &outboxFile{agent: agent, name: name, key: keyOf(agent, name, info)}
	if ledger.copies[f.key] || ledger.copies[f.key.under(s.bound)] {
		return nil
	}
	if s.Only != nil && s.passedOver[f.key] {
		s.again[agent] = true
		return nil
	}
	f.sighting = s.before[f.key].Seen(info, now)
	if watch.Settled(s.Workspace, mailbox.Entry{Agent: agent, Box: mailbox.Outbox, Name: name}, f.sighting, now) {
		s.found = append(s.found, f)
	} else {
		s.leave(f, errChanging)
	}
	return nil
}

// read reads the files that were found, on all cores, and puts them in the order in which their
// messages were made.
func (s *scan) read(ctx context.Context) error {
	var held atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for files := range slices.Chunk(s.found, 64) {
		group.Go(func() error {
			for _, f := range files {
				if s.load(f); f.err != nil {
					continue
				}
				f.place = schema.Message{ID: f.message.ID, CreatedAt: f.message.CreatedAt}
				if held.Add(f.sighting.Size) > memoryBudget {
					f.message = nil
				}
			}
			return context.Cause(ctx)
		})
	}
	err := group.Wait()
	slices.SortFunc(s.found, func(a, b *outboxFile) int {
		return cmp.Or(schema.CompareAge(&a.place, &b.place), cmp.Compare(a.agent, b.agent), cmp.Compare(a.name, b.name))
	})
	return err
}

// errChanging reports a file that another program may still be writing.
var errChanging = errors.New("another program is writing the file")

// load reads a file, if it is as it was found.
func (s *scan) load(f *outboxFile) {
	dir := s.dirs[f.agent]
	data, err := dir.ReadFile(f.name, schema.MaxFileSize)
	if err == nil {
		f.message, err = validate.Read(data)
	}
	for i := 0; err == nil && i < len(f.message.To); i++ { // the same agents read the log
		_, err = s.Workspace.Decode(mailbox.Entry{Agent: f.message.To[i], Box: mailbox.Inbox, Name: f.name}, data)
	}
	if info, statErr := dir.Lstat(f.name); statErr != nil {
		err = statErr
	} else if keyOf(f.agent, f.name, info) != f.key {
		err = errChanging
	}
	f.err = err
}

// record appends the messages of files to the log and then writes them down in the ledger.
func (s *scan) record(ctx context.Context, files []*outboxFile) error {
	messages := make([]*schema.Message, 0, len(files))
	lines := make([]ledgerLine, 0, len(files))
	for _, f := range files {
		if f.message == nil && f.err == nil {
			s.load(f)
		}
		m := f.message
		f.message = nil
		if f.err != nil {
			s.leave(f, f.err)
			continue
		}
		if s.Only != nil && !s.Only(m) {
			s.passedOver[f.key], s.again[f.agent] = true, true
			continue
		}
		identity, err := identityOf(m)
		if err != nil {
			return err
		}
		messages, lines = append(messages, m), append(lines, ledgerLine{f.key, identity})
	}
	if len(messages) == 0 {
		return nil
	}
	a := appender{log: s.Log, report: s.report, since: s.since, ownOnly: !s.All}
	if err := a.append(ctx, messages); err != nil {
		return err
	}
	for i, m := range messages {
		if a.leftOut[m] {
			lines[i].key = lines[i].key.under(s.bound)
		}
	}
	place, err := s.Log.End(ctx)
	if err != nil {
		return err
	}
	return s.ledger.add(lines, place)
}

// leave leaves a file for another pass.
func (s *scan) leave(f *outboxFile, reason error) {
	s.again[f.agent] = true
	path := s.dirs[f.agent].Path(f.name)
	switch {
	case errors.Is(reason, fs.ErrNotExist):
	case errors.Is(reason, errChanging):
		s.unsettled = append(s.unsettled, path)
		s.sightings[f.key] = f.sighting
	case !s.reported[f.key]:
		s.reported[f.key] = true
		s.report.warn("%s: left out: %v", path, reason)
	}
}

// finish saves that everything that was found is dealt with.
func (s *scan) finish(ctx context.Context) error {
	maps.DeleteFunc(s.modified, func(agent schema.AgentName, _ time.Time) bool { return s.again[agent] })
	if len(s.found) == 0 && len(s.modified) == 0 {
		return nil
	}
	place, err := s.Log.End(ctx)
	if err != nil {
		return fmt.Errorf("end of the log: %w", err)
	}
	s.out.Recorded = place
	maps.Copy(s.out.Outboxes, s.modified)
	return s.out.save(s.Workspace, s.Log, Out)
}
