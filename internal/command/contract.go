package command

import (
	"context"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// ContractProgram returns the path of the program that checks bodies against the schemas of a
// workspace, or nothing if it is not installed.
func ContractProgram() string { return FindSeparate("contract") }

// CheckContract returns an error if the body of a message does not fit the schemas of the workspace.
// Every command that sends what a person or an agent wrote calls it first. BodyFile is the file that
// the text of the body was read from, or empty.
func CheckContract(ctx context.Context, w *mailbox.Workspace, draft *schema.Message, bodyFile string) error {
	return contract.CheckDraft(ctx, w.Root(), w.Dir(), ContractProgram, draft, bodyFile)
}
