package git

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Top returns the nearest folder, from the given one upward, that is the top of a git repository, and
// "" if there is none. The top holds a folder .git with a HEAD or, in worktrees and submodules, a file
// .git. Like git, Top does not go up into the folders that GIT_CEILING_DIRECTORIES lists.
func Top(folder string) (string, error) {
	at, err := filepath.Abs(folder)
	if err != nil {
		return "", fmt.Errorf("repository: %w", err)
	}
	ceilings := filepath.SplitList(os.Getenv("GIT_CEILING_DIRECTORIES"))
	for {
		isTop, err := holdsGit(at)
		switch above := filepath.Dir(at); {
		case err != nil:
			return "", fmt.Errorf("repository: %w", err)
		case isTop:
			return at, nil
		case above == at, slices.Contains(ceilings, above):
			return "", nil
		default:
			at = above
		}
	}
}

// holdsGit reports whether a folder is the top of a git repository.
func holdsGit(folder string) (bool, error) {
	path := filepath.Join(folder, ".git")
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		info, err = os.Stat(filepath.Join(path, "HEAD"))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Mode().IsRegular(), err
}

// MainFolder returns the folder in which all worktrees of a git repository look for a workspace,
// given the top of one of them: the main worktree or, if the repository is bare, the folder that
// holds it as .git or .bare. Otherwise, it returns the top itself; submodules have workspaces of their
// own.
func MainFolder(top string) string {
	common, isLinked := CommonFolder(top)
	if name := filepath.Base(common); !isLinked || name != ".git" && name != ".bare" {
		return top
	}
	return filepath.Dir(common)
}

// CommonFolder returns the git folder that all worktrees of a repository share, given the top of one of them, and whether
// that one is a linked worktree.
func CommonFolder(top string) (folder string, isLinked bool) {
	folder = filepath.Join(top, ".git")
	if own, ok := pathIn(folder, "gitdir: "); ok {
		folder = own
	}
	if common, ok := pathIn(filepath.Join(folder, "commondir"), ""); ok {
		return common, true
	}
	return folder, false
}

// RemoteWith returns the name of a remote whose branch of this name was fetched, or "". It reads the files of git.
func RemoteWith(top, branch string) string {
	common, _ := CommonFolder(top)
	names, _ := fs.Glob(os.DirFS(common), "refs/remotes/*/"+branch)
	packed, _ := os.ReadFile(filepath.Join(common, "packed-refs")) // there may be none
	for line := range strings.Lines(string(packed)) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		names = append(names, name)
	}
	for _, name := range names {
		remote, isRemote := strings.CutPrefix(name, "refs/remotes/")
		if remote, isIt := strings.CutSuffix(remote, "/"+branch); isRemote && isIt {
			return remote
		}
	}
	return ""
}

// pathIn returns the path after the prefix in a file of git. It resolves a relative path from the file's folder.
func pathIn(file, prefix string) (string, bool) {
	const longest = 4096
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > longest {
		return "", false
	}
	data, err := os.ReadFile(file)
	path, found := strings.CutPrefix(strings.TrimRight(string(data), "\r\n"), prefix)
	if err != nil || !found || path == "" {
		return "", false
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	return filepath.Clean(path), true
}
