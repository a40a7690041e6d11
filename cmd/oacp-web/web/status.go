package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"syscall"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// is reports whether the error is one of the type E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// errGone reports that the workspace was deleted, moved or unmounted.
var errGone = errors.New("the workspace is gone: its folder was deleted, moved or unmounted, so nothing is known about the mail in it")

// checkThere returns an error if the workspace is no longer at its path. An empty page would say that nothing waits.
func (s *Server) checkThere() error {
	open, err := s.w.Root().Stat(".")
	at, pathErr := os.Stat(s.w.Dir())
	_, agentsErr := s.w.Root().Stat(schema.AgentsName)
	if err = cmp.Or(err, pathErr, agentsErr); err != nil || !os.SameFile(open, at) {
		return failure.WithHint(fmt.Errorf("%w: %s", errGone, s.w.Dir()), "put it back, or start oacp web again where it is now")
	}
	return nil
}

// statusOf returns the HTTP status of an error.
func statusOf(err error) int {
	switch {
	case is[*mailbox.HeldError](err):
		return http.StatusForbidden
	case is[*mailbox.NotFoundError](err), is[*mailbox.UnknownAgentError](err), is[*mailbox.ShortIDError](err), errors.Is(err, mailbox.ErrNoCopy), errors.Is(err, bridge.ErrNoRun):
		return http.StatusNotFound
	case is[*client.RecalledError](err), is[*track.AnsweredError](err), is[*track.BusyError](err), is[*mailbox.NotPendingError](err), is[*mailbox.AmbiguousError](err):
		return http.StatusConflict
	case is[*schema.NoChoiceError](err), slices.Contains([]string{failure.CodeUsage, "invalid_message", "secret"}, failure.Of(err).Code):
		return http.StatusUnprocessableEntity
	case errors.Is(err, errGone):
		return http.StatusServiceUnavailable
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return http.StatusInsufficientStorage
	}
	return http.StatusInternalServerError
}
