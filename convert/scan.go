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
	for _, agent := range slices.Sorted(maps.Keys(named.names)) {
		err := o.add(s, agent, slices.Sorted(maps.Keys(named.names[agent])))
		s.failed = errors.Join(s.failed, err)
	}
	return nil
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
func (o *outward) add(s *scan, agent schema.AgentName, names []string) error {
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
