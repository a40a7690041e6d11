package search

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// tagsOf returns the tokens by which filters find a content.
func tagsOf(c *content) string {
	tags := tag("from:" + c.From)
	for _, to := range c.To {
		tags += tag("to:" + to)
	}
	tags += tag("type:" + c.Type)
	for _, s := range c.States {
		tags += tag("is:" + string(s))
	}
	if !c.isRecord {
		tags += tag("in:" + string(c.Conversation))
	}
	return tags
}

// tag returns a token of three characters of which the first occurs only there. Search compares the fields of what it
// finds, so it does not matter if two values share a token.
func tag(text string) string {
	hash := fnv.New32a()
	hash.Write([]byte(strings.ToLower(text)))
	sum := hash.Sum32()
	return string([]rune{0xe000, rune(0xf0000 + sum&0x7fff), rune(0x100000 + sum>>16&0x7fff)})
}

// addGrams adds the trigrams of a text to the table that tells which ones begin with a word of one or two characters.
func (t *writer) addGrams(text string) error {
	var a, b rune
	for _, c := range text {
		if gram := uint64(a)<<42 | uint64(b)<<21 | uint64(c); a != 0 && !t.x.grams[gram] && !t.grams[gram] {
			t.grams[gram] = true
			if err := t.exec("INSERT OR IGNORE INTO gram(term) VALUES(?)", string([]rune{a, b, c})); err != nil {
				return err
			}
		}
		a, b = b, c
	}
	return nil
}

func (x *Index) loadGrams(ctx context.Context) error {
	if x.grams != nil {
		return nil
	}
	terms, err := column[string](ctx, x.db, "SELECT term FROM gram")
	if err != nil {
		return err
	}
	x.grams = make(map[uint64]bool, len(terms))
	for _, term := range terms {
		if r := []rune(term); len(r) == 3 {
			x.grams[uint64(r[0])<<42|uint64(r[1])<<21|uint64(r[2])] = true
		}
	}
	return nil
}

