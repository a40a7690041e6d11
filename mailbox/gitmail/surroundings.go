package gitmail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
)

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
	remotes             []remote
}

// A remote is one of the user's repository.
type remote struct{ name, url, pushURL string }

func names(remotes []remote) []string {
	var found []string
	for _, r := range remotes {
		found = append(found, r.name)
	}
	return found
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
	workspace, err := filepath.EvalSymlinks(w.Dir())
	if err != nil {
		return nil, err
	}
	if below, err := filepath.Rel(s.top, workspace); err == nil && filepath.IsLocal(below) && below != "." {
		s.below = filepath.ToSlash(below)
	}
	if s.below != "" && lines[1] == "true" {
		// An index that cannot be read is the user's problem, and git reports it.
		if files, err := s.user.Run(ctx, "--literal-pathspecs", "ls-files", "-z", "--", s.below); err == nil && len(files) > 0 {
			return nil, fmt.Errorf("%w: %s has %d of them in %s", ErrTracked, s.top, bytes.Count(files, []byte{0}), s.below)
		}
	}
	s.remotes, err = s.readRemotes(ctx)
	return s, err
}

// absolute returns the path that git, running at the top, means.
func (s *surroundings) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(s.top, path)
}

// readRemotes returns the remotes in the order of the settings, each with its first URLs as they are
// written: rules such as url.<base>.insteadOf apply in the workspace's repository, too.
func (s *surroundings) readRemotes(ctx context.Context) ([]remote, error) {
	out, err := s.user.Run(ctx, "config", "-z", "--get-regexp", `^remote\..*\.(push)?url$`)
	if err != nil && git.Exit(err) != 1 {
		return nil, err
	}
	var found []remote
	for pair := range records(out) {
		key, value, ok := strings.Cut(pair, "\n")
		if !ok {
			continue
		}
		dot := strings.LastIndexByte(key, '.')
		name := strings.TrimPrefix(key[:dot], "remote.")
		at := slices.IndexFunc(found, func(r remote) bool { return r.name == name })
		if at < 0 {
			at = len(found)
			found = append(found, remote{name: name})
		}
		field := &found[at].url
		if strings.EqualFold(key[dot+1:], "pushurl") {
			field = &found[at].pushURL
		}
		if *field == "" {
			*field = s.absoluteURL(value)
		}
	}
	return slices.DeleteFunc(found, func(r remote) bool { return r.url == "" }), nil
}

// absoluteURL makes the relative path of a repository absolute.
func (s *surroundings) absoluteURL(text string) string {
	if !isPath(text) || strings.HasPrefix(text, "~") {
		return text
	}
	return s.absolute(text)
}

// isPath reports whether a URL is a path, by the rule of git: there is no colon before the first
// slash.
func isPath(text string) bool {
	before, _, _ := strings.Cut(text, "/")
	return filepath.IsAbs(text) || !strings.Contains(before, ":")
}

// exclude lists the workspace in the user's exclude file, which all worktrees share, and returns the
// file. Files that are read-only do not matter if the workspace is ignored anyway.
func (s *surroundings) exclude(ctx context.Context) (file string, err error) {
	if s.below == "" {
		return "", nil
	}
	line := excludeLine(s.below)
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
	if _, ignored := s.user.Run(ctx, "check-ignore", "--quiet", "--no-index", "--", s.below); ignored == nil {
		return "", nil
	}
	return "", fmt.Errorf("listing the workspace among those files that git ignores: %w", err)
}

func appendLine(file, line string) (err error) {
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

// excludeLine returns the pattern that matches exactly the folder.
func excludeLine(below string) string {
	var line strings.Builder
	line.WriteByte('/')
	for _, c := range []byte(below) {
		if strings.IndexByte(`\*?[`, c) >= 0 {
			line.WriteByte('\\')
		}
		line.WriteByte(c)
	}
	return line.String() + "/"
}
