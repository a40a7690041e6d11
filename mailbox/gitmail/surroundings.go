package gitmail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
)

// ErrTracked says that the user's repository has files of the workspace under version control.
var ErrTracked = errors.New("the repository has files of the workspace under version control")

// surroundings are the user's repository, seen from a workspace.
type surroundings struct {
	// user runs git in the user's repository, or in the workspace if there is none.
	user *git.Repository
	// top is the top of the user's repository, without links, or empty.
	top string
	// below is the path of the workspace below top. It is empty if the workspace is elsewhere.
	below string
	// common is the git folder that the user's worktrees share, and excludeFile a file in it.
	common, excludeFile string
	objectFormat        string
	// urls and pushURLs are those of the remotes by name, the first ones as they are written: rules such as
	// url.<base>.insteadOf apply in the workspace's repository, too.
	urls, pushURLs map[string]string
}

// openSurroundings looks at the user's repository, whose top may be empty. It returns an error
// matching ErrTracked if that repository has files of the workspace under version control.
func openSurroundings(ctx context.Context, w *mailbox.Workspace, top string) (s *surroundings, err error) {
	s = &surroundings{user: &git.Repository{Dir: w.Dir()}, objectFormat: "sha1"}
	if top == "" {
		return s, nil
	}
	if s.top, err = filepath.EvalSymlinks(top); err != nil {
		return nil, err
	}
	workspace, err := filepath.EvalSymlinks(w.Dir())
	if err != nil {
		return nil, err
	}
	if below, err := filepath.Rel(s.top, workspace); err == nil && filepath.IsLocal(below) && below != "." {
		s.below = filepath.ToSlash(below)
	}
	s.user.Dir = s.top
	out, err := s.user.Run(ctx, "rev-parse", "--show-object-format", "--is-inside-work-tree", "--git-common-dir", "--git-path", "info/exclude")
	if err != nil {
		return nil, err
	}
	lines := strings.SplitN(strings.TrimSuffix(string(out), "\n"), "\n", 4)
	if len(lines) != 4 {
		return nil, fmt.Errorf("git rev-parse printed %.200q", out)
	}
	s.objectFormat, s.common, s.excludeFile = lines[0], s.absolute(lines[2]), s.absolute(lines[3])
	if s.below != "" && lines[1] == "true" {
		// An index that cannot be read is the user's problem, and git reports it.
		if files, err := s.user.Run(ctx, "--literal-pathspecs", "ls-files", "-z", "--", s.below); err == nil && len(files) > 0 {
			return nil, fmt.Errorf("%w: %s has %d of them in %s", ErrTracked, s.top, bytes.Count(files, []byte{0}), s.below)
		}
	}
	return s, s.readRemotes(ctx)
}

// absolute returns the path that git, running at the top, means.
func (s *surroundings) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(s.top, path)
}

func (s *surroundings) readRemotes(ctx context.Context) error {
	out, err := s.user.Run(ctx, "config", "-z", "--get-regexp", `^remote\..*\.(push)?url$`)
	if err != nil && git.Exit(err) != 1 {
		return err
	}
	s.urls, s.pushURLs = make(map[string]string), make(map[string]string)
	for pair := range records(out) {
		key, value, _ := strings.Cut(pair, "\n")
		dot := strings.LastIndexByte(key, '.')
		into, name := s.urls, strings.TrimPrefix(key[:dot], "remote.")
		if key[dot:] == ".pushurl" {
			into = s.pushURLs
		}
		if value != "" && isPath(value) && !strings.HasPrefix(value, "~") {
			value = s.absolute(value)
		}
		if value != "" && into[name] == "" {
			into[name] = value
		}
	}
	return nil
}

// remotes returns the names of the user's remotes.
func (s *surroundings) remotes() []string { return slices.Sorted(maps.Keys(s.urls)) }

// isPath reports whether a URL is a path, by the rule of git: there is no colon before the first
// slash.
func isPath(text string) bool {
	before, _, _ := strings.Cut(text, "/")
	return filepath.IsAbs(text) || !strings.Contains(before, ":")
}

// isIgnored reports whether the user's repository does not show the workspace.
func (s *surroundings) isIgnored(ctx context.Context) (bool, error) {
	if s.below == "" {
		return true, nil
	}
	_, err := s.user.Run(ctx, "check-ignore", "--quiet", "--no-index", "--", s.below)
	if git.Exit(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// literal writes a path as a pattern that matches nothing else.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// exclude lists the workspace in the user's exclude file, which all worktrees share, and returns the
// file. Files that are read-only do not matter if the workspace is ignored anyway.
func (s *surroundings) exclude(ctx context.Context) (file string, err error) {
	if s.below == "" {
		return "", nil
	}
	line := "/" + literal.Replace(s.below) + "/"
	data, err := os.ReadFile(s.excludeFile)
	if slices.Contains(strings.Split(string(data), "\n"), line) {
		return s.excludeFile, nil
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		line = "\n" + line
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = appendLine(s.excludeFile, line+"\n")
	}
	if err == nil {
		return s.excludeFile, nil
	}
	if ignored, _ := s.isIgnored(ctx); ignored {
		return "", nil
	}
	return "", fmt.Errorf("listing the workspace among those files that git ignores: %w", err)
}

func appendLine(file, line string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}
