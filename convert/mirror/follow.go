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

// Follow copies what is new, and does so again whenever something changes. It returns nil when the context ends,
// and an error only if it cannot start. After each pass that did something or failed, Follow calls report.
// It retries what failed, for example because the disk is full, and does not report the same error twice in
// a row.
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

// passOnce runs a pass and reports it, unless it did nothing or failed only as the last one did.
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

func (s *session) folders() []string {
	folders := []string{filepath.Dir(s.Log.Path())}
	if s.Direction == In {
		return folders
	}
	folders = append(folders, filepath.Join(s.Workspace.Dir(), schema.AgentsName))
	agents, _ := s.Workspace.Agents() // the pass reports the error
	for _, agent := range agents {
		folders = append(folders, s.Workspace.BoxPath(agent, mailbox.Outbox))
	}
	return folders
}
