package gitmail

import (
	"cmp"
	"context"
	"slices"
)

// nextPiece forgets the piece that was planned and plans another one. It is committed on what was committed of the others.
func nextPiece(ctx context.Context, e *exchange, commit string) (err error) {
	e.edits, e.outcomes, e.size = nil, nil, 0
	clear(e.byKey)
	if e.tip, err = e.view(commit); err != nil {
		return err
	}
	return planPiece(ctx, e)
}

// planPiece plans the next copies: so many that what they hold fits into memory, and all copies of a message together.
func planPiece(ctx context.Context, e *exchange) error {
	const mostBytes = 16 << 20
	defer e.w.Hold()()
	planned := 0
	for _, c := range e.copies {
		full := planned >= e.r.pieceCopies || e.size > mostBytes
		if ctx.Err() != nil || e.failed != nil || full && c.Name != e.copies[planned-1].Name {
			break
		}
		e.planCopy(ctx, c)
		planned++
	}
	e.copies = e.copies[planned:]
	if e.edited == 0 {
		e.planWorkspace()
	}
	e.edited += len(e.edits)
	slices.SortStableFunc(e.edits, func(a, b *edit) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) // ids order the messages of a second
	})
	return cmp.Or(context.Cause(ctx), e.failed)
}
