package search

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// Limits of a transaction: how many docs it changes, and about how many bytes of files it reads.
const (
	maxDocs  = 500
	maxBytes = 16 << 20
)

// folder is a box whose files may have changed.
type folder struct {
	id       int64
	agent    schema.AgentName
	box      mailbox.Box
	modified int64 // 0 if the next Update is to list it again
}

// change is a file that is new, other than before, or gone.
type change struct {
	folder         int64
	size, modified int64
	gone           bool
}

// doc is a doc to be added.
type doc struct {
	at     time.Time
	tokens string
	name   any // of the files; nil for a record
	log    int64
	after  bridge.Cursor
}

// Update brings the index in step with the boxes and the logs. It makes a missing index, and replaces one that is
// damaged or of an earlier version. It lists only folders that have changed since the last Update; a file that was
// changed in place is noticed when its folder changes next. The error matches ErrLocked if another process is updating
// the index. After an error the index has what was done before, and the next Update goes on from there.
func (x *Index) Update(ctx context.Context) error {
	x.updating.Lock()
	defer x.updating.Unlock()
	unlock, err := x.lock()
	if err != nil {
		return err
	}
	defer unlock()
	err = x.with(ctx, (*session).update)
	if isDamaged(err) {
		if err = x.replace(ctx); err == nil {
			err = x.with(ctx, (*session).update)
		}
	}
	return err
}

func (s *session) update() error {
	if s.damaged {
		return errNoIndex
	}
	runs, err := s.runs()
	if err != nil {
		return err
	}
	for _, run := range runs {
		if err := s.readLog(run); err != nil {
			return err
		}
	}
	folders, err := s.changed()
	if err != nil {
		return err
	}
	changes := make(map[string][]change)
	for _, f := range folders {
		if err := s.compare(f, changes); err != nil {
			return err
		}
	}
	// Names begin with times. The search engine is fastest with the newest, whose ids are the lowest, first.
	names := slices.SortedFunc(maps.Keys(changes), func(a, b string) int { return strings.Compare(b, a) })
	for len(names) > 0 {
		n, size := 0, int64(0)
		for ; n < min(len(names), maxDocs) && size < maxBytes; n++ {
			for _, c := range changes[names[n]] {
				size += c.size
			}
		}
		if err := s.transaction(func() error { return s.apply(names[:n], changes) }); err != nil {
			return err
		}
		names = names[n:]
	}
	for _, f := range folders {
		if err := s.exec("UPDATE folder SET modified=? WHERE id=?", f.modified, f.id); err != nil {
			return err
		}
	}
	return nil
}

// changed returns the folders to list. Folders of removed agents are among them.
func (s *session) changed() (changed []*folder, err error) {
	known := make(map[string]*folder)
	var f folder
	for err := range s.rows([]any{&f.id, &f.agent, &f.box, &f.modified}, "SELECT id, agent, box, modified FROM folder") {
		if err != nil {
			return nil, err
		}
		known[schema.BoxPath(f.agent, f.box)] = new(f)
	}
	agents, err := s.w.Agents()
	if err != nil {
		return nil, err
	}
	for _, agent := range agents {
		for _, box := range schema.Boxes() {
			path := schema.BoxPath(agent, box)
			f := known[path]
			delete(known, path)
			info, err := durable.StatFolder(s.w.Root(), s.w.Dir(), path)
			if errors.Is(err, fs.ErrNotExist) && f == nil || err == nil && f != nil && f.modified == info.ModTime().UnixNano() {
				continue
			}
			if f == nil {
				f = &folder{agent: agent, box: box}
				if _, err := s.row([]any{&f.id}, "INSERT INTO folder(agent, box, modified) VALUES(?,?,0) RETURNING id", agent, box); err != nil {
					return nil, err
				}
			}
			if f.modified = 0; err == nil {
				f.modified = durable.SettledTime(info)
			}
			changed = append(changed, f)
		}
	}
	for _, f := range known {
		f.modified = 0
		changed = append(changed, f)
	}
	return changed, nil
}

