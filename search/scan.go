package search

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// key identifies the bytes of a file, or a record.
type key [16]byte

func keyOf(parts ...[]byte) (k key) {
	hash := sha256.Sum256(bytes.Join(parts, []byte{0}))
	return key(hash[:])
}

func recordKey(path string, cursor bridge.Cursor) key { return keyOf([]byte(path), []byte(cursor)) }

// cursor is a place in the matches: that of a hit.
type cursor struct {
	at  int64
	key key
}

func (c cursor) String() string { return fmt.Sprintf("%d.%x", c.at, c.key) }

func parseCursor(text string) (c cursor, err error) {
	at, id, _ := strings.Cut(text, ".")
	if c.at, err = strconv.ParseInt(at, 10, 64); err == nil {
		var data []byte
		if data, err = hex.DecodeString(id); err == nil && len(data) == len(c.key) {
			c.key = key(data)
			return c, nil
		}
	}
	return c, fmt.Errorf("%q is not the end of a page", text)
}

// limit returns the number of hits on a page.
func (p Page) limit() int {
	if p.Limit <= 0 {
		return 50
	}
	return min(p.Limit, 1000)
}

// Scan is Search without an index: it reads all messages and logs. Use it if Open or Search fails. With a
// *mailbox.UnreadableError, it also returns what it could read.
func Scan(ctx context.Context, w *mailbox.Workspace, o *Options, q Query, p Page) (Result, error) {
	q = q.folded()
	s := &scan{w: w, q: q, found: make(map[key]*content)}
	unreadable := s.messages(ctx)
	if _, fatal := mailbox.SplitUnreadable(unreadable); fatal != nil {
		return Result{}, fatal
	}
	if o != nil {
		for _, run := range o.Runs {
			if err := s.records(ctx, run); err != nil {
				return Result{}, err
			}
		}
	}
	result, err := s.page(p)
	return result, errors.Join(err, unreadable)
}

type scan struct {
	w     *mailbox.Workspace
	q     Query
	mu    sync.Mutex
	found map[key]*content
}

// messages finds messages. Boxes are read in the order in which a hit names its files.
func (s *scan) messages(ctx context.Context) error {
	agents, err := s.w.Agents()
	if err != nil {
		return err
	}
	for _, box := range schema.Boxes() {
		for _, agent := range agents {
			if _, err := s.w.ListNamed(ctx, agent, box, nil, func(e *mailbox.Entry) bool { s.add(e); return false }); err != nil {
				return err
			}
		}
	}
	for k, c := range s.found {
		if !s.q.fits(c) { // by its state, which only all of its files tell
			delete(s.found, k)
		}
	}
	return nil
}

// add adds a file if it fits but for its state.
func (s *scan) add(e *mailbox.Entry) {
	c, raw := readEntry(s.w, e)
	stateless := s.q
	stateless.Is = ""
	if c == nil || !stateless.fits(c) {
		return
	}
	if raw == nil {
		raw, _ = s.w.ReadRaw(*e) // without its bytes, it counts as another message
	}
	k := keyOf(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.found[k]
	if known == nil {
		s.found[k], known = c, c
	}
	if state := stateOf[e.Box]; !slices.Contains(known.States, state) {
		known.States = append(known.States, state)
	}
}

// readEntry returns the content of a file, nil if it is held or cannot be read. Raw is set if no field can be read.
func readEntry(w *mailbox.Workspace, e *mailbox.Entry) (c *content, raw []byte) {
	if e.IsHeld() {
		return nil, nil
	}
	var err error
	if e.Message == nil {
		if raw, err = w.ReadRaw(*e); err != nil {
			return nil, nil
		}
	}
	found := contentOf(e.Message, e.Name, e.Modified, func() []byte { return raw })
	found.Agent, found.Box, found.Err = e.Agent, e.Box, e.Err
	return &found, raw
}

func (s *scan) records(ctx context.Context, run bridge.Run) error {
	log, err := run.Open(nil)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	defer log.Close()
	for e, err := range log.Records(ctx, "") {
		if _, skipped := errors.AsType[*bridge.LineError](err); err != nil && !skipped {
			return err
		}
		if err == nil {
			if c := recordContent(&run, e); s.q.fits(c) {
				s.found[recordKey(run.BridgePath(), e.Cursor())] = c
			}
		}
	}
	return nil
}

// recordContent returns the content of a record.
func recordContent(run *bridge.Run, e bridge.Entry) *content {
	c := &content{body: e.Content, isRecord: true}
	c.at, _ = time.Parse(time.RFC3339, e.Timestamp) // any text; zero sorts last
	c.Hit = Hit{ID: schema.ID(e.ID), From: e.From, Type: string(e.Type), CreatedAt: c.at, Run: run, Record: &e}
	if e.To != "" {
		c.To = []string{e.To}
	}
	return c
}

// page returns a page of what was found.
func (s *scan) page(p Page) (r Result, err error) {
	var after *cursor
	if p.After != "" {
		c, err := parseCursor(p.After)
		if err != nil {
			return r, err
		}
		after = &c
	}
	newestFirst := func(a, b cursor) int {
		if a.at != b.at {
			return int(max(-1, min(1, b.at-a.at)))
		}
		return bytes.Compare(a.key[:], b.key[:])
	}
	var all []cursor
	for k, c := range s.found {
		if at := (cursor{c.at.Unix(), k}); after == nil || newestFirst(at, *after) > 0 {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, newestFirst)
	if len(all) > p.limit() {
		all = all[:p.limit()]
		r.Next = all[len(all)-1].String()
	}
	for _, at := range all {
		r.Hits = append(r.Hits, s.found[at.key].hit(s.q.Terms))
	}
	return r, nil
}

// hit returns the hit with its snippet.
func (c *content) hit(terms []string) Hit {
	h := c.Hit
	h.Snippet = snippet(c.body, terms)
	h.States = slices.DeleteFunc(States(), func(s State) bool { return !slices.Contains(c.States, s) })
	return h
}
