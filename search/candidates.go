package search

import (
	"context"
	"slices"
)

// Candidates brings the index in step, and returns the names of all files that may have the words in subject or body,
// and of those that only reading can tell, each once and sorted. Many is true instead if they are more than most.
func (x *Index) Candidates(ctx context.Context, words []string, most int) (names []string, many bool, err error) {
	if err := x.Update(ctx); err != nil {
		return nil, false, err
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	match, err := x.match(ctx, Query{Terms: words}.folded())
	if err != nil {
		return nil, false, err
	}
	ids, err := x.candidates(ctx, match, 0, 1<<62, most+1)
	if err != nil || len(ids) > most {
		return nil, err == nil, err
	}
	// A file that is not valid counts as its sender's copy of that name, or its name counts as its subject.
	names, err = column[string](ctx, x.db, "SELECT name FROM file WHERE doc=0 OR doc IN (SELECT id FROM doc WHERE invalid)")
	if err != nil {
		return nil, false, err
	}
	for _, id := range ids {
		copies, err := copiesOf(ctx, x.db, id)
		if err != nil {
			return nil, false, err
		}
		for _, c := range copies {
			names = append(names, c.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), false, nil
}
