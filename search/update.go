package search

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// settled is the age from which the time of a folder tells that it has not changed since: file systems keep times as
// coarse as two seconds.
const settled = 3 * time.Second

// folder is a box whose files may have changed.
type folder struct {
	id       int64
	agent    schema.AgentName
	box      mailbox.Box
	modified int64 // 0 if the next Update is to list it again
}

// file is a row of the table of files.
type file struct {
	folder         int64
	name           string
	size, modified int64
	doc            int64 // 0 if the file cannot be read
}

// doc is a doc that is new, or whose files changed.
type doc struct {
	id, at    int64
	key       key
	isNew     bool
	invalid   bool
	add, drop []file
	record    []byte
}

// plan is what an Update has to do.
type plan struct {
	folders map[int64]*folder
	byKey   map[key]*doc
	byID    map[int64]*doc
}

// Update brings the index in step with the boxes and the logs. It lists only folders that have changed since the last
// Update; a file that was changed in place is noticed when its folder changes next. The error matches ErrLocked if
// another process is updating the index. After an error the index has what was done before, and the next Update goes
// on from there.
func (x *Index) Update(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	unlock, err := x.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if info, statErr := x.w.Root().Lstat(Folder + "/" + fileName); statErr != nil || x.db == nil || !os.SameFile(info, x.opened) {
		if x.db != nil {
			_ = x.db.Close() // the file was removed or replaced
			x.db = nil
		}
		err = x.connect(ctx)
	}
	if err == nil {
		err = x.update(ctx)
	}
	if isDamaged(err) {
		if err = x.replace(ctx); err == nil {
			err = x.update(ctx)
		}
	}
	return err
}

func (x *Index) update(ctx context.Context) error {
	if err := x.readLogs(ctx); err != nil {
		return err
	}
	p := &plan{folders: make(map[int64]*folder), byKey: make(map[key]*doc), byID: make(map[int64]*doc)}
	changed, err := x.changed(ctx)
	if err != nil {
		return err
	}
	for _, f := range changed {
		if err := x.compare(ctx, p, f); err != nil {
			return err
		}
	}
	if err := x.planRecords(ctx, p); err != nil {
		return err
	}
	docs := slices.Concat(slices.Collect(maps.Values(p.byKey)), slices.Collect(maps.Values(p.byID)))
	if err := x.number(ctx, slices.Collect(maps.Values(p.byKey))); err != nil {
		return err
	}
	slices.SortFunc(docs, func(a, b *doc) int { return cmp.Compare(a.id, b.id) })
	if err := x.write(ctx, p, docs); err != nil {
		return err
	}
	for _, f := range p.folders {
		if _, err := x.db.ExecContext(ctx, "UPDATE folder SET modified=? WHERE id=? AND modified<>?", f.modified, f.id, f.modified); err != nil {
			return err
		}
	}
	return nil
}

// changed returns the folders to list. Folders of removed agents are among them.
func (x *Index) changed(ctx context.Context) (changed []*folder, err error) {
	known := make(map[string]*folder)
	rows, err := x.db.QueryContext(ctx, "SELECT id, agent, box, modified FROM folder")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		f := &folder{}
		if err := rows.Scan(&f.id, &f.agent, &f.box, &f.modified); err != nil {
			return nil, err
		}
		known[schema.BoxPath(f.agent, f.box)] = f
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	agents, err := x.w.Agents()
	if err != nil {
		return nil, err
	}
	for _, agent := range agents {
		for _, box := range schema.Boxes() {
			path := schema.BoxPath(agent, box)
			f := known[path]
			delete(known, path)
			info, err := durable.StatFolder(x.w.Root(), x.w.Dir(), path)
			if errors.Is(err, fs.ErrNotExist) && f == nil {
				continue
			}
			if err == nil && f != nil && f.modified == info.ModTime().UnixNano() {
				continue
			}
			if f == nil {
				f = &folder{agent: agent, box: box}
				if f.id, err = x.insert(ctx, "INSERT INTO folder(agent, box, modified) VALUES(?,?,0)", agent, box); err != nil {
					return nil, err
				}
			}
			if f.modified = 0; info != nil && time.Since(info.ModTime()) > settled {
				f.modified = info.ModTime().UnixNano()
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

func (x *Index) insert(ctx context.Context, statement string, values ...any) (int64, error) {
	result, err := x.db.ExecContext(ctx, statement, values...)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// compare adds to the plan what a folder has that the index has not, and the other way round.
func (x *Index) compare(ctx context.Context, p *plan, in *folder) error {
	p.folders[in.id] = in
	known := make(map[string]file)
	rows, err := x.db.QueryContext(ctx, "SELECT name, size, modified, doc FROM file WHERE folder=?", in.id)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		f := file{folder: in.id}
		if err := rows.Scan(&f.name, &f.size, &f.modified, &f.doc); err != nil {
			return err
		}
		known[f.name] = f
	}
	if err := rows.Err(); err != nil {
		return err
	}
	dir, err := durable.OpenDir(x.w.Root(), x.w.Dir(), schema.BoxPath(in.agent, in.box))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			in.modified = 0
			return nil // a folder that cannot be read keeps what is known of it
		}
	} else {
		defer dir.Close()
		names, err := dir.Names()
		if err != nil {
			return err
		}
		for _, name := range names {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			info, err := dir.Lstat(name)
			if err != nil || !schema.IsMessageFile(name) {
				continue
			}
			was, isKnown := known[name]
			if f := (file{in.id, name, info.Size(), info.ModTime().UnixNano(), 0}); !isKnown || f.size != was.size || f.modified != was.modified {
				if err := x.planFile(ctx, p, dir, f); err != nil {
					return err
				}
			} else {
				delete(known, name)
			}
		}
	}
	for _, f := range known {
		d := p.known(f.doc)
		d.drop = append(d.drop, f)
	}
	return nil
}

// known returns the planned change of a doc of the index.
func (p *plan) known(id int64) *doc {
	if p.byID[id] == nil {
		p.byID[id] = &doc{id: id}
	}
	return p.byID[id]
}

// planFile adds a file that is new or was changed.
func (x *Index) planFile(ctx context.Context, p *plan, dir *durable.Dir, f file) error {
	data, modified, err := dir.AppendFile(nil, f.name, schema.MaxFileSize)
	switch {
	case mailbox.IsGone(err) || errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		d := p.known(0)
		d.add = append(d.add, f)
		return nil
	}
	k := keyOf(data)
	var id int64
	err = x.db.QueryRowContext(ctx, "SELECT id FROM doc WHERE key=?", k[:]).Scan(&id)
	switch {
	case err == nil:
		d := p.known(id)
		d.add = append(d.add, f)
		return nil
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	d := p.byKey[k]
	if d == nil {
		c := readContent(data, f.name, modified)
		d = &doc{key: k, at: c.at.Unix(), isNew: true, invalid: c.Err != nil}
		p.byKey[k] = d
	}
	d.add = append(d.add, f)
	return nil
}

// readContent returns the content of a file for the index. It holds nothing back: Search does.
func readContent(data []byte, name string, modified time.Time) content {
	m, err := validate.Read(data) // with an error, the message is what can be read
	c := contentOf(m, name, modified, func() []byte { return data })
	c.Err = err
	return c
}