// column returns the only column of a result.
func column[T any](ctx context.Context, db querier, query string, values ...any) (all []T, err error) {
	rows, err := db.QueryContext(ctx, query, values...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var v T
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// match returns the condition of the search engine for a query, empty if there is none. What it excludes does not fit.
func (x *Index) match(ctx context.Context, q Query) (string, error) {
	var all []string
	phrase := func(text string) string { return `"` + strings.ReplaceAll(text, `"`, `""`) + `"` }
	add := func(key, value string) {
		if value != "" {
			all = append(all, phrase(tag(key+value)))
		}
	}
	add("from:", q.From)
	add("to:", q.To)
	add("type:", q.Type)
	add("is:", string(q.Is))
	add("in:", string(q.In))
	terms := slices.Clone(q.Terms)
	slices.SortStableFunc(terms, func(a, b string) int { return len(b) - len(a) })
	for _, term := range terms[:min(len(terms), maxTerms)] {
		if utf8.RuneCountInString(term) >= 3 {
			all = append(all, phrase(term))
			continue
		}
		// A short word is at the beginning of trigrams. One at the beginning of many is common, so what has it is
		// found soon without the search engine.
		const most = 256
		grams, err := column[string](ctx, x.db, "SELECT term FROM gram WHERE term>=? AND term<? LIMIT ?", term, term+string(utf8.MaxRune), most+1)
		if err != nil {
			return "", err
		}
		if len(grams) <= most {
			for i := range grams {
				grams[i] = phrase(grams[i])
			}
			if len(grams) == 0 {
				grams = []string{phrase("\ue000\ue000\ue000")} // nothing has it
			}
			all = append(all, "("+strings.Join(grams, " OR ")+")")
		}
	}
	return strings.Join(all, " AND "), nil
}

// between returns the first and last number of docs in the time of a query and behind a cursor.
func (x *Index) between(ctx context.Context, q Query, after string) (first, last int64, err error) {
	first, last = 1, 1<<62
	limit := func(bound *int64, query string, at int64, none int64) {
		if err != nil {
			return
		}
		var d doc
		var found bool
		if d, found, err = x.neighbor(ctx, query, at); found {
			*bound = d.id
		} else {
			*bound = none
		}
	}
	if !q.Before.IsZero() {
		limit(&first, "SELECT id, at FROM doc WHERE at<? ORDER BY at DESC, id LIMIT 1", q.Before.Add(time.Second-1).Unix(), 1<<62)
	}
	if !q.After.IsZero() {
		limit(&last, "SELECT id, at FROM doc WHERE at>=? ORDER BY at, id DESC LIMIT 1", q.After.Unix(), 0)
	}
	if after != "" && err == nil {
		var c cursor
		if c, err = parseCursor(after); err != nil {
			return first, last, err
		}
		next := first
		err = x.db.QueryRowContext(ctx, "SELECT id+1 FROM doc WHERE key=?", c.key[:]).Scan(&next)
		if errors.Is(err, sql.ErrNoRows) { // it is gone: the first that is older
			err = nil
			limit(&next, "SELECT id, at FROM doc WHERE at<? ORDER BY at DESC, id LIMIT 1", c.at, 1<<62)
		}
		first = max(first, next)
	}
	return first, last, err
}

// candidates returns the numbers of docs that may fit, the newest first.
func (x *Index) candidates(ctx context.Context, match string, first, last int64, limit int) ([]int64, error) {
	if match == "" {
		return column[int64](ctx, x.db, "SELECT id FROM doc WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?", first, last, limit)
	}
	return column[int64](ctx, x.db, "SELECT rowid FROM text WHERE text MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid LIMIT ?", match, first, last, limit)
}

// Search returns what matches as of the last Update, newest first. It reads the file of each hit again, so it shows
// nothing that the viewer of the workspace may not read, and nothing that has changed or vanished. If many files that
// may match do not, a page has fewer hits than its limit, and a Next.
func (x *Index) Search(ctx context.Context, q Query, p Page) (r Result, err error) {
	const mostRead = 1000
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.db == nil {
		return r, errNoIndex
	}
	q = q.folded()
	match, err := x.match(ctx, q)
	if err != nil {
		return r, err
	}
	first, last, err := x.between(ctx, q, p.After)
	if err != nil {
		return r, err
	}
	limit := p.limit()
	for read := 0; ; {
		n := limit - len(r.Hits)
		ids, err := x.candidates(ctx, match, first, last, n+1)
		if err != nil {
			return r, err
		}
		more := len(ids) > n
		ids = ids[:min(n, len(ids))]
		found, err := x.load(ctx, ids)
		if err != nil {
			return r, err
		}
		for _, id := range ids {
			if c := found[id]; c != nil && q.fits(c) {
				r.Hits = append(r.Hits, c.hit(q.Terms))
			}
		}
		read += len(ids)
		if !more || len(r.Hits) == limit || read >= mostRead {
			if more {
				r.Next, err = x.cursorOf(ctx, ids[len(ids)-1])
			}
			return r, err
		}
		first = ids[len(ids)-1] + 1
	}
}

func (x *Index) cursorOf(ctx context.Context, id int64) (string, error) {
	var c cursor
	var k []byte
	err := x.db.QueryRowContext(ctx, "SELECT at, key FROM doc WHERE id=?", id).Scan(&c.at, &k)
	copy(c.key[:], k)
	return c.String(), err
}

// load reads the files of docs, those of one folder together. A doc without a file that may be read is missing.
func (x *Index) load(ctx context.Context, ids []int64) (map[int64]*content, error) {
	found := make(map[int64]*content, len(ids))
	files := make(map[int64][]copied)
	for _, id := range ids {
		copies, err := copiesOf(ctx, x.db, id)
		if err != nil {
			return nil, err
		}
		if files[id] = copies; len(copies) == 0 {
			c, err := x.loadRecord(ctx, id)
			if err != nil {
				return nil, err
			}
			found[id] = c
		}
	}
	for turn := 0; ; turn++ { // first the first copy of each, then the second of those that cannot be read
		type place struct {
			agent schema.AgentName
			box   mailbox.Box
		}
		names := make(map[place]map[string]int64)
		for _, id := range ids {
			if found[id] != nil || turn >= len(files[id]) {
				continue
			}
			f := files[id][turn]
			in := place{f.agent, f.box}
			if names[in] == nil {
				names[in] = make(map[string]int64)
			}
			names[in][f.name] = id
		}
		if len(names) == 0 {
			return found, nil
		}
		for in, wanted := range names {
			list := make([]string, 0, len(wanted))
			for name := range wanted {
				list = append(list, name)
			}
			entries, err := mailbox.Load(ctx, x.w, in.agent, in.box, list)
			if ctx.Err() != nil {
				return nil, fmt.Errorf("reading what was found: %w", context.Cause(ctx))
			}
			_ = err // a folder that cannot be read has no hits
			for _, e := range entries {
				if c, _ := readEntry(x.w, &e); c != nil {
					id := wanted[e.Name]
					c.States = statesOf(boxesOf(files[id]))
					found[id] = c
				}
			}
		}
	}
}
