package search

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Search returns what matches as of the last Update, newest first. It reads the file of each hit again, so it shows
// nothing that the viewer of the workspace may not read, and nothing that has changed or vanished. If many files that
// may match do not, a page has fewer hits than its limit, and a Next.
func (x *Index) Search(ctx context.Context, q Query, p Page) (r Result, err error) {
	q = q.folded()
	first, last := int64(math.MinInt64), int64(math.MaxInt64)
	if !q.Before.IsZero() { // fits compares exactly
		first = idOf(q.Before)
	}
	if !q.After.IsZero() {
		last = idOf(q.After.Add(-spill))
	}
	if p.After != "" {
		after, err := strconv.ParseInt(p.After, 10, 64)
		if err != nil {
			return r, fmt.Errorf("%q is not the end of a page", p.After)
		}
		first = max(first, after+1)
	}
	err = x.with(ctx, func(s *session) (err error) {
		r, err = s.page(&q, first, last, cmp.Or(max(0, p.Limit), 50))
		if isDamaged(err) {
			x.mu.Lock()
			x.damaged = true // the next Update replaces it
			x.mu.Unlock()
		}
		return err
	})
	return r, err
}

// page returns a page of docs with ids from first to last.
func (s *session) page(q *Query, first, last int64, limit int) (r Result, err error) {
	const mostRead = 300
	var id int64
	read := 0
	statement, values := "SELECT id FROM doc WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?", []any{first, last, mostRead + 1}
	match, err := s.match(q)
	if err != nil {
		return r, err
	}
	if match != "" {
		statement, values = "SELECT rowid FROM text WHERE text MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid LIMIT ?", append([]any{match}, values...)
	}
	var next int64
	for err := range s.rows([]any{&next}, statement, values...) {
		if len(r.Hits) == limit || read == mostRead {
			r.Next = strconv.FormatInt(id, 10)
			break
		}
		id = next
		var c *content
		if err == nil {
			c, err = s.load(id, q)
		}
		if err != nil {
			return r, err
		}
		if read++; c != nil {
			c.Snippet = snippet(c.body, q.Terms)
			r.Hits = append(r.Hits, c.Hit)
		}
	}
	return r, nil
}

// load returns what a doc has by now, nil if nothing of it fits.
func (s *session) load(id int64, q *Query) (*content, error) {
	var name *string
	if found, err := s.row([]any{&name}, "SELECT name FROM doc WHERE id=?", id); err != nil || !found {
		return nil, err
	}
	if name == nil {
		return s.loadRecord(id, q)
	}
	copies, err := s.copies(*name)
	for _, e := range copies {
		var data []byte
		if e.Message, data, e.Err = s.w.Read(e); data == nil { // it is gone or held, and no hit
			continue
		}
		c := contentOf(e, data)
		c.States = statesOf(copies)
		if q.fits(c) {
			return c, nil
		}
	}
	return nil, err
}

// copies returns the files of a name in the order in which a hit names them.
func (s *session) copies(name string) (copies []mailbox.Entry, err error) {
	e := mailbox.Entry{Name: name}
	var modified int64
	for err := range s.rows([]any{&e.Agent, &e.Box, &modified}, "SELECT agent, box, file.modified FROM file JOIN folder ON folder.id=folder WHERE name=?", name) {
		if err != nil {
			return nil, err
		}
		e.Modified = time.Unix(0, modified)
		copies = append(copies, e)
	}
	boxes := schema.Boxes()
	slices.SortFunc(copies, func(a, b mailbox.Entry) int {
		return cmp.Or(slices.Index(boxes, a.Box)-slices.Index(boxes, b.Box), cmp.Compare(a.Agent, b.Agent))
	})
	return copies, nil
}

var stateOf = map[mailbox.Box]State{mailbox.DeadLetters: Dead, mailbox.Inbox: Pending, mailbox.Archive: Handled, mailbox.Outbox: Sent}

// statesOf returns the states of a message with these files, each once, in the order of States.
func statesOf(copies []mailbox.Entry) []State {
	return slices.DeleteFunc(States(), func(s State) bool {
		return !slices.ContainsFunc(copies, func(f mailbox.Entry) bool { return stateOf[f.Box] == s })
	})
}
