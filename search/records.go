package search

import (
	"context"
	"errors"
	"io/fs"

	"github.com/oacp-go/oacp/bridge"
)

// readLogs stores the new records of the logs. They get numbers together with the new files.
func (x *Index) readLogs(ctx context.Context) error {
	for _, run := range x.options.Runs {
		if err := x.readLog(ctx, run); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (x *Index) readLog(ctx context.Context, run bridge.Run) error {
	log, err := run.Open(nil)
	if err != nil {
		return err
	}
	defer log.Close()
	path := run.BridgePath()
	if _, err := x.db.ExecContext(ctx, "INSERT OR IGNORE INTO log(path, cursor) VALUES(?,'')", path); err != nil {
		return err
	}
	var id int64
	var after bridge.Cursor
	if err := x.db.QueryRowContext(ctx, "SELECT id, cursor FROM log WHERE path=?", path).Scan(&id, &after); err != nil {
		return err
	}
	err = x.storeRecords(ctx, log, id, path, after)
	if errors.Is(err, bridge.ErrUnknownCursor) { // the log was replaced
		if err = x.dropRecords(ctx, id); err == nil {
			err = x.storeRecords(ctx, log, id, path, "")
		}
	}
	return err
}

func (x *Index) storeRecords(ctx context.Context, log *bridge.Log, id int64, path string, after bridge.Cursor) error {
	if end, err := log.End(ctx); err == nil && end == after {
		return nil
	}
	return x.transaction(ctx, func(t *writer) error {
		for e, err := range log.Records(ctx, after) {
			if _, skipped := errors.AsType[*bridge.LineError](err); err != nil && !skipped {
				return err
			}
			after = e.Cursor()
			if err != nil {
				continue
			}
			data, err := e.Encode()
			if err != nil {
				return err
			}
			k := recordKey(path, after)
			if err := t.exec("INSERT OR REPLACE INTO record(log, doc, key, line, data) VALUES(?,0,?,?,?)", id, k[:], e.Line, data); err != nil {
				return err
			}
		}
		return t.exec("UPDATE log SET cursor=? WHERE id=?", string(after), id)
	})
}

func (x *Index) dropRecords(ctx context.Context, id int64) error {
	return x.transaction(ctx, func(t *writer) error {
		return errors.Join(t.exec("DELETE FROM text WHERE rowid IN (SELECT doc FROM record WHERE log=?)", id),
			t.exec("DELETE FROM doc WHERE id IN (SELECT doc FROM record WHERE log=?)", id), t.exec("DELETE FROM record WHERE log=?", id))
	})
}

// planRecords adds the records without a number.
func (x *Index) planRecords(ctx context.Context, p *plan) error {
	rows, err := x.db.QueryContext(ctx, "SELECT key, data FROM record WHERE doc=0")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var k, data []byte
		if err := rows.Scan(&k, &data); err != nil {
			return err
		}
		r, err := bridge.ParseRecord(data)
		if err != nil {
			return err
		}
		c := recordContent(nil, bridge.Entry{Record: r})
		p.byKey[key(k)] = &doc{key: key(k), at: c.at.Unix(), isNew: true, record: data}
	}
	return rows.Err()
}

func (t *writer) writeRecord(d *doc) error {
	r, err := bridge.ParseRecord(d.record)
	if err != nil {
		return err
	}
	if err := t.exec("UPDATE record SET doc=? WHERE key=?", d.id, d.key[:]); err != nil {
		return err
	}
	return t.index(d.id, recordContent(nil, bridge.Entry{Record: r}), "")
}

// loadRecord returns the content of a doc that is a record of one of the runs, nil if it is not.
func (x *Index) loadRecord(ctx context.Context, id int64) (*content, error) {
	rows, err := x.db.QueryContext(ctx, "SELECT path, line, data FROM record JOIN log ON log.id=log WHERE doc=?", id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var path string
		var data []byte
		var e bridge.Entry
		if err := rows.Scan(&path, &e.Line, &data); err != nil {
			return nil, err
		}
		for _, run := range x.options.Runs {
			if run.BridgePath() == path {
				if e.Record, err = bridge.ParseRecord(data); err != nil {
					return nil, err
				}
				return recordContent(&run, e), nil
			}
		}
	}
	return nil, rows.Err()
}
