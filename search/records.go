package search

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/oacp-go/oacp/bridge"
)

// readLog adds the new records of a log.
func (s *session) readLog(run bridge.Run) error {
	log, err := run.Open(nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer log.Close()
	var id int64
	var after bridge.Cursor
	_, err = s.row([]any{&id, &after}, "INSERT INTO log(path, cursor) VALUES(?,'') ON CONFLICT DO UPDATE SET path=path RETURNING id, cursor", run.BridgePath())
	if err != nil {
		return err
	}
	err = s.readRecords(&run, log, id, after)
	if errors.Is(err, bridge.ErrUnknownCursor) { // the log was replaced
		err = s.transaction(func() error {
			return errors.Join(s.exec("DELETE FROM text WHERE rowid IN (SELECT doc FROM record WHERE log=?)", id),
				s.exec("DELETE FROM doc WHERE id IN (SELECT doc FROM record WHERE log=?)", id),
				s.exec("DELETE FROM record WHERE log=?", id), s.exec("UPDATE log SET cursor='' WHERE id=?", id))
		})
		if err == nil {
			err = s.readRecords(&run, log, id, "")
		}
	}
	return err
}

// readRecords adds the records behind a cursor.
func (s *session) readRecords(run *bridge.Run, log *bridge.Log, id int64, after bridge.Cursor) error {
	var docs []doc
	add := func() error {
		return s.transaction(func() error {
			return errors.Join(s.insert(docs), s.exec("UPDATE log SET cursor=? WHERE id=?", string(after), id))
		})
	}
	began := after
	for e, err := range log.Records(s.ctx, after) {
		_, skipped := errors.AsType[*bridge.LineError](err)
		if err != nil && !skipped {
			return err
		}
		if !skipped {
			c := recordContent(run, e)
			docs = append(docs, doc{at: c.at, tokens: c.tokens(), log: id, after: after})
		}
		if after = e.Cursor(); len(docs) == maxDocs {
			if err := add(); err != nil {
				return err
			}
			docs = docs[:0]
		}
	}
	if after == began {
		return nil
	}
	return add()
}

// loadRecord returns a record if it is in a log of the index and fits.
func (s *session) loadRecord(id int64, q *Query) (*content, error) {
	var path string
	var after bridge.Cursor
	if _, err := s.row([]any{&path, &after}, "SELECT path, after FROM record JOIN log ON log.id=log WHERE doc=?", id); err != nil {
		return nil, err
	}
	runs, err := s.runs()
	at := slices.IndexFunc(runs, func(run bridge.Run) bool { return run.BridgePath() == path })
	if at < 0 {
		return nil, err
	}
	log, err := runs[at].Open(nil)
	if err != nil {
		return nil, nil // as for a file that cannot be read
	}
	defer log.Close()
	for e, err := range log.Records(s.ctx, after) {
		if c := recordContent(&runs[at], e); err == nil && q.fits(c) {
			return c, nil
		}
		break
	}
	return nil, nil
}
