package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// memoryBudget bounds the bytes of message files that are held at once; those beyond are read twice.
const memoryBudget = 64 << 20

// outward carries what is new in the outboxes into a log.
type outward struct {
	workspace *mailbox.Workspace
	log       *bridge.Log
	outboxes  *outboxes

	loaded  bool
	state   outwardState
	journal *journal // loaded when the first outbox turns out to have changed
	// reported are the files that were reported as bad.
	reported map[fileKey]bool
}

// changes are the outbox files that are known to have changed.
type changes struct {
	names map[schema.AgentName]map[string]bool
}

// outboxFile is a file that has not been recorded.
type outboxFile struct {
	agent    schema.AgentName
	name     string
	key      fileKey
	size     int64
	modified time.Time

	created schema.Timestamp
	id      schema.ID
	message *schema.Message // nil where it is not held in memory
	err     error
}

// compareFiles orders files as their messages were made. Within a second, the files tell who was first.
func compareFiles(a, b *outboxFile) int {
	return cmp.Or(
		strings.Compare(string(a.created), string(b.created)), a.modified.Compare(b.modified),
		strings.Compare(string(a.id), string(b.id)), strings.Compare(string(a.agent), string(b.agent)), strings.Compare(a.name, b.name),
	)
}

// scan is what looking at the outboxes found.
type scan struct {
	dirs  map[schema.AgentName]*durable.Dir
	files []*outboxFile
	// present are the keys of all files, if every outbox was listed.
	present map[fileKey]bool
	// modified are the folders of which everything will have been recorded, with their times.
	modified map[schema.AgentName]time.Time
}

func (o *outward) pass(ctx context.Context, named *changes, report *Report, count *progress) (err error) {
	if err := o.load(ctx); err != nil {
		return err
	}
	s := &scan{dirs: make(map[schema.AgentName]*durable.Dir), present: make(map[fileKey]bool), modified: make(map[schema.AgentName]time.Time)}
	defer func() {
		for _, dir := range s.dirs {
			err = errors.Join(err, dir.Close())
		}
	}()
	if named != nil {
		err = o.lookAt(ctx, s, named)
	} else {
		err = o.look(ctx, s)
	}
	if err != nil {
		return err
	}
	if err := o.read(ctx, s); err != nil {
		return err
	}
	o.settle(s, report)
	count.expect(len(s.files))
	for start := 0; start < len(s.files); start += appendBatch {
		batch := s.files[start:min(start+appendBatch, len(s.files))]
		if err := o.record(ctx, s, batch, report); err != nil {
			return err
		}
		count.add(len(batch))
	}
	return o.finish(ctx, s, report)
}

// load reads what is remembered, and forgets it if it is not about this log.
func (o *outward) load(ctx context.Context) error {
	if !o.loaded {
		o.state = loadState[outwardState](o.statePath())
		o.state.Log, o.loaded = o.log.Path(), true
	}
	if o.state.Outboxes == nil {
		o.state.Outboxes = make(map[schema.AgentName]time.Time)
	}
	known, err := hasPlace(ctx, o.log, o.state.Recorded)
	if err != nil || known && o.state.Recorded != "" {
		return err
	}
	clear(o.state.Outboxes)
	if known {
		return nil
	}
	o.state.Recorded = ""
	if err := o.needJournal(ctx); err != nil {
		return err
	}
	return o.journal.reset()
}

func (o *outward) statePath() string { return statePath(o.workspace, o.log, Out) }

func (o *outward) needJournal(ctx context.Context) (err error) {
	if o.journal == nil {
		o.journal, err = loadJournal(ctx, o.statePath(), o.log)
	}
	return err
}

// look lists the outboxes that changed.
func (o *outward) look(ctx context.Context, s *scan) error {
	agents, err := o.workspace.Agents()
	if err != nil {
		return err
	}
	for _, agent := range agents {
		modified, err := o.outboxes.modified(agent)
		if err != nil {
			return err
		}
		if modified.IsZero() {
			continue
		}
		if modified.Equal(o.state.Outboxes[agent]) {
			s.present = nil
			continue
		}
		delete(o.state.Outboxes, agent)
		listed := time.Now()
		names, err := o.names(s, agent)
		if err != nil {
			return err
		}
		if err := o.add(ctx, s, agent, names); err != nil {
			return err
		}
		if isSettled(modified, listed) {
			s.modified[agent] = modified
		}
	}
	return nil
}

// lookAt takes the named files.
func (o *outward) lookAt(ctx context.Context, s *scan, named *changes) error {
	s.present = nil
	for _, agent := range slices.Sorted(maps.Keys(named.names)) {
		if err := o.add(ctx, s, agent, slices.Sorted(maps.Keys(named.names[agent]))); err != nil {
			return err
		}
	}
	return nil
}

