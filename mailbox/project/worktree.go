package project

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
)

// MainFolder returns the folder in which all worktrees of a git repository look for a workspace,
// given the top of one of them: the main worktree or, if the repository is bare, the folder that
// holds it as .git or .bare. If there is no such folder, it returns the top itself, as it does for
// submodules, which have their own.
func MainFolder(top string) string {
	folder, ok := pathIn(filepath.Join(top, ".git"), "gitdir: ")
	if !ok {
		return top
	}
	common, ok := pathIn(filepath.Join(folder, "commondir"), "")
	if !ok {
		return top
	}
	if name := filepath.Base(common); name != ".git" && name != ".bare" {
		return top
	}
	return filepath.Dir(common)
}

// original returns the workspace in the main worktree that the one in a linked worktree is a copy of, and
// otherwise the workspace itself. A copy was created at the same time.
func original(dir string) string {
	for top := dir; ; top = filepath.Dir(top) {
		if main := MainFolder(top); main != top {
			below, err := filepath.Rel(top, dir)
			first := filepath.Join(main, below)
			if err != nil || !isWorkspace(first) {
				return dir
			}
			copied, err := markerIn(dir)
			if m, firstErr := markerIn(first); err == nil && firstErr == nil && m.CreatedAt != "" && m.CreatedAt == copied.CreatedAt {
				return first
			}
			return dir
		}
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil || top == filepath.Dir(top) {
			return dir
		}
	}
}

// maxPath bounds the files of git that hold a path, in bytes.
const maxPath = 4096

// pathIn returns the path that a file of git holds behind the prefix, relative to the file's folder.
func pathIn(file, prefix string) (string, bool) {
	f, err := durable.OpenRegular(file, os.O_RDONLY, 0)
	if err != nil {
		return "", false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPath))
	path, found := strings.CutPrefix(strings.TrimRight(string(data), "\r\n"), prefix)
	if err != nil || !found || path == "" {
		return "", false
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	return filepath.Clean(path), true
}
