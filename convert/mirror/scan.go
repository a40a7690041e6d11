package mirror

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"strings"
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
	// memoryBudget bounds the bytes of message files that are held at once; those beyond are read twice.
	memoryBudget = 64 << 20
	// changing is how long an outbox is listed again after it, or a file in it, was modified: file systems count
	// time in steps, and a program may write a file slowly.
	changing = 10 * time.Second
)

// outboxFile is a file that was not dealt with.
type outboxFile struct {
	agent    schema.AgentName
	name     string
	key      copyKey
	sighting watch.Sighting

	created schema.Timestamp
	id      schema.ID
	message *schema.Message // nil if it is not held in memory
	err     error
}

// compareFiles orders files as their messages were made. Within a second, the times of the files decide.
func compareFiles(a, b *outboxFile) int {
	return cmp.Or(
		strings.Compare(string(a.created), string(b.created)), a.sighting.Modified.Compare(b.sighting.Modified),
		strings.Compare(string(a.id), string(b.id)), strings.Compare(string(a.agent), string(b.agent)),
		strings.Compare(a.name, b.name),
	)
}

// scan is what a look at the outboxes found.
type scan struct {
	dirs map[schema.AgentName]*durable.Dir
	// found are the files to be recorded, and unsettled those that another program may still be writing.
	found, unsettled []*outboxFile
	// modified are the outboxes that need not be listed again if all goes well, with their times.
	modified map[schema.AgentName]time.Time
	// again are the agents whose outboxes must be listed again, by this process or the next one.
	again map[schema.AgentName]bool
	// failed are the errors of outboxes that could not be listed.
	failed error
}

func (s *scan) close() (err error) {
	for _, dir := range s.dirs {
		err = errors.Join(err, dir.Close())
	}
	return err
}

// list adds the files of the outboxes that changed. An outbox that cannot be listed does not stop the others.
func (o *outward) list(ctx context.Context, s *scan) error {
	agents, err := o.workspace.Agents()
	if err != nil {
		return err
	}
	for _, agent := range agents {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		s.failed = errors.Join(s.failed, o.listOutbox(ctx, s, agent))
	}
	return nil
}

func (o *outward) listOutbox(ctx context.Context, s *scan, agent schema.AgentName) error {
	box := mailbox.BoxName(agent, mailbox.Outbox)
	info, err := o.workspace.Root().Stat(box)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.ModTime().Equal(o.seen.Outboxes[agent]) {
		return err
	}
	delete(o.seen.Outboxes, agent)
	listed := o.now()
	dir, err := durable.OpenDir(o.workspace.Root(), o.workspace.Dir(), box)
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
		if err := o.look(ctx, s, agent, name); err != nil {
			return err
		}
	}
	if listed.Sub(info.ModTime()) > changing {
		s.modified[agent] = info.ModTime()
	}
	return nil
}

// look adds a file of an outbox, unless it was dealt with.
func (o *outward) look(ctx context.Context, s *scan, agent schema.AgentName, name string) error {
	info, err := s.dirs[agent].Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ledger, err := o.needLedger(ctx)
	if err != nil {
		return err
	}
	now := o.now()
	if now.Sub(info.ModTime()) < changing {
		s.again[agent] = true
	}
	f := &outboxFile{agent: agent, name: name, key: keyOf(agent, name, info)}
	switch {
	case ledger.has(f.key, o.bound):
		return nil
	case o.only != nil && o.passedOver[f.key]:
		s.again[agent] = true
		return nil
	}
	f.sighting = o.sightings[f.key].Seen(info, now)
	if watch.Settled(o.workspace, mailbox.Entry{Agent: agent, Box: mailbox.Outbox, Name: name}, f.sighting, now) {
		s.found = append(s.found, f)
	} else {
		s.unsettled = append(s.unsettled, f)
	}
	return nil
}

// read reads the files that were found, on all cores, and puts them in order.
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
				f.created, f.id = f.message.CreatedAt, f.message.ID
				if held.Add(f.sighting.Size) > memoryBudget {
					f.message = nil
				}
			}
			return context.Cause(ctx)
		})
	}
	err := group.Wait()
	slices.SortFunc(s.found, compareFiles)
	return err
}

// errChanging reports a file that changed while it was read.
var errChanging = errors.New("another program is writing the file")

// load reads a file, if it is as it was found.
func (s *scan) load(f *outboxFile) {
	dir := s.dirs[f.agent]
	f.message = nil
	data, err := dir.ReadFile(f.name, schema.MaxFileSize)
	var m *schema.Message
	if err == nil {
		m, err = validate.Read(data)
	}
	info, statErr := dir.Lstat(f.name)
	switch {
	case statErr != nil:
		err = statErr
	case keyOf(f.agent, f.name, info) != f.key:
		err = errChanging
	}
	if f.err = err; err == nil {
		f.message = m
	}
}
