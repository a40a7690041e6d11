package doctor

import (
	"context"
	"errors"
	"path"

	"github.com/oacp-go/oacp/contract"
)

// contracts reports whether the schemas for bodies can be used.
func (i *inspection) contracts(ctx context.Context) {
	i.category = categoryContracts
	names, err := contract.CheckSchemas(ctx, i.w.Root(), i.w.Dir(), i.Contract)
	for _, name := range names {
		i.add(path.Join(contract.Folder, name+contract.Suffix), SeverityOK, "", "can be applied")
	}
	bad, isBad := errors.AsType[*contract.SchemaError](err)
	switch {
	case isBad:
		for _, d := range bad.Diagnostics {
			i.add(contract.Folder, SeverityError, "fix it, or oacp send refuses the messages that it is for", "%s", d)
		}
	case errors.Is(err, contract.ErrNotInstalled):
		i.add(contract.Folder, SeverityError, "go install ./cmd/... in a clone of the repository installs it", "%v", err)
	case err != nil:
		i.fail(contract.Folder, err)
	}
}
