package web

import (
	"errors"
	"net/http"
	"slices"
	"syscall"

	"github.com/oacp-go/oacp/bridge"
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

// statusOf returns the HTTP status of an error.
func statusOf(err error) int {
	switch {
	case is[*mailbox.NotFoundError](err), is[*mailbox.UnknownAgentError](err), is[*mailbox.ShortIDError](err), errors.Is(err, mailbox.ErrNoCopy), errors.Is(err, bridge.ErrNoRun):
		return http.StatusNotFound
	case is[*track.AnsweredError](err), is[*track.BusyError](err), is[*mailbox.NotPendingError](err), is[*mailbox.AmbiguousError](err):
		return http.StatusConflict
	case is[*schema.NoChoiceError](err), slices.Contains([]string{failure.CodeUsage, "invalid_message", "secret"}, failure.Of(err).Code):
		return http.StatusUnprocessableEntity
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return http.StatusInsufficientStorage
	}
	return http.StatusInternalServerError
}
