package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/failure"
)

// ErrTracked says that a user's repository has files of a workspace under version control.
var ErrTracked = failure.New("tracked", "the repository has files of the workspace under version control",
	"git rm -r --cached FOLDER removes them from the next commit and keeps the files; oacp commit commits their mail with the code")

// Enclosing is the repository that a user works in, and a folder, which is usually inside it.
type Enclosing struct {
	// Repository runs git at the top, or in the folder if there is no repository.
	*Repository
	// top is the top of the repository, or empty, and folder the folder, both without symbolic links. below is the path
	// of the folder below the top, with slashes; it is empty if the folder is not below the top.
	top, folder, below string
	// common is the git folder that all work trees share.
	common string
	// ObjectFormat is sha1 or sha256.
	ObjectFormat string
	// Remotes are the remotes by name. Their URLs are as the user wrote them, because rules such as url.<base>.insteadOf
	// apply in every repository, but paths are absolute.
	Remotes map[string]Remote
}

// Remote is a remote in a user's settings. PushURL is empty unless it is set.
type Remote struct{ URL, PushURL string }

// Enclose reads the repository with the top, which may be empty. It returns an error matching ErrTracked if the repository
// has files in the folder under version control.
func Enclose(ctx context.Context, folder, top string) (e *Enclosing, err error) {
	e = &Enclosing{Repository: &Repository{Dir: folder}, ObjectFormat: "sha1"}
	if top == "" {
		return e, nil
	}
	if e.top, err = filepath.EvalSymlinks(top); err != nil {
		return nil, err
	}
	if e.folder, err = filepath.EvalSymlinks(folder); err != nil {
		return nil, err
	}
	if below, err := filepath.Rel(e.top, e.folder); err == nil && filepath.IsLocal(below) && below != "." {
		e.below = filepath.ToSlash(below)
	}
	e.Dir = e.top
	out, err := e.Run(ctx, "rev-parse", "--show-object-format", "--is-inside-work-tree", "--git-common-dir")
	if err != nil {
		return nil, err
	}
	lines := strings.SplitN(strings.TrimSuffix(string(out), "\n"), "\n", 3)
	if len(lines) != 3 {
		return nil, fmt.Errorf("git rev-parse: %w: %.200q", errOutput, out)
	}
	e.ObjectFormat, e.common = lines[0], e.absolute(lines[2])
	if e.below != "" && lines[1] == "true" {
		if err := CheckUntracked(ctx, e.top, e.below); err != nil {
			return nil, err
		}
	}
	return e, e.readRemotes(ctx)
}

// CheckUntracked returns an error matching ErrTracked if the repository with the top has files with one of the names, or in
// folders with one, under version control. An index that cannot be read is the user's problem, and git reports it.
func CheckUntracked(ctx context.Context, top string, names ...string) error {
	args := append([]string{"--literal-pathspecs", "ls-files", "-z", "--"}, names...)
	files, err := (&Repository{Dir: top}).Run(ctx, args...)
	if first, _, some := bytes.Cut(files, []byte{0}); err == nil && some {
		return fmt.Errorf("%w: %s has %d of them, such as %s", ErrTracked, top, bytes.Count(files, []byte{0}), first)
	}
	return nil
}

// absolute returns a path that may be relative to the top as an absolute one.
func (e *Enclosing) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(e.top, path)
}

func (e *Enclosing) readRemotes(ctx context.Context) error {
	out, err := e.Run(ctx, "config", "-z", "--get-regexp", `^remote\..*\.(push)?url$`)
	if err != nil && Exit(err) != 1 {
		return err
	}
	urls, pushURLs := make(map[string]string), make(map[string]string)
	for pair := range Records(out) {
		key, value, _ := strings.Cut(pair, "\n")
		dot := strings.LastIndexByte(key, '.')
		into, name := urls, strings.TrimPrefix(key[:dot], "remote.")
		if key[dot:] == ".pushurl" {
			into = pushURLs
		}
		if value != "" && IsPath(value) && !strings.HasPrefix(value, "~") {
			value = e.absolute(value)
		}
		if value != "" && into[name] == "" {
			into[name] = value
		}
	}
	e.Remotes = make(map[string]Remote)
	for name, url := range urls {
		e.Remotes[name] = Remote{URL: url, PushURL: pushURLs[name]}
	}
	return nil
}

