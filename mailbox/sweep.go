package mailbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// NewRepository begins the name of a folder, in a workspace, in which a repository is being made.
const NewRepository = ".git-init-"

// Sweep removes the temporary files that killed processes left in the workspace, and beside the keys of its user, and returns
// their paths. With dryRun, it only finds them. No living process needs such a file for an hour.
func Sweep(ctx context.Context, w *Workspace, dryRun bool) (swept []string, err error) {
	walk := func(root *os.Root, dir string, isTemporary func(name string, d fs.DirEntry) (bool, error)) error {
		return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || ctx.Err() != nil {
				return errors.Join(ignoreMissing(err), context.Cause(ctx))
			}
			if temporary, err := isTemporary(name, d); !temporary {
				return err
			}
			info, err := d.Info()
			if err == nil && w.now().Sub(info.ModTime()) >= staleAfter {
				if !dryRun {
					err = root.RemoveAll(name)
				}
				if err == nil {
					swept = append(swept, filepath.Join(dir, name))
				}
			}
			if err == nil && d.IsDir() {
				err = fs.SkipDir
			}
			return ignoreMissing(err)
		})
	}
	err = walk(w.root, w.dir, func(name string, d fs.DirEntry) (bool, error) {
		switch {
		case strings.HasPrefix(name, NewRepository), strings.HasPrefix(name, "."+schema.MarkerName),
			d.Type().IsRegular() && durable.IsTemporary(d.Name()) && path.Dir(name) != ".": // beside them are files of the user
			return true, nil
		case d.IsDir() && !slices.Contains([]string{".", schema.AgentsName, schema.StateName, "trust"}, topOf(name)):
			return false, fs.SkipDir // git, or a program of the user
		}
		return false, nil
	})
	home, homeErr := w.Home()
	if home == "" {
		return swept, errors.Join(err, homeErr)
	}
	keys := filepath.Join(home, "keys")
	root, openErr := durable.OpenRoot(keys)
	if openErr != nil {
		return swept, err // there are none, or this process may not open them
	}
	defer root.Close()
	return swept, errors.Join(err, walk(root, keys, func(_ string, d fs.DirEntry) (bool, error) {
		return d.Type().IsRegular() && durable.IsTemporary(d.Name()), nil
	}))
}

// topOf returns the first element of a path.
func topOf(name string) string {
	top, _, _ := strings.Cut(name, "/")
	return top
}
