package doctor

import (
	"context"
	"errors"
	"path"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/mailbox"
)

// Schemas reports what is wrong with the workspace's schemas for bodies, or that they can be applied.
// It returns nothing if there are none. Program is the path of oacp-contract, or empty.
func Schemas(ctx context.Context, w *mailbox.Workspace, program string) []Finding {
	names, err := contract.Problems(ctx, w.Root(), w.Dir(), program)
	finding := func(name string, severity Severity, hint, message string) Finding {
		return Finding{Category: categoryContracts, Name: name, Severity: severity, Message: message, Hint: hint}
	}
	var findings []Finding
	for _, name := range names {
		findings = append(findings, finding(path.Join(contract.Folder, name+contract.Suffix), SeverityOK, "", "can be applied"))
	}
	bad, isBad := errors.AsType[*contract.SchemaError](err)
	switch {
	case isBad:
		for _, d := range bad.Diagnostics {
			findings = append(findings, finding(contract.Folder, SeverityError, "mend it, or nothing can be sent that it is for", d.String()))
		}
	case errors.Is(err, contract.ErrNotInstalled):
		findings = append(findings, finding(contract.Folder, SeverityError, "go install ./cmd/... in a clone of the repository installs it", err.Error()))
	case err != nil:
		findings = append(findings, finding(contract.Folder, SeverityError, "", err.Error()))
	}
	return findings
}
