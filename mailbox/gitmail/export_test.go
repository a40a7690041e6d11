package gitmail

import (
	"context"
	"errors"

	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox/replica"
)

// SetStep makes Sync call step with the name of each step that it has reached.
func (r *Repository) SetStep(step func(name string)) { r.step = step }

// SetPiece makes Sync plan that many copies of messages at once.
func (r *Repository) SetPiece(copies int) { r.pieceCopies = copies }

// Git returns the repository for commands of git.
func (r *Repository) Git() *git.Repository { return r.git }

// Known returns what the workspace last agreed on with the other machines.
func (r *Repository) Known(ctx context.Context, of []replica.Copy) (map[replica.Copy]facts.Set, error) {
	refs, err := r.git.Refs(ctx, baseRef)
	if err != nil {
		return nil, err
	}
	s := newStore(ctx, r.git)
	defer s.Close()
	v, err := s.view(refs[baseRef])
	known := make(map[replica.Copy]facts.Set)
	for _, c := range of {
		known[c] = v.look(c).Set
	}
	return known, errors.Join(err, s.failed)
}
