package command

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// ContractProgram returns the path of the program that checks bodies against the schemas of a
// workspace, or nothing if it is not installed.
func ContractProgram() string { return FindSeparate("contract") }

// CheckSubject returns an error if the subject of a message has several lines.
func CheckSubject(m *schema.Message) error {
	if !strings.ContainsAny(strings.TrimSpace(m.Subject), "\r\n") {
		return nil
	}
	return &failure.Error{
		Code: "invalid_message", Err: errors.New("subject: contains a line break"), Hint: "a subject is one line; the body can have more",
	}
}

// CheckDraft returns the error of CheckSubject, or one if the body of a message is a template in which
// nothing is filled in, or if it does not fit the schemas of the workspace. Every command that sends
// what a person or an agent wrote calls it first. Source is where the body was read from.
func CheckDraft(ctx context.Context, w *mailbox.Workspace, draft *schema.Message, source validate.Source) error {
	if err := CheckSubject(draft); err != nil {
		return err
	}
	if isBlankForm(draft) {
		return &failure.Error{
			Code: "invalid_message", Err: errors.New("body: all of its fields are empty"), Hint: "fill in the values after the colons",
		}
	}
	return contract.CheckDraft(ctx, w.Root(), w.Dir(), ContractProgram, draft, source)
}

// isBlankForm reports whether the body has fields and nothing in them, in a type for which there is a
// template. In other types, a text such as "Done:" only looks like one.
func isBlankForm(m *schema.Message) bool {
	if !slices.Contains(schema.DocumentNames(), string(m.Type)) {
		return false
	}
	fields, ok, _ := validate.BodyFields(m)
	return ok && len(fields.Pairs) > 1 && !isFilledIn(fields)
}

// isFilledIn reports whether there is a text in a value.
func isFilledIn(v schema.Value) bool {
	return strings.TrimSpace(v.Text) != "" || slices.ContainsFunc(v.Items, isFilledIn) ||
		slices.ContainsFunc(v.Pairs, func(p schema.Pair) bool { return isFilledIn(p.Value) })
}
