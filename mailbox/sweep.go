package mailbox

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// NewRepository begins the name of a folder, in a workspace, in which a repository is being made.
const NewRepository = ".git-init-"

// Sweep removes the temporary files that killed processes left in the workspace, and returns their paths. With dryRun, it
// only finds them. No living process needs such a file for an hour.
func Sweep(ctx context.Context, w *Workspace, dryRun bool) (swept []string, err error) {
	err = fs.WalkDir(w.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || ctx.Err() != nil:
			return errors.Join(ignoreMissing(err), context.Cause(ctx))
		case strings.HasPrefix(name, NewRepository), strings.HasPrefix(name, "."+schema.MarkerName),
			d.Type().IsRegular() && durable.IsTemporary(d.Name()) && path.Dir(name) != ".": // beside them are files of the user
		case d.IsDir() && !slices.Contains([]string{".", schema.AgentsName, schema.StateName, "trust"}, topOf(name)):
			return fs.SkipDir // git, or a program of the user
		default:
			return nil
		}
		info, err := d.Info()
		if err == nil && w.now().Sub(info.ModTime()) >= staleAfter {
			if !dryRun {
				err = w.root.RemoveAll(name)
			}
			if err == nil {
				swept = append(swept, filepath.Join(w.dir, name))
			}
		}
		if err == nil && d.IsDir() {
			err = fs.SkipDir
		}
		return ignoreMissing(err)
	})
	return swept, err
}

// topOf returns the first element of a path.
func topOf(name string) string {
	top, _, _ := strings.Cut(name, "/")
	return top
}
