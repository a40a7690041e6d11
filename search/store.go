package search

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/oacp-go/oacp/internal/durable"
)

// fileName has the version of the tables and tokens. Programs of other versions have an index of their own.
const fileName = "v3.db"

// earlier are the files of earlier versions.
var earlier = []string{"index.db", "v2.db"}

// tables makes an empty index. The id of a doc is its time; see idOf. The name of a record's doc is null. The cursor of
// a log is behind the last record that was read, and after is the cursor before a record. The text of a doc is not stored.
const tables = `
CREATE TABLE folder(id INTEGER PRIMARY KEY, agent TEXT, box TEXT, modified INTEGER, UNIQUE(agent, box));
CREATE TABLE file(folder INTEGER, name TEXT, size INTEGER, modified INTEGER, PRIMARY KEY(folder, name)) WITHOUT ROWID;
CREATE INDEX file_name ON file(name);
CREATE TABLE doc(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
CREATE TABLE log(id INTEGER PRIMARY KEY, path TEXT UNIQUE, cursor TEXT);
CREATE TABLE record(doc INTEGER PRIMARY KEY, log INTEGER, after TEXT);
CREATE VIRTUAL TABLE text USING fts5(tokens, content='', contentless_delete=1, tokenize='ascii');
CREATE VIRTUAL TABLE vocabulary USING fts5vocab(text, 'row');`

// ErrLocked reports that another process is writing the index.
var ErrLocked = errors.New("another process is writing the search index")

// errNoIndex reports that there is no index yet.
var errNoIndex = errors.New("there is no search index yet")

func (x *Index) path(name string) string {
	return filepath.Join(x.w.Dir(), filepath.FromSlash(Folder), name)
}

// lock keeps other processes from writing.
func (x *Index) lock() (unlock func(), err error) {
	if err := x.w.MakeStateFolder(Folder); err != nil {
		return nil, err
	}
	lock := durable.NewLock(x.path("lock"))
	locked, err := lock.TryLock()
	if err == nil && !locked {
		err = ErrLocked
	}
	return func() { _ = lock.Unlock() }, err // the lock ends with the file, which Unlock closes
}

// A session is a connection to the index.
type session struct {
	*Index
	ctx      context.Context
	conn     *sql.Conn
	damaged  bool // as a search found
	prepared map[string]*sql.Stmt
	next     map[int64]int64 // see freeID
}

// connect opens the index, again if the file is another one by now.
func (x *Index) connect(ctx context.Context) (*session, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	info, err := x.w.Root().Lstat(Folder + "/" + fileName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errNoIndex
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %w", x.path(fileName), durable.ErrNotRegular)
	}
	if x.db == nil || !os.SameFile(info, x.opened) {
		if err := x.closeDB(); err != nil {
			return nil, err
		}
		pragmas := url.Values{"_pragma": {"busy_timeout(2000)", "journal_mode(wal)", "synchronous(normal)", "cache_size(-8000)"}, "_txlock": {"immediate"}}
		file := url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(x.path(fileName))}).EscapedPath(), RawQuery: pragmas.Encode()}
		if x.db, err = sql.Open("sqlite", file.String()); err != nil {
			return nil, err
		}
		x.opened, x.damaged = info, false
	}
	conn, err := x.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x.path(fileName), err)
	}
	return &session{x, ctx, conn, x.damaged, make(map[string]*sql.Stmt), make(map[int64]int64)}, nil
}

// closeDB closes the file. Sessions go on with the connections that they have.
func (x *Index) closeDB() (err error) {
	if x.db != nil {
		err = x.db.Close()
	}
	x.db = nil
	return err
}

// Close closes the index.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.closeDB()
}

// isDamaged reports whether the index has to be replaced.
func isDamaged(err error) bool {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		code := e.Code() & 0xff
		return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB || code == sqlite3.SQLITE_ERROR // no such table
	}
	return errors.Is(err, errNoIndex)
}

// replace makes an empty index. The caller has the lock.
func (x *Index) replace(ctx context.Context) error {
	for _, name := range append(earlier, fileName) {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := x.w.Root().Remove(Folder + "/" + name + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	file, err := durable.OpenRegular(x.path(fileName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return err
	}
	return x.with(ctx, func(s *session) error { return s.exec(tables) })
}

// with connects for what do does.
func (x *Index) with(ctx context.Context, do func(*session) error) error {
	s, err := x.connect(ctx)
	if err != nil {
		return err
	}
	if err = do(s); err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	for _, statement := range s.prepared {
		err = errors.Join(err, statement.Close())
	}
	return errors.Join(err, s.conn.Close())
}

// statement prepares a statement once.
func (s *session) statement(text string) (*sql.Stmt, error) {
	if known := s.prepared[text]; known != nil {
		return known, nil
	}
	prepared, err := s.conn.PrepareContext(s.ctx, text)
	if err == nil {
		s.prepared[text] = prepared
	}
	return prepared, err
}

func (s *session) exec(text string, values ...any) error {
	statement, err := s.statement(text)
	if err == nil {
		_, err = statement.ExecContext(s.ctx, values...)
	}
	return err
}

// rows reads the rows of a result, one after the other, into the same variables.
func (s *session) rows(into []any, text string, values ...any) iter.Seq[error] {
	return func(yield func(error) bool) {
		statement, err := s.statement(text)
		if err != nil {
			yield(err)
			return
		}
		rows, err := statement.QueryContext(s.ctx, values...)
		if err != nil {
			yield(err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			if !yield(rows.Scan(into...)) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(err)
		}
	}
}

// row reads the first row of a result, and reports whether there is one.
func (s *session) row(into []any, text string, values ...any) (found bool, err error) {
	for err := range s.rows(into, text, values...) {
		return err == nil, err
	}
	return false, nil
}

// transaction does all or nothing.
func (s *session) transaction(do func() error) error {
	tx, err := s.conn.BeginTx(s.ctx, nil)
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
