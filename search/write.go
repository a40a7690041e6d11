package search

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// write carries out the plan in transactions of a bounded size.
func (x *Index) write(ctx context.Context, p *plan, docs []*doc) error {
	const most = 500
	total := len(docs)
	for done := 0; len(docs) > 0; {
		n := min(most, len(docs))
		if err := x.transaction(ctx, func(t *writer) error {
			for _, d := range docs[:n] {
				if err := t.change(p, d); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		docs, done = docs[n:], done+n
		if x.options.Progress != nil {
			x.options.Progress(done, total)
		}
	}
	return nil
}

// writer writes a transaction.
type writer struct {
	x     *Index
	ctx   context.Context
	tx    *sql.Tx
	grams map[uint64]bool // new ones
	dirs  map[string]*durable.Dir
}

func (x *Index) transaction(ctx context.Context, do func(*writer) error) error {
	if err := x.loadGrams(ctx); err != nil {
		return err
	}
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	t := &writer{x, ctx, tx, make(map[uint64]bool), make(map[string]*durable.Dir)}
	err = do(t)
	for _, dir := range t.dirs {
		_ = dir.Close() // it was only read
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		_ = tx.Rollback() // the error is that of the change
		return err
	}
	maps.Copy(x.grams, t.grams)
	return nil
}

func (t *writer) exec(statement string, values ...any) error {
	_, err := t.tx.ExecContext(t.ctx, statement, values...)
	return err
}

// change carries out the change of one doc.
func (t *writer) change(p *plan, d *doc) error {
	if d.isNew {
		if err := t.exec("INSERT INTO doc(id, key, at, states, invalid) VALUES(?,?,?,'',?)", d.id, d.key[:], d.at, d.invalid); err != nil {
			return err
		}
	}
	if d.record != nil {
		return t.writeRecord(d)
	}
	for _, f := range d.drop {
		if err := t.exec("DELETE FROM file WHERE folder=? AND name=? AND doc=?", f.folder, f.name, f.doc); err != nil {
			return err
		}
	}
	for _, f := range d.add {
		if err := t.exec("INSERT OR REPLACE INTO file(folder, name, size, modified, doc) VALUES(?,?,?,?,?)", f.folder, f.name, f.size, f.modified, d.id); err != nil {
			return err
		}
	}
	if d.id == 0 {
		return nil // files that cannot be read
	}
	copies, err := copiesOf(t.ctx, t.tx, d.id)
	if err != nil {
		return err
	}
	if len(copies) == 0 {
		return t.remove(d.id)
	}
	var was string
	var k []byte
	if err := t.tx.QueryRowContext(t.ctx, "SELECT states, key FROM doc WHERE id=?", d.id).Scan(&was, &k); err != nil {
		return err
	}
	states := statesText(copies)
	if states == was {
		return nil
	}
	c := t.read(copies, key(k))
	if c == nil { // it moves or changes at this moment
		return t.forget(p, d.id, copies)
	}
	c.States = statesOf(boxesOf(copies))
	return t.index(d.id, c, states)
}

// index replaces the text of a doc.
func (t *writer) index(id int64, c *content, states string) error {
	text := c.texts() + "\n\n"
	if err := t.addGrams(text); err != nil {
		return err
	}
	if err := t.exec("DELETE FROM text WHERE rowid=?", id); err != nil {
		return err
	}
	if err := t.exec("INSERT INTO text(rowid, t) VALUES(?,?)", id, text+tagsOf(c)); err != nil {
		return err
	}
	return t.exec("UPDATE doc SET states=? WHERE id=?", states, id)
}

// read returns the content of a doc, nil if no file has it any more.
func (t *writer) read(copies []copied, want key) *content {
	for _, f := range copies {
		path := schema.BoxPath(f.agent, f.box)
		dir := t.dirs[path]
		if dir == nil {
			var err error
			if dir, err = durable.OpenDir(t.x.w.Root(), t.x.w.Dir(), path); err != nil {
				continue
			}
			t.dirs[path] = dir
		}
		if data, modified, err := dir.AppendFile(nil, f.name, schema.MaxFileSize); err == nil && keyOf(data) == want {
			c := readContent(data, f.name, modified)
			return &c
		}
	}
	return nil
}

func (t *writer) remove(id int64) error {
	return errors.Join(t.exec("DELETE FROM text WHERE rowid=?", id), t.exec("DELETE FROM doc WHERE id=?", id))
}

// forget removes a doc and its files, and has its folders listed again.
func (t *writer) forget(p *plan, id int64, copies []copied) error {
	for _, c := range copies {
		if f := p.folders[c.folder]; f != nil {
			f.modified = 0
		}
	}
	return errors.Join(t.exec("UPDATE folder SET modified=0 WHERE id IN (SELECT folder FROM file WHERE doc=?)", id),
		t.exec("DELETE FROM file WHERE doc=?", id), t.remove(id))
}

// copied is a file of a doc, with its place.
type copied struct {
	folder int64
	agent  schema.AgentName
	box    mailbox.Box
	name   string
}

type querier interface {
	QueryContext(ctx context.Context, query string, values ...any) (*sql.Rows, error)
}

// copiesOf returns the files of a doc in the order in which a hit names them.
func copiesOf(ctx context.Context, db querier, id int64) (copies []copied, err error) {
	rows, err := db.QueryContext(ctx, "SELECT folder.id, agent, box, name FROM file JOIN folder ON folder.id=folder WHERE doc=?", id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c copied
		if err := rows.Scan(&c.folder, &c.agent, &c.box, &c.name); err != nil {
			return nil, err
		}
		copies = append(copies, c)
	}
	boxes := schema.Boxes()
	slices.SortFunc(copies, func(a, b copied) int {
		return cmp.Or(slices.Index(boxes, a.box)-slices.Index(boxes, b.box), cmp.Compare(a.agent, b.agent), cmp.Compare(a.name, b.name))
	})
	return copies, rows.Err()
}

func boxesOf(copies []copied) (boxes []mailbox.Box) {
	for _, c := range copies {
		boxes = append(boxes, c.box)
	}
	return boxes
}

func statesText(copies []copied) string {
	var texts []string
	for _, s := range statesOf(boxesOf(copies)) {
		texts = append(texts, string(s))
	}
	return strings.Join(texts, " ")
}
