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
	"time"

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
	runs []bridge.Run

	updating sync.Mutex

	mu      sync.Mutex // of the fields below
	db      *sql.DB
	opened  fs.FileInfo // of the file
	damaged bool        // as a search found
}

// New returns the index of a workspace and of the logs of runs. It opens nothing.
func New(w *mailbox.Workspace, runs ...bridge.Run) *Index { return &Index{w: w, runs: runs} }

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
	// ID is the message's or record's id. An invalid message may have none, and an empty or any other field below.
	ID schema.ID
	// Agent, Box and Name are a file of the message, the first in the order inbox, archive, dead letters, outbox.
	// They are empty for a record.
	Agent schema.AgentName
	Box   mailbox.Box
	Name  string
	// From, To, Type and Priority are the text in the file or log, which may hold anything if it is not valid. To is
	// empty for a broadcast record.
	From     string
	To       []string
	Type     string
	Priority string
	Subject  string
	// CreatedAt is zero if it is unknown.
	CreatedAt    time.Time
	Conversation schema.ConversationID
	// States are the states of the message, in the order of States. A record has none.
	States []State
	// Err says why a file is not a valid message; nil if it is.
	Err error
	// Snippet is the part of the body with the most terms, as one line. Without a term in the body it is the beginning.
	Snippet []Fragment
	// Run and Record are those of a record, and nil for a message.
	Run    *bridge.Run
	Record *bridge.Entry
}

// Fragment is a part of a text.
type Fragment struct {
	Text string
	// Hit reports that the part is a term of the query.
	Hit bool
}
