package search

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
)

// gap is the distance of the numbers of docs that are neighbors. Small ones make a small index.
const gap = 32

// start is the number of the first doc of all. Zero, the doc of files that cannot be read, is too far to be reached.
const start = 1 << 40

// errNoRoom reports that so many docs came between two others that there are no numbers left.
var errNoRoom = errors.New("no numbers are left in the search index")

// number numbers new docs, so that a newer one has a lower number.
func (x *Index) number(ctx context.Context, docs []*doc) error {
	slices.SortFunc(docs, func(a, b *doc) int { return cmp.Or(cmp.Compare(b.at, a.at), slices.Compare(a.key[:], b.key[:])) })
	for len(docs) > 0 {
		// The newest goes between its neighbors, with all others that are newer than the older neighbor.
		newer, hasNewer, err := x.neighbor(ctx, "SELECT id, at FROM doc WHERE at>? ORDER BY at, id DESC LIMIT 1", docs[0].at)
		if err != nil {
			return err
		}
		older, hasOlder, err := x.neighbor(ctx, "SELECT id, at FROM doc WHERE at<=? ORDER BY at DESC, id LIMIT 1", docs[0].at)
		if err != nil {
			return err
		}
		n := slices.IndexFunc(docs, func(d *doc) bool { return hasOlder && d.at < older.at })
		if n < 0 {
			n = len(docs)
		}
		step := int64(gap)
		first := int64(start)
		switch {
		case hasNewer && hasOlder:
			if step = (older.id - newer.id) / int64(n+1); step == 0 {
				return errNoRoom
			}
			first = newer.id + step
		case hasNewer:
			first = newer.id + step
		case hasOlder:
			first = older.id - step*int64(n)
		}
		for i, d := range docs[:n] {
			d.id = first + int64(i)*step
		}
		docs = docs[n:]
	}
	return nil
}

func (x *Index) neighbor(ctx context.Context, query string, at int64) (d doc, found bool, err error) {
	err = x.db.QueryRowContext(ctx, query, at).Scan(&d.id, &d.at)
	if errors.Is(err, sql.ErrNoRows) {
		return d, false, nil
	}
	return d, err == nil, err
}
