package mirror

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

// Follow is Run, and then again whenever something is new, until the context ends; then it returns
// nil. It calls report after each pass that did something, with the pass's error. What failed, for
// example because the disk is full, is tried again, and reported again only if it fails in another
// way.
//
// Follow returns an error if it cannot start.
func (m *Mirror) Follow(ctx context.Context, report func(Report, error)) error {
	s, err := m.open()
	if err != nil {
		return err
	}
	failure := ""
	for ctx.Err() == nil {
		folders := s.folders()
		// Await watches the folders before its first look, so that it misses nothing. Its only error is the end of ctx.
		_ = watch.Await(ctx, folders, func() (bool, error) {
			s.passOnce(ctx, &failure, report)
			return !slices.Equal(folders, s.folders()), nil
		})
	}
	return nil
}

// passOnce runs a pass and reports it, but not the failure that was reported last.
func (s *session) passOnce(ctx context.Context, failure *string, tell func(Report, error)) {
	var report Report
	err := s.pass(ctx, &report)
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		err = nil
	}
	text := fmt.Sprint(err)
	if text == *failure {
		err = nil
	}
	*failure = text
	if err != nil || !report.quiet() {
		tell(report, err)
	}
}

// folders returns the folders in which something new shows.
func (s *session) folders() []string {
	folders := []string{filepath.Dir(s.Log.Path())}
	if s.direction == In {
		return folders
	}
	folders = append(folders, filepath.Join(s.Workspace.Dir(), schema.AgentsName))
	agents, _ := s.Workspace.Agents() // the pass reports the error
	for _, agent := range agents {
		folders = append(folders, s.Workspace.BoxPath(agent, mailbox.Outbox))
	}
	return folders
}