// UsualRemote returns the name of the remote that the user's branch follows, or else origin, or else the only one, or else
// none.
func (e *Enclosing) UsualRemote(ctx context.Context) string {
	upstream, _ := e.Run(ctx, "for-each-ref", "--format=%(if)%(HEAD)%(then)%(upstream:remotename)%(end)", "refs/heads/") // it may follow none
	for _, usual := range []string{strings.TrimSpace(string(upstream)), "origin"} {
		if _, known := e.Remotes[usual]; known {
			return usual
		}
	}
	if len(e.Remotes) == 1 {
		return slices.Collect(maps.Keys(e.Remotes))[0]
	}
	return ""
}

// SettingsFiles returns the files with the settings of the repository: its own, and those that it includes only for its
// git folder. The path of its own file is relative to the folder gitDir in the folder, if possible.
func (e *Enclosing) SettingsFiles(ctx context.Context, gitDir string) (files []string, err error) {
	if e.top == "" {
		return nil, nil
	}
	file := filepath.Join(e.common, "config")
	if below, err := filepath.Rel(filepath.Join(e.folder, gitDir), file); err == nil { // otherwise it is on another drive
		file = below
	}
	files = append(files, file)
	out, err := e.Run(ctx, "config", "--local", "--type=path", "-z", "--get-regexp", `^includeif\.gitdir.*\.path$`)
	for pair := range Records(out) {
		_, file, _ := strings.Cut(pair, "\n")
		if !filepath.IsAbs(file) {
			file = filepath.Join(e.common, file)
		}
		if _, err := os.Stat(file); err == nil && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	if Exit(err) == 1 { // there are none
		err = nil
	}
	return files, err
}

// IsIgnored reports whether the repository ignores the folder. It is true for a folder that is not below the top.
func (e *Enclosing) IsIgnored(ctx context.Context) (bool, error) {
	if e.below == "" {
		return true, nil
	}
	_, err := e.Run(ctx, "check-ignore", "--quiet", "--no-index", "--", e.below)
	if Exit(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// literal escapes a path, so that the pattern matches nothing else.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// Exclude lists the folder in info/exclude, which all work trees share, and returns the path of that file. It returns no
// path if the folder is not below the top, or if the file cannot be written but git ignores the folder anyway.
func (e *Enclosing) Exclude(ctx context.Context) (file string, err error) {
	if e.below == "" {
		return "", nil
	}
	file = filepath.Join(e.common, "info", "exclude")
	if err = appendLine(file, "/"+literal.Replace(e.below)+"/"); err == nil {
		return file, nil
	}
	if ignored, _ := e.IsIgnored(ctx); ignored {
		return "", nil
	}
	return "", fmt.Errorf("listing the workspace among those files that git ignores: %w", err)
}

// appendLine adds a line to a file unless the file has it.
func appendLine(file, line string) error {
	data, err := os.ReadFile(file)
	if slices.Contains(strings.Split(string(data), "\n"), line) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		line = "\n" + line
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// IsPath reports whether a URL is a path, by the rule of git: there is no colon before the first slash.
func IsPath(url string) bool {
	before, _, _ := strings.Cut(url, "/")
	return filepath.IsAbs(url) || !strings.Contains(before, ":")
}

// PublicURL returns a URL without the parts that may be secret: the password, the query, and for http the user,
// which may be a token.
func PublicURL(text string) string {
	scheme, _, isURL := strings.Cut(text, "://")
	if !isURL {
		return text // a path, a name, or user@host:path, which has no password
	}
	u, err := url.Parse(text)
	if err != nil {
		return scheme + "://(not a valid URL)"
	}
	u.RawQuery, u.Fragment, u.RawFragment = "", "", ""
	name := u.User.Username()
	if u.User = nil; name != "" && strings.Contains(u.Scheme, "ssh") {
		u.User = url.User(name)
	}
	return u.String()
}
