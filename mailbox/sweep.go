package mailbox

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// Sweep removes the temporary files that killed processes left in the folders of agents and in state, and returns their
// paths. With dryRun, it only finds them. No living process needs such a file for an hour.
func Sweep(ctx context.Context, w *Workspace, dryRun bool) (swept []string, err error) {
	var failed error
	for _, top := range []string{schema.AgentsName, schema.StateName} {
		failed = errors.Join(failed, fs.WalkDir(w.root.FS(), top, func(name string, d fs.DirEntry, err error) error {
			if err != nil || ctx.Err() != nil || !d.Type().IsRegular() || !durable.IsTemporary(d.Name()) {
				return errors.Join(ignoreMissing(err), context.Cause(ctx))
			}
			info, err := d.Info()
			if err != nil || w.now().Sub(info.ModTime()) < staleAfter {
				return ignoreMissing(err)
			}
			if !dryRun {
				err = w.root.Remove(name)
			}
			if err == nil {
				swept = append(swept, filepath.Join(w.dir, name))
			}
			return ignoreMissing(err)
		}))
	}
	return swept, failed
}
