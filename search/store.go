package search

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
)

// version is that of the tables. An index of an earlier version is replaced.
const version = 1

const fileName = "index.db"

// tables makes an empty index. A doc is the bytes of a file, or a record. Docs are numbered from the newest to the
// oldest, with gaps, so the search engine returns the newest first. The text of a doc is not stored.
var tables = fmt.Sprintf(`
CREATE TABLE folder(id INTEGER PRIMARY KEY, agent TEXT, box TEXT, modified INTEGER, UNIQUE(agent, box));
CREATE TABLE file(folder INTEGER, name TEXT, size INTEGER, modified INTEGER, doc INTEGER, PRIMARY KEY(folder, name)) WITHOUT ROWID;
CREATE INDEX file_doc ON file(doc);
CREATE TABLE doc(id INTEGER PRIMARY KEY, key BLOB UNIQUE, at INTEGER, states TEXT, invalid INTEGER);
CREATE INDEX doc_invalid ON doc(id) WHERE invalid;
CREATE INDEX doc_at ON doc(at, id);
CREATE TABLE log(id INTEGER PRIMARY KEY, path TEXT UNIQUE, cursor TEXT);
CREATE TABLE record(log INTEGER, doc INTEGER, key BLOB PRIMARY KEY, line INTEGER, data BLOB) WITHOUT ROWID;
CREATE INDEX record_doc ON record(doc);
CREATE TABLE gram(term TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE VIRTUAL TABLE text USING fts5(t, content='', contentless_delete=1, tokenize='trigram case_sensitive 1');
PRAGMA user_version=%d;`, version)

func (x *Index) path(name string) string {
	return filepath.Join(x.w.Dir(), filepath.FromSlash(Folder), name)
}

// Open opens the index of a workspace, and creates a missing one, which is empty until Update. It replaces an index
// that is damaged or of an earlier version. It returns an error that matches ErrNewer for one of a later version, and
// ErrLocked if it must replace an index that another process is writing. Other errors are those of the file system.
// Without an index, use Scan. The options may be nil.
func Open(ctx context.Context, w *mailbox.Workspace, o *Options) (*Index, error) {
	x := &Index{w: w}
	if o != nil {
		x.options = *o
	}
	if err := w.MakeStateFolder(Folder); err != nil {
		return nil, err
	}
	err := x.connect(ctx)
	if err == nil || !isDamaged(err) {
		return x, err
	}
	unlock, err := x.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err = x.connect(ctx); isDamaged(err) { // unless another process has replaced it
		err = x.replace(ctx)
	}
	return x, err
}

// lock keeps other processes from writing.
func (x *Index) lock() (unlock func(), err error) {
	lock := durable.NewLock(x.path("lock"))
	locked, err := lock.TryLock()
	if err == nil && !locked {
		err = ErrLocked
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Unlock() }, nil // the lock ends with the file, which Unlock closes
}

// errNoIndex reports that the file has no usable tables.
var errNoIndex = errors.New("the search index is empty or of an earlier version")

// connect opens the file, which may be missing.
func (x *Index) connect(ctx context.Context) error {
	info, err := x.w.Root().Lstat(Folder + "/" + fileName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errNoIndex
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: %w", x.path(fileName), durable.ErrNotRegular)
	}
	db, err := x.openFile()
	if err != nil {
		return err
	}
	var found int
	if err = db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&found); err == nil && found > version {
		err = ErrNewer
	} else if err == nil && found < version {
		err = errNoIndex
	}
	if err == nil {
		err = db.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM doc, text LIMIT 1)").Scan(&found)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", x.path(fileName), err), db.Close())
	}
	x.db, x.opened = db, info
	return nil
}

func (x *Index) openFile() (*sql.DB, error) {
	pragmas := url.Values{"_pragma": {"busy_timeout(2000)", "journal_mode(wal)", "synchronous(normal)", "cache_size(-8000)"}, "_txlock": {"immediate"}}
	file := url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(x.path(fileName))}).EscapedPath(), RawQuery: pragmas.Encode()}
	db, err := sql.Open("sqlite", file.String())
	if err == nil {
		db.SetMaxOpenConns(4)
	}
	return db, err
}

// isDamaged reports whether the index has to be replaced.
func isDamaged(err error) bool {
	if errors.Is(err, errNoIndex) || errors.Is(err, errNoRoom) {
		return true
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	code := e.Code() & 0xff
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB || code == sqlite3.SQLITE_ERROR // no such table
}

// replace makes an empty index. The caller has the lock. Processes that have the old one open go on with it until
// their next Update.
func (x *Index) replace(ctx context.Context) error {
	if x.db != nil {
		_ = x.db.Close() // what it has is thrown away
		x.db = nil
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := x.w.Root().Remove(Folder + "/" + fileName + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	file, err := durable.OpenRegular(x.path(fileName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	db, err := x.openFile()
	if err != nil {
		return err
	}
	if _, err = db.ExecContext(ctx, tables); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", x.path(fileName), err), db.Close())
	}
	x.grams = nil
	x.db = db
	x.opened, err = x.w.Root().Lstat(Folder + "/" + fileName)
	return err
}

// Close closes the index.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.db == nil {
		return nil
	}
	err := x.db.Close()
	x.db = nil
	return err
}
