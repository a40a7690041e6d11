package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// listing is an outbox that changed.
type listing struct {
	agent schema.AgentName
	dir   *durable.Dir
	seen  outbox // the state of the outbox after the pass
	// again is set if the outbox must be listed again, by this process or the next one.
	again bool
}

// outboxFile is a file that was not dealt with.
type outboxFile struct {
	*listing
	name     string
	key      fileKey
	sighting watch.Sighting

	place   schema.Message  // what the order depends on
	message *schema.Message // nil if it is not held in memory
	err     error
}

// scan is one look at the outboxes.
type scan struct {
	*session
	report   *Report
	listings []*listing
	// found are the files to be recorded.
	found []*outboxFile
	// before are the sightings of the pass before.
	before map[fileKey]watch.Sighting
	// failed are the errors of outboxes that could not be listed.
	failed error
}

func (s *session) newScan(report *Report) *scan {
	before := s.sightings
	s.unsettled, s.sightings = nil, make(map[fileKey]watch.Sighting)
	return &scan{session: s, report: report, before: before}
}

// passOut copies new messages from the outboxes to the log.
func (s *session) passOut(ctx context.Context, report *Report) (err error) {
	known, err := hasPlace(ctx, s.Log, s.out.Recorded)
	if err != nil {
		return err
	}
	if !known || s.out.Outboxes == nil {
		s.out.Recorded, s.out.Outboxes = "", make(map[schema.AgentName]outbox)
	}
	scan := s.newScan(report)
	defer func() {
		for _, l := range scan.listings {
			err = errors.Join(err, l.dir.Close())
		}
	}()
	if err := scan.list(ctx); err != nil {
		return err
	}
	if err := scan.read(ctx); err != nil {
		return err
	}
	for batch := range slices.Chunk(scan.found, appendBatch) {
		if err := scan.record(ctx, batch); err != nil {
			return err
		}
	}
	return errors.Join(scan.finish(ctx), scan.failed)
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
	known := s.out.Outboxes[agent]
	if err != nil || info.ModTime().Equal(known.Modified) {
		return err
	}
	now := s.now()
	dir, err := durable.OpenDir(s.Workspace.Root(), s.Workspace.Dir(), box)
	if err != nil {
		return err
	}
	l := &listing{agent: agent, dir: dir, seen: outbox{Modified: info.ModTime()}, again: now.Sub(info.ModTime()) <= changing}
	s.listings = append(s.listings, l)
	names, err := dir.Names()
	for _, name := range names {
		if err == nil && schema.IsMessageFile(name) {
			err = cmp.Or(context.Cause(ctx), s.look(l, known, name))
		}
	}
	l.again = l.again || err != nil
	return err
}

// look adds a file of an outbox to those found, unless it was dealt with.
func (s *scan) look(l *listing, known outbox, name string) error {
	info, err := l.dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	now := s.now()
	l.again = l.again || now.Sub(info.ModTime()) < changing
	f := &outboxFile{listing: l, name: name, key: keyOf(l.agent, name, info)}
	if _, done := slices.BinarySearch(known.files, f.key); done {
		l.seen.files = append(l.seen.files, f.key)
		return nil
	}
	f.sighting = s.before[f.key].Seen(info, now)
	if f.sighting.Settled(now) {
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
	data, err := f.dir.ReadFile(f.name, schema.MaxFileSize)
	if err == nil {
		f.message, err = validate.Read(data)
	}
	for i := 0; err == nil && i < len(f.message.To); i++ { // the same agents read the log
		_, err = s.Workspace.Decode(mailbox.Entry{Agent: f.message.To[i], Box: mailbox.Inbox, Name: f.name}, data)
	}
	if info, statErr := f.dir.Lstat(f.name); statErr != nil {
		err = statErr
	} else if keyOf(f.agent, f.name, info) != f.key {
		err = errChanging
	}
	f.err = err
}

// record appends the messages of files to the log.
func (s *scan) record(ctx context.Context, files []*outboxFile) error {
	var messages []*schema.Message
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
		f.seen.files = append(f.seen.files, f.key)
		if s.Only == nil || s.Only(m) {
			messages = append(messages, m)
		}
	}
	a := appender{log: s.Log, report: s.report, since: s.since, ownOnly: !s.All}
	return a.append(ctx, messages)
}

// leave leaves a file for another pass.
func (s *scan) leave(f *outboxFile, reason error) {
	f.again = true
	path := f.dir.Path(f.name)
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

// finish notes that everything that was found is dealt with. It saves that for the next process, unless
// this one was asked for more messages or fewer than belong in the log.
func (s *scan) finish(ctx context.Context) error {
	changed := len(s.found) > 0
	for _, l := range s.listings {
		if l.again {
			l.seen.Modified = time.Time{}
		}
		changed = changed || !l.again
		slices.Sort(l.seen.files)
		l.seen.Files = len(l.seen.files)
		s.out.Outboxes[l.agent] = l.seen
	}
	if !changed {
		return nil
	}
	var err error
	if s.out.Recorded, err = s.Log.End(ctx); err != nil {
		return fmt.Errorf("end of the log: %w", err)
	}
	if s.afresh || s.Only != nil {
		return nil
	}
	return s.out.save(s.Workspace, s.Log, Out)
}
