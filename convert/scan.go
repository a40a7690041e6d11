package convert

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// memoryBudget bounds the bytes of message files that are held at once; those beyond are read twice.
const memoryBudget = 64 << 20

// changes are the outbox files that are known to have changed.
type changes struct {
	names map[schema.AgentName]map[string]bool
}

func newChanges() *changes { return &changes{names: make(map[schema.AgentName]map[string]bool)} }

func (c *changes) add(agent schema.AgentName, name string) {
	if c.names[agent] == nil {
		c.names[agent] = make(map[string]bool)
	}
	c.names[agent][name] = true
}

// outboxFile is a file that has not been recorded.
type outboxFile struct {
	agent schema.AgentName
	name  string
	stamp stamp // when it was found
	key   fileKey

	created schema.Timestamp
	id      schema.ID
	message *schema.Message // nil where it is not held in memory
	err     error
}

// compareFiles orders files as their messages were made. Within a second, the files tell who was first.
func compareFiles(a, b *outboxFile) int {
	return cmp.Or(
		strings.Compare(string(a.created), string(b.created)), cmp.Compare(a.stamp.modified, b.stamp.modified),
		strings.Compare(string(a.id), string(b.id)), strings.Compare(string(a.agent), string(b.agent)), strings.Compare(a.name, b.name),
	)
}

// scan is what looking at the outboxes found.
type scan struct {
	dirs map[schema.AgentName]*durable.Dir
	// found are the files that were found and not read yet, and files those that were read.
	found, files []*outboxFile
	// young are the files that somebody may still be writing.
	young []*outboxFile
	// present are the keys of all files, if every outbox was listed.
	present map[fileKey]bool
	// modified are the folders of which everything will have been recorded, with their times.
	modified map[schema.AgentName]time.Time
	// again are the agents whose outboxes have to be listed again, by this process or the next one.
	again map[schema.AgentName]bool
	// failed are the outboxes that could not be listed.
	failed error
}

// look lists the outboxes that changed. One that cannot be listed does not keep the others back.
func (o *outward) look(ctx context.Context, s *scan) error {
	agents, err := o.workspace.Agents()
	if err != nil {
		return err
	}
	for _, agent := range agents {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := o.list(ctx, s, agent); err != nil {
			s.present = nil
			s.failed = errors.Join(s.failed, err)
		}
	}
	return nil
}

// list lists an outbox if it changed.
func (o *outward) list(ctx context.Context, s *scan, agent schema.AgentName) error {
	modified, err := o.outboxes.modified(agent)
	if err != nil || modified.IsZero() {
		return err
	}
	if modified.Equal(o.state.Outboxes[agent]) {
		s.present = nil
		return nil
	}
	if err := o.needJournal(ctx); err != nil {
		return err
	}
	delete(o.state.Outboxes, agent)
	listed := time.Now()
	dir, err := o.open(s, agent)
	if err != nil || dir == nil {
		return err
	}
	names, err := dir.Names()
	if err != nil {
		return err
	}
	if err := o.add(s, agent, names); err != nil {
		return err
	}
	if isSettled(modified, listed) {
		s.modified[agent] = modified
	}
	return nil
}

// lookAt takes the named files.
func (o *outward) lookAt(ctx context.Context, s *scan, named *changes) error {
	s.present = nil
	if len(named.names) == 0 {
		return nil
	}
	if err := o.needJournal(ctx); err != nil {
		return err
	}
	s.failed = errors.Join(s.failed, o.addNamed(s, named))
	return nil
}

// addNamed puts the named files into the scan, as far as they have not been recorded.
func (o *outward) addNamed(s *scan, named *changes) error {
	var failed error
	for _, agent := range slices.Sorted(maps.Keys(named.names)) {
		failed = errors.Join(failed, o.add(s, agent, slices.Sorted(maps.Keys(named.names[agent]))))
	}
	return failed
}

func (o *outward) open(s *scan, agent schema.AgentName) (*durable.Dir, error) {
	if dir, ok := s.dirs[agent]; ok {
		return dir, nil
	}
	dir, err := o.outboxes.open(agent)
	if err == nil && dir != nil {
		s.dirs[agent] = dir
	}
	return dir, err
}

// add puts the files of an outbox that have not been recorded into the scan. The same name may be another
// message's by now, so each file is looked at.
func (o *outward) add(s *scan, agent schema.AgentName, names []string) error {
	dir, err := o.open(s, agent)
	if err != nil || dir == nil {
		return err
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
			return err
		}
		f := &outboxFile{agent: agent, name: name, stamp: stampOf(info)}
		f.key = keyOf(agent, name, f.stamp)
		if s.present != nil {
			s.present[f.key] = true
		}
		if !wasMoved(f) && o.young.age(f) < slowWriting {
			s.again[agent] = true
		}
		if listed, done := o.isDone(f.key); done {
			if s.present != nil {
				s.present[listed] = true
			}
			continue
		}
		if o.only != nil && o.passedOver[f.key] {
			s.again[agent] = true
			continue
		}
		if o.young.isYoung(f) {
			s.young = append(s.young, f)
		} else {
			s.found = append(s.found, f)
		}
	}
	return nil
}

// read reads the files that were found, on all cores.
func (o *outward) read(ctx context.Context, s *scan) error {
	var held, next atomic.Int64
	for _, f := range s.files {
		if f.message != nil {
			held.Add(f.stamp.size)
		}
	}
	var group errgroup.Group
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(s.found) {
					return nil
				}
				if err := context.Cause(ctx); err != nil {
					return err
				}
				f := s.found[n]
				if s.load(f); f.message == nil {
					continue
				}
				f.created, f.id = f.message.CreatedAt, f.message.ID
				if held.Add(f.stamp.size) > memoryBudget {
					f.message = nil
				}
			}
		})
	}
	err := group.Wait()
	for _, f := range s.found {
		if errors.Is(f.err, errChanging) {
			s.young = append(s.young, f)
		} else {
			s.files = append(s.files, f)
		}
	}
	s.found = nil
	return err
}

// errChanging says that a file changed while it was read.
var errChanging = errors.New("somebody is writing the file")

// load reads a file that is still the one that was found.
func (s *scan) load(f *outboxFile) {
	dir := s.dirs[f.agent]
	f.message = nil
	data, err := dir.ReadFile(f.name, schema.MaxFileSize)
	var m *schema.Message
	if err == nil {
		m, err = validate.Read(data)
	}
	info, changed := dir.Lstat(f.name)
	switch {
	case changed != nil:
		err = changed
	case stampOf(info) != f.stamp:
		err = errChanging
	}
	if f.err = err; err == nil {
		f.message = m
	}
}

// settle puts the files in order and reports those that are no messages, and those that were waited for in vain.
// Somebody may still be writing them, so their outboxes will be looked at again.
func (o *outward) settle(s *scan, report *Report) {
	slices.SortFunc(s.files, compareFiles)
	s.files = slices.DeleteFunc(s.files, func(f *outboxFile) bool {
		if f.err != nil && !errors.Is(f.err, fs.ErrNotExist) {
			o.leave(s, f, f.err, report)
		}
		return f.err != nil
	})
	for _, f := range s.young {
		s.again[f.agent] = true
		if o.patience > 0 {
			o.leave(s, f, errChanging, report)
		}
	}
}

// leave leaves a file for another time, and names it once.
func (o *outward) leave(s *scan, f *outboxFile, reason error, report *Report) {
	s.again[f.agent] = true
	if !o.reported[f.key] {
		o.reported[f.key] = true
		report.warn("%s: left out: %v", s.dirs[f.agent].Path(f.name), reason)
	}
}
