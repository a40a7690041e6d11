package gitmail

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// InitOptions says with which branch of which remote a workspace will sync.
type InitOptions struct {
	// Remote is the name of a remote of the user's repository, or a URL, or a path, and Ref the ref there, such as
	// refs/heads/oacp. If one is empty, the workspace keeps its setting. A new workspace gets the remote that the user's
	// branch follows, or else origin, or else the only one, or else none; and DefaultRef.
	Remote, Ref string
	// Local leaves a new workspace without a remote.
	Local bool
	// Enclosing is the top of the user's repository, or empty. It need not hold the workspace.
	Enclosing string
	// All makes a workspace take all mail, and Pending only pending mail. By default, a new workspace takes pending
	// mail and what was handled or given up in the last week.
	All, Pending bool
}

// Initialized says what Init did and found.
type Initialized struct {
	// Settings are the new ones. Remote and URL may hold a password; git.PublicURL removes that.
	Settings
	// Created says that the workspace had no repository before, Found that the remote has the ref, and Joined that
	// the workspace has not synced with it yet.
	Created, Found, Joined bool
	// Agents are the agents with mailboxes there.
	Agents []schema.AgentName
	// Excluded is the file in the user's repository in which Init listed the workspace, or empty.
	Excluded string
	// Unreachable is the error if the remote did not answer.
	Unreachable error
	// Remotes are the remotes of the user's repository. If there are several, Init may choose none.
	Remotes []string

	// old says that the remote has only the branch of an earlier version.
	old bool
}

// Init gives the workspace a git repository of its own, or completes the one that it has: it records the remote and
// the ref, lists the workspace in the exclude file of the user's repository, and fetches the ref if the remote has
// it. It sends nothing. If the workspace has no workspace.json, it gets that of the remote. The repository has no work
// tree, so git refuses to commit, clean or check out in the workspace.
func Init(ctx context.Context, w *mailbox.Workspace, options InitOptions) (made Initialized, err error) {
	if err := git.Check(ctx); err != nil {
		return made, err
	}
	before, err := inspect(ctx, w)
	made.Created = errors.Is(err, ErrNoRepository)
	if err != nil && !made.Created {
		return made, err
	}
	around, err := git.Enclose(ctx, w.Dir(), options.Enclosing)
	if err != nil {
		return made, err
	}
	made.Remotes = slices.Sorted(maps.Keys(around.Remotes))
	if made.Settings, err = choose(ctx, around, options, before); err != nil {
		return made, err
	}
	var format string
	made.Found, made.old, format, made.Unreachable = ask(ctx, around, made.Settings)
	if ctx.Err() != nil {
		return made, made.Unreachable
	}
	switch {
	case options.All:
		made.Since = ""
	case options.Pending:
		made.Since = "99999999" // after any day
	case before.URL == "" && made.Found:
		made.Since = time.Now().UTC().AddDate(0, 0, -7).Format("20060102")
	}
	r := &Repository{w: w, git: repositoryOf(w, false), settings: made.Settings, now: time.Now}
	if made.Created {
		return made, r.create(ctx, around, cmp.Or(format, around.ObjectFormat), &made)
	}
	unlock, err := r.begin(ctx, Options{})
	if err != nil {
		return made, err
	}
	err = r.complete(ctx, around, &made)
	return made, errors.Join(err, unlock())
}

// create makes the repository under another name and renames it when it is complete, so a killed process leaves either
// all of it or none, and what it leaves mailbox.Sweep removes. The relative path of the user's settings is valid under both names.
func (r *Repository) create(ctx context.Context, around *git.Enclosing, format string, made *Initialized) (err error) {
	target := r.git.GitDir
	r.git.GitDir = filepath.Join(r.w.Dir(), mailbox.NewRepository+rand.Text())
	defer func() { err = errors.Join(err, os.RemoveAll(r.git.GitDir)) }()
	if err := durable.MakeDirs(r.git.GitDir); err != nil {
		return err
	}
	if err := r.include(ctx, around); err != nil { // first, because git appends what it writes
		return err
	}
	maker := &git.Repository{Env: []string{"GIT_DEFAULT_REF_FORMAT=files"}}
	if _, err := maker.Run(ctx, "init", "--quiet", "--bare", "--template=", "--object-format="+format,
		"--initial-branch="+path.Base(made.MailRef()), r.git.GitDir); err != nil {
		return err
	}
	if err := r.complete(ctx, around, made); err != nil {
		return err
	}
	if err := r.w.MakeStateFolder(stateFolder); err != nil {
		return err
	}
	err = os.Rename(r.git.GitDir, target)
	if _, there := os.Lstat(target); err != nil && there == nil {
		made.Created = false // another process was faster
		return nil
	}
	return err
}

// complete writes the settings of the repository, joins what the remote has, and lists the workspace in the user's
// exclude file.
func (r *Repository) complete(ctx context.Context, around *git.Enclosing, made *Initialized) (err error) {
	if err := r.configure(ctx, around); err != nil {
		return err
	}
	if made.Found {
		if err := r.join(ctx, made); err != nil {
			return err
		}
	}
	if r.settings.URL != "" {
		if err := mailbox.Carried(r.w, nil); err != nil {
			return err
		}
	}
	made.Excluded, err = around.Exclude(ctx)
	return err
}

