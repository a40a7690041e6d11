package gitmail

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
)

// configure writes the settings of the repository. The user's come first, so that those of the
// repository win.
func configure(ctx context.Context, w *mailbox.Workspace, r *git.Repository, s *surroundings, c *choice) error {
	if err := s.include(ctx, w, r); err != nil {
		return err
	}
	settings := [][2]string{
		{"core.autocrlf", "false"}, {"core.fsync", "loose-object,reference"}, {"core.logAllRefUpdates", "false"}, {"gc.auto", "0"},
		{"oacp.remote", c.Remote}, {"oacp.ref", c.Ref}, {"remote.oacp.url", c.URL}, {"remote.oacp.pushurl", c.pushURL},
	}
	if c.URL != "" {
		// So git fetch by hand brings the mailboxes, and not the code.
		settings = append(settings, [2]string{"remote.oacp.fetch", "+" + c.Ref + ":" + trackingRef}, [2]string{"remote.oacp.tagOpt", "--no-tags"})
	}
	file := filepath.Join(r.GitDir, "config")
	for _, entry := range settings {
		args := []string{"config", "--file", file, "--replace-all", entry[0], entry[1]}
		if entry[1] == "" {
			args = []string{"config", "--file", file, "--unset-all", entry[0]}
		}
		// The status is 5 if what is to be unset is not set.
		if _, err := r.Run(ctx, args...); err != nil && git.Exit(err) != 5 {
			return err
		}
	}
	return nil
}

// include puts the user's settings before the repository's: identity, credentials, how to reach the
// remote.
//
// A part of them may be included only for the folder .git of the user's repository: there,
// actions/checkout keeps the credentials of a CI job. Such files are included by their own paths,
// and no others, because some settings, such as http.extraHeader, must not be there twice.
func (s *surroundings) include(ctx context.Context, w *mailbox.Workspace, r *git.Repository) error {
	if s.top == "" {
		return writeIncludes(r)
	}
	workspace, err := filepath.EvalSymlinks(w.Dir())
	if err != nil {
		return err
	}
	shared, err := filepath.Rel(filepath.Join(workspace, gitName), filepath.Join(s.common, "config"))
	if err != nil {
		shared = filepath.Join(s.common, "config") // on another drive
	}
	if err := writeIncludes(r, shared); err != nil {
		return err
	}
	theirs, err := origins(ctx, s.user, "--local")
	if err != nil {
		return err
	}
	ours, err := origins(ctx, r, "--file", filepath.Join(r.GitDir, "config"))
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(theirs, func(file string) bool { return slices.Contains(ours, file) })
	if len(missing) == 0 {
		return nil
	}
	return writeIncludes(r, append([]string{shared}, missing...)...)
}

// origins returns the files that hold the settings of a repository, without links.
func origins(ctx context.Context, r *git.Repository, scope ...string) ([]string, error) {
	out, err := r.Run(ctx, append([]string{"config", "--includes", "-z", "--list", "--show-origin", "--name-only"}, scope...)...)
	if err != nil {
		return nil, err
	}
	var found []string
	for field := range records(out) {
		file, isFile := strings.CutPrefix(field, "file:")
		if !isFile {
			continue // the name of a setting
		}
		if !filepath.IsAbs(file) {
			file = filepath.Join(r.Dir, file)
		}
		if file, err = filepath.EvalSymlinks(file); err == nil && !slices.Contains(found, file) {
			found = append(found, file)
		}
	}
	return found, nil
}

// includeSection begins the settings of a repository that includes those of the user.
const includeSection = "[include]\n"

// writeIncludes replaces the section at the beginning of the settings that includes other files.
func writeIncludes(r *git.Repository, files ...string) error {
	config := filepath.Join(r.GitDir, "config")
	data, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	rest := string(data)
	if strings.HasPrefix(rest, includeSection) {
		_, rest, _ = strings.Cut(rest, "\n[")
		rest = "[" + rest
	}
	var out strings.Builder
	if len(files) > 0 {
		out.WriteString(includeSection)
	}
	for _, file := range files {
		fmt.Fprintf(&out, "\tpath = \"%s\"\n", strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(filepath.ToSlash(file)))
	}
	out.WriteString(rest)
	return durable.Replace(config, []byte(out.String()), 0o644)
}
