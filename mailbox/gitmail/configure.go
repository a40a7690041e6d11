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
)

// configure writes the settings of the repository. The user's come first, so that those of the
// repository win.
func (r *Repository) configure(ctx context.Context, around *surroundings) error {
	if err := r.include(ctx, around); err != nil {
		return err
	}
	s, fetch, noTags := r.settings, "", ""
	if s.URL != "" {
		// So git fetch by hand brings the mailboxes, and not the code.
		fetch, noTags = "+"+s.Ref+":"+trackingRef, "--no-tags"
	}
	for _, entry := range [][2]string{
		{"core.autocrlf", "false"}, {"core.fsync", "loose-object,reference"}, {"core.logAllRefUpdates", "false"}, {"gc.auto", "0"},
		{"oacp.remote", s.Remote}, {"oacp.ref", s.Ref}, {"oacp.since", s.Since}, {"remote.oacp.url", s.URL}, {"remote.oacp.pushurl", s.pushURL},
		{"remote.oacp.fetch", fetch}, {"remote.oacp.tagOpt", noTags},
	} {
		args := append([]string{"config", "--file", r.configFile(), "--replace-all"}, entry[:]...)
		if entry[1] == "" {
			args = []string{"config", "--file", r.configFile(), "--unset-all", entry[0]}
		}
		// The status is 5 if what is to be unset is not set.
		if _, err := r.git.Run(ctx, args...); err != nil && git.Exit(err) != 5 {
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
func (r *Repository) include(ctx context.Context, around *surroundings) error {
	if around.top == "" {
		return r.writeIncludes()
	}
	shared := filepath.Join(around.common, "config")
	if workspace, err := filepath.EvalSymlinks(r.w.Dir()); err != nil {
		return err
	} else if below, err := filepath.Rel(filepath.Join(workspace, gitName), shared); err == nil { // else on another drive
		shared = below
	}
	if err := r.writeIncludes(shared); err != nil {
		return err
	}
	theirs, err := origins(ctx, around.user, "--local")
	if err != nil {
		return err
	}
	ours, err := origins(ctx, r.git, "--file", r.configFile())
	missing := slices.DeleteFunc(theirs, func(file string) bool { return slices.Contains(ours, file) })
	if err != nil || len(missing) == 0 {
		return err
	}
	return r.writeIncludes(append([]string{shared}, missing...)...)
}

// origins returns the files that hold the settings of a repository, without links.
func origins(ctx context.Context, g *git.Repository, scope ...string) (found []string, err error) {
	out, err := g.Run(ctx, append([]string{"config", "--includes", "-z", "--list", "--show-origin", "--name-only"}, scope...)...)
	for field := range records(out) {
		file, isFile := strings.CutPrefix(field, "file:")
		if !isFile {
			continue // the name of a setting
		}
		if !filepath.IsAbs(file) {
			file = filepath.Join(g.Dir, file)
		}
		if file, err := filepath.EvalSymlinks(file); err == nil && !slices.Contains(found, file) {
			found = append(found, file)
		}
	}
	return found, err
}

// configFile is the file with the settings of the repository.
func (r *Repository) configFile() string { return filepath.Join(r.git.GitDir, "config") }

// writeIncludes replaces the section at the beginning of the settings that includes other files.
func (r *Repository) writeIncludes(files ...string) error {
	const section = "[include]\n"
	data, err := os.ReadFile(r.configFile())
	if err != nil {
		return err
	}
	rest, quoted := string(data), strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	if strings.HasPrefix(rest, section) {
		_, rest, _ = strings.Cut(rest, "\n[")
		rest = "[" + rest
	}
	text := ""
	for _, file := range files {
		text += fmt.Sprintf("\tpath = \"%s\"\n", quoted.Replace(filepath.ToSlash(file)))
	}
	if text != "" {
		text = section + text
	}
	return durable.Replace(r.configFile(), []byte(text+rest), 0o644)
}