// compare adds to the changes what a folder has that the index has not, and the other way round.
func (s *session) compare(in *folder, changes map[string][]change) error {
	known := make(map[string]change)
	var name string
	c := change{folder: in.id}
	for err := range s.rows([]any{&name, &c.size, &c.modified}, "SELECT name, size, modified FROM file WHERE folder=?", in.id) {
		if err != nil {
			return err
		}
		known[name] = c
	}
	dir, err := durable.OpenDir(s.w.Root(), s.w.Dir(), schema.BoxPath(in.agent, in.box))
	var names []string
	if err == nil {
		defer dir.Close()
		names, err = dir.Names()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		in.modified = 0
		return nil // a folder that cannot be read keeps what is known of it
	}
	for _, name := range names {
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		info, err := dir.Lstat(name)
		if err != nil || !schema.IsMessageFile(name) {
			continue
		}
		was, isKnown := known[name]
		delete(known, name)
		if c := (change{folder: in.id, size: info.Size(), modified: info.ModTime().UnixNano()}); !isKnown || c != was {
			changes[name] = append(changes[name], c)
		}
	}
	for name, c := range known {
		c.gone = true
		changes[name] = append(changes[name], c)
	}
	return nil
}

// apply changes the files of these names, and their docs.
func (s *session) apply(names []string, changes map[string][]change) error {
	var docs []doc
	for _, name := range names {
		for _, c := range changes[name] {
			err := s.exec("DELETE FROM file WHERE folder=? AND name=?", c.folder, name)
			if err == nil && !c.gone {
				err = s.exec("INSERT INTO file(folder, name, size, modified) VALUES(?,?,?,?)", c.folder, name, c.size, c.modified)
			}
			if err != nil {
				return err
			}
		}
		var id int64
		found, err := s.row([]any{&id}, "SELECT id FROM doc WHERE name=?", name)
		if err == nil && found {
			err = errors.Join(s.exec("DELETE FROM text WHERE rowid=?", id), s.exec("DELETE FROM doc WHERE id=?", id))
		}
		if err != nil {
			return err
		}
		d, err := s.read(name)
		if err != nil {
			return err
		}
		if d.tokens != "" {
			docs = append(docs, d)
		} else if err := s.exec("DELETE FROM file WHERE name=?", name); err != nil { // so that it is read when it can be
			return err
		}
	}
	return s.insert(docs)
}

// read returns the doc of a name, without tokens if no file can be read. It holds nothing back: Search does.
func (s *session) read(name string) (doc, error) {
	d := doc{name: name}
	copies, err := s.copies(name)
	var different [][]byte
	for _, e := range copies {
		data, err := mailbox.ReadUnscreened(s.w, e)
		if err != nil || slices.ContainsFunc(different, func(other []byte) bool { return bytes.Equal(other, data) }) {
			continue
		}
		different = append(different, data)
		e.Message, e.Err = validate.Read(data) // with an error, the message is what can be read
		c := contentOf(e, data)
		if d.tokens == "" {
			d.at = c.at
		}
		d.tokens += c.tokens()
	}
	if d.tokens != "" {
		for _, state := range statesOf(copies) {
			d.tokens += tag("is", string(state)) + " "
		}
	}
	return d, err
}

// insert adds docs.
func (s *session) insert(docs []doc) error {
	slices.SortStableFunc(docs, func(a, b doc) int { return b.at.Compare(a.at) })
	for _, d := range docs {
		id, err := s.freeID(d.at)
		if err == nil {
			err = s.exec("INSERT INTO doc(id, name) VALUES(?,?)", id, d.name)
		}
		if err == nil && d.log != 0 {
			err = s.exec("INSERT INTO record(doc, log, after) VALUES(?,?,?)", id, d.log, string(d.after))
		}
		if err == nil {
			err = s.exec("INSERT INTO text(rowid, tokens) VALUES(?,?)", id, d.tokens)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
