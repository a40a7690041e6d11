// Package search finds messages and bridge records by their text, with an index that can be thrown away.
//
// The index is a file of SQLite, whose engine FTS5 finds substrings by their trigrams: a third of the build time and a
// fraction of the memory of bleve, and the newest matches come first without sorting; see docs/performance.md.
//
// What is found is a doc: the files of one name, which are copies of one message, or a record. If they are different
// messages, all can be found, but a search returns only the first that fits.
package search

import (
	"database/sql"
	"io/fs"
	"sync"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Folder is where the index is, in a workspace. It may be deleted at any time.
const Folder = schema.StateName + "/search"

// An Index finds the messages of a workspace, and records. Any number of goroutines may use it, and any number of
// processes may use the index of one workspace.
type Index struct {
	w    *mailbox.Workspace
	runs func() ([]bridge.Run, error)

	updating sync.Mutex

	mu      sync.Mutex // of the fields below
	db      *sql.DB
	opened  fs.FileInfo // of the file
	damaged bool        // as a search found
}

// New returns the index of a workspace, and of the logs of the runs that a function returns, which may be nil. It opens
// nothing.
func New(w *mailbox.Workspace, runs func() ([]bridge.Run, error)) *Index {
	if runs == nil {
		runs = func() ([]bridge.Run, error) { return nil, nil }
	}
	return &Index{w: w, runs: runs}
}

// Page selects a part of the matches.
type Page struct {
	// Limit is the largest number of hits; 0 means 50.
	Limit int
	// After is the Next of the page before; empty means the first page.
	After string
}

// Result is one page of hits.
type Result struct {
	// Hits are in the order of age, the newest first.
	Hits []Hit
	// Next continues after the last hit. It is empty if there is no more.
	Next string
}

// Hit is a message, or a record of a bridge log.
type Hit struct {
	// Entry is a file of the message, the first in the order inbox, archive, dead letters, outbox. Its message is what can
	// be read of it, and never nil. Of a record, the message has the fields that both have, with any text, and no file.
	mailbox.Entry
	// States are the states of the message, in the order of States. A record has none.
	States []State
	// Snippet is the part of the body with the most terms, as one line. Without a term in the body it is the beginning.
	Snippet []Fragment
	// Run is the run of a record, and Line the line of its log. For a message, Run is nil.
	Run  *bridge.Run
	Line int
}

// Fragment is a part of a text.
type Fragment struct {
	Text string
	// Hit reports that the part is a term of the query.
	Hit bool
}