// join fetches the ref, without its history if the repository is new, and reads the agents there. If the workspace has no
// workspace.json, join copies it.
func (r *Repository) join(ctx context.Context, made *Initialized) error {
	var options []string
	if made.Created && !made.old {
		options = []string{"--depth=1"}
	}
	ref, tracking := made.MailRef(), trackingRef
	if made.old {
		ref, tracking = made.Ref, oldRef // the first sync converts it
	}
	switch err := r.fetchRefs(ctx, options, "+"+ref+":"+tracking); {
	case isOtherFormat(err):
		return r.settings.about(r.w, ErrObjectFormat, err)
	case err != nil:
		made.Unreachable, made.Found = err, false
		return ctx.Err()
	}
	s := newStore(ctx, r.git)
	defer s.Close()
	v, err := s.view(tracking)
	if err != nil {
		return err
	}
	if err := v.checkFormat(); err != nil && !(made.old && v.old) {
		return fmt.Errorf("%s %w", made.Name(), err)
	}
	for _, name := range slices.Sorted(maps.Keys(v.folder("agents"))) {
		if agent := schema.AgentName(name); agent.Valid() && v.lives(agent) {
			made.Agents = append(made.Agents, agent)
		}
	}
	refs, err := r.git.Refs(ctx, baseRef)
	made.Joined = refs[baseRef] == ""
	marker := v.entry(schema.MarkerName)
	_, missing := r.w.Root().Lstat(schema.MarkerName)
	if err = cmp.Or(err, v.failed); err != nil || !marker.IsFile() || missing == nil {
		return err
	}
	var fields map[string]json.RawMessage
	data, err := v.file(marker.Object)
	if err != nil || json.Unmarshal(data, &fields) != nil || fields == nil {
		return nil // the caller writes one
	}
	_, err = r.w.AddFile(schema.MarkerName, data)
	return err
}

// configure writes the settings of the repository with git config, which keeps all others.
func (r *Repository) configure(ctx context.Context, around *git.Enclosing) error {
	if err := r.include(ctx, around); err != nil {
		return err
	}
	s := r.settings
	for _, setting := range [][2]string{
		{"core.bare", "true"}, {"core.autocrlf", "false"}, {"core.fsync", "loose-object,reference"}, {"core.logAllRefUpdates", "false"}, {"gc.auto", "0"},
		{"oacp.remote", s.Remote}, {"oacp.ref", s.Ref}, {"oacp.since", s.Since}, {"remote.oacp.url", s.URL}, {"remote.oacp.pushurl", s.pushURL},
	} {
		args := []string{"--replace-all", setting[0], setting[1]}
		if setting[1] == "" {
			args = []string{"--unset-all", setting[0]}
		}
		if err := r.config(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// config runs git config on the file of the repository. It ignores that a setting to unset is not set, status 5.
func (r *Repository) config(ctx context.Context, args ...string) error {
	_, err := r.git.Run(ctx, append([]string{"config", "--file", r.configFile()}, args...)...)
	if git.Exit(err) == 5 {
		return nil
	}
	return err
}

// include makes the repository read the user's settings: identity, credentials, how to reach the remote. Git includes
// some files only for the folder .git of the user's repository; actions/checkout keeps the credentials of a CI job in
// one. Such files are included by their own paths. They come first in a new file, and git config leaves the section in
// its place, so the settings of the repository take precedence.
func (r *Repository) include(ctx context.Context, around *git.Enclosing) error {
	const setting = "include.path"
	files, err := around.SettingsFiles(ctx, gitName)
	if err != nil {
		return err
	}
	for i, file := range files {
		files[i] = filepath.ToSlash(file)
	}
	out, err := r.git.Run(ctx, "config", "--file", r.configFile(), "-z", "--get-all", setting)
	if err != nil && git.Exit(err) != 1 {
		return err
	}
	if slices.Equal(slices.Collect(git.Records(out)), files) {
		return nil
	}
	if len(files) == 0 {
		return r.config(ctx, "--unset-all", setting)
	}
	err = r.config(ctx, "--replace-all", setting, files[0])
	for _, file := range files[1:] {
		err = cmp.Or(err, r.config(ctx, "--add", setting, file))
	}
	return err
}

func (r *Repository) configFile() string { return filepath.Join(r.git.GitDir, "config") }

// isUnasked reports whether init made an agent here by default, nobody has used it, and the branch has other agents. Such
// an agent is not sent.
func (e *exchange) isUnasked(agent schema.AgentName) bool {
	_, asked := e.w.Root().Lstat(mailbox.UnaskedFolder + "/" + string(agent))
	if asked != nil || len(e.tip.folder("agents")) == 0 {
		return false
	}
	files := e.w.Scan(agent, nil)
	return len(files.Places)+len(files.Problems)+len(files.Unread) == 0
}