func (o *outward) names(s *scan, agent schema.AgentName) ([]string, error) {
	dir, err := o.open(s, agent)
	if err != nil || dir == nil {
		return nil, err
	}
	return dir.Names()
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

// add puts the files of an outbox that have not been recorded into the scan.
func (o *outward) add(ctx context.Context, s *scan, agent schema.AgentName, names []string) error {
	if err := o.needJournal(ctx); err != nil {
		return err
	}
	dir, err := o.open(s, agent)
	if err != nil || dir == nil {
		return err
	}
	for _, name := range names {
		if !schema.IsMessageFile(name) {
			continue
		}
		f := &outboxFile{agent: agent, name: name, key: keyOf(agent, name, nil)}
		if !isOurs(name) || !o.journal.keys[f.key] {
			if gone, err := f.stat(dir); gone || err != nil {
				if err != nil {
					return err
				}
				continue
			}
		}
		if s.present != nil {
			s.present[f.key] = true
		}
		if !o.journal.keys[f.key] {
			s.files = append(s.files, f)
		}
	}
	return nil
}

// stat looks at the file. Files of our names are put in place without replacing any and stay as they are;
// for other tools' files the name alone does not say that they are the same as before.
func (f *outboxFile) stat(dir *durable.Dir) (gone bool, err error) {
	info, err := dir.Lstat(f.name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	f.size, f.modified = info.Size(), info.ModTime()
	if !isOurs(f.name) {
		f.key = keyOf(f.agent, f.name, info)
	}
	return false, nil
}

// read reads the files, on all cores.
func (o *outward) read(ctx context.Context, s *scan) error {
	var held, next atomic.Int64
	var group errgroup.Group
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(s.files) {
					return nil
				}
				if err := context.Cause(ctx); err != nil {
					return err
				}
				f := s.files[n]
				if s.load(f); f.message == nil {
					continue
				}
				f.created, f.id = f.message.CreatedAt, f.message.ID
				if held.Add(f.size) > memoryBudget {
					f.message = nil
				}
			}
		})
	}
	return group.Wait()
}

func (s *scan) load(f *outboxFile) {
	data, err := s.dirs[f.agent].ReadFile(f.name, schema.MaxFileSize)
	if err == nil {
		f.message, err = validate.Read(data)
	}
	f.err = err
}

// settle puts the files in order and reports those that are no messages. Somebody may still be writing
// them, so their outboxes will be looked at again.
func (o *outward) settle(s *scan, report *Report) {
	slices.SortFunc(s.files, compareFiles)
	s.files = slices.DeleteFunc(s.files, func(f *outboxFile) bool {
		if f.err != nil && !errors.Is(f.err, fs.ErrNotExist) {
			if !o.reported[f.key] {
				o.reported[f.key] = true
				report.warn("%s: left out: %v", s.dirs[f.agent].Path(f.name), f.err)
			}
			delete(s.modified, f.agent)
		}
		return f.err != nil
	})
}

// record appends the messages of files to the log and then lists the files.
func (o *outward) record(ctx context.Context, s *scan, files []*outboxFile, report *Report) error {
	messages := make([]*schema.Message, 0, len(files))
	keys := make([]fileKey, 0, len(files))
	for _, f := range files {
		if f.message == nil {
			s.load(f)
		}
		if f.err != nil { // it was there a moment ago
			delete(s.modified, f.agent)
			continue
		}
		if err := o.outboxes.note(f.message); err != nil {
			return err
		}
		messages, keys = append(messages, f.message), append(keys, f.key)
		f.message = nil
	}
	a := appender{log: o.log, report: report}
	if err := a.append(ctx, messages); err != nil {
		return err
	}
	place, err := o.log.End(ctx)
	if err != nil {
		return err
	}
	if err := o.journal.add(keys, place); err != nil {
		stateWarning(report, err)
	}
	return nil
}

// finish remembers that all that was found is recorded.
func (o *outward) finish(ctx context.Context, s *scan, report *Report) error {
	if len(s.files) == 0 && len(s.modified) == 0 {
		return nil
	}
	place, err := o.log.End(ctx)
	if err != nil {
		return fmt.Errorf("end of the log: %w", err)
	}
	o.state.Recorded = place
	maps.Copy(o.state.Outboxes, s.modified)
	err = saveState(o.statePath(), o.state)
	if s.present != nil {
		err = errors.Join(err, o.journal.keep(s.present, place))
	}
	stateWarning(report, err)
	return nil
}
