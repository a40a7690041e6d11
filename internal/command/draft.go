package command

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/secrets"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
	"github.com/oacp-go/oacp/validate"
)

// ContractProgram returns the path of the program that checks bodies against the schemas of a
// workspace, or nothing if it is not installed.
func ContractProgram() string { return FindSeparate("contract") }

// checkSubject returns an error if the subject of a message has several lines.
func checkSubject(m *schema.Message) error {
	if !strings.ContainsAny(strings.TrimSpace(m.Subject), "\r\n") {
		return nil
	}
	return &failure.Error{
		Code: "invalid_message", Err: errors.New("subject: contains a line break"), Hint: "a subject is one line; the body can have more",
	}
}

// checkSecrets returns a *secrets.Error if a message has what looks like a key, unless it allows that.
func checkSecrets(m *schema.Message) error {
	if m.AllowsSecret() {
		return nil
	}
	return cmp.Or(secrets.Check("subject", m.Subject), secrets.Check("context_keys", m.ContextKeys), secrets.Check("body", m.BodyText()))
}

// PrepareDraft counts the turn from within which a message is sent, and then is CheckDraft. Every command that sends what a
// person or an agent wrote calls it first.
func PrepareDraft(ctx context.Context, w *mailbox.Workspace, draft *schema.Message, source validate.Source) error {
	if err := track.InheritHops(w, draft); err != nil {
		return err
	}
	return CheckDraft(ctx, w, draft, source)
}

// CheckDraft returns an error if the subject of a message has several lines, if the message has what looks like a key and
// does not allow that, or if the body does not match the schemas of the workspace. Source is where the body was read from.
func CheckDraft(ctx context.Context, w *mailbox.Workspace, draft *schema.Message, source validate.Source) error {
	if err := checkSubject(draft); err != nil {
		return err
	}
	if err := checkSecrets(draft); err != nil {
		return err
	}
	return contract.CheckDraft(ctx, w.Root(), w.Dir(), ContractProgram, draft, source)
}
