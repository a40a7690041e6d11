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
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// InitOptions says with which branch of which remote a workspace is to be in step.
type InitOptions struct {
	// Remote is the name of a remote of the user's repository, or a URL, or the path of a repository.
	// If it is empty, a workspace keeps the remote that it has. Another one gets the remote that the
	// user's branch follows, or else origin, or else the only one, or else none.
	Remote string
	// Ref is the ref on the remote, such as refs/heads/oacp. If it is empty, a workspace keeps the ref
	// that it has, and another one gets DefaultRef.
	Ref string
	// Enclosing is the top of the user's repository, or empty. It need not hold the workspace.
	Enclosing string
	// All makes a workspace take all mail, and Pending only pending mail. Otherwise, one that joins takes pending
	// mail and what was handled or given up in the last week.
	All, Pending bool
}

// Initialized says what Init did and found.
type Initialized struct {
	// Settings are those of the repository. Its remote and URL may hold a password; PublicURL removes that.
	Settings
	// Created says that the workspace had no repository before.
	Created bool
	// Excluded is the file in the user's repository that lists the workspace. It is empty if the
	// workspace is in no other repository.
	Excluded string
	// Found says that the remote has the ref. Agents are the agents with mailboxes there.
	Found  bool
	Agents []schema.AgentName
	// Joined says that the ref was found, and nothing from it is in the workspace yet.
	Joined bool
	// Unreachable is the error of a remote that did not answer.
	Unreachable error
	// Remotes are the remotes of the user's repository. If there are several, Init may choose none.
	Remotes []string
}

// Init gives the workspace a git repository of its own, or completes the one that it has: it notes
// the remote and the ref, lists the workspace in the exclude file of the user's repository, and
// fetches the ref if the remote has it. It sends nothing. If the workspace has no workspace.json, it
// gets that of the remote.
//
// The repository has no work tree. So commands that would commit, clean or check out in the
// workspace refuse to work, and git log and git show work.
func Init(ctx context.Context, w *mailbox.Workspace, options InitOptions) (made Initialized, err error) {
	if err := git.Check(ctx); err != nil {
		return made, err
	}
	before, err := check(ctx, w)
	if made.Created = errors.Is(err, ErrNoRepository); err != nil && !made.Created {
		return made, err
	}
	around, err := openSurroundings(ctx, w, options.Enclosing)
	if err != nil {
		return made, err
	}
	made.Remotes = around.remotes()
	if made.Settings, err = around.choose(ctx, options, before); err != nil {
		return made, err
	}
	var format string
	made.Found, format, made.Unreachable = around.ask(ctx, made.Settings)
	if ctx.Err() != nil {
		return made, made.Unreachable
	}
	if options.All || options.Pending || made.Created && made.Found {
		made.Since = options.since()
	}
	r := &Repository{w: w, git: repositoryOf(w, false), settings: made.Settings, now: time.Now}
	if made.Created {
		err = r.create(ctx, around, cmp.Or(format, around.objectFormat), &made)
	} else if err = r.checkObjectFormat(ctx, format); err == nil {
		err = r.locked(ctx, func() (err error) {
			if made.Excluded, err = around.exclude(ctx); err == nil {
				err = r.complete(ctx, around, &made)
			}
			return err
		})
	}
	return made, err
}

// since returns the day for the settings.
func (o InitOptions) since() string {
	switch {
	case o.All:
		return ""
	case o.Pending:
		return "99999999"
	}
	return time.Now().UTC().AddDate(0, 0, -7).Format("20060102")
}

// checkObjectFormat returns an error that matches ErrObjectFormat if the repository cannot exchange objects with
// the remote. The format is empty if the remote does not say its own.
func (r *Repository) checkObjectFormat(ctx context.Context, format string) error {
	out, err := r.git.Run(ctx, "rev-parse", "--show-object-format")
	if got := strings.TrimSpace(string(out)); err == nil && format != "" && got != format {
		err = r.settings.about(r.w, ErrObjectFormat, fmt.Errorf("%s here, %s there", got, format))
	}
	return err
}

// create makes the repository under another name and renames it when it is complete, so that a killed
// process leaves either all of it or none. The relative path of the user's settings holds for both names.
func (r *Repository) create(ctx context.Context, around *surroundings, format string, made *Initialized) (err error) {
	target := r.git.GitDir
	r.git.GitDir += "-init-" + rand.Text()
	defer func() { err = errors.Join(err, os.RemoveAll(r.git.GitDir)) }()
	maker := &git.Repository{Env: []string{"GIT_DEFAULT_REF_FORMAT=files"}}
	if _, err := maker.Run(ctx, "init", "--quiet", "--bare", "--template=", "--object-format="+format,
		"--initial-branch="+path.Base(made.Ref), r.git.GitDir); err != nil {
		return err
	}
	if err := r.complete(ctx, around, made); err != nil {
		return err
	}
	return r.locked(ctx, func() (err error) {
		if made.Excluded, err = around.exclude(ctx); err != nil {
			return err
		}
		if _, there := os.Lstat(target); there == nil {
			made.Created = false // another process was faster
			return nil
		}
		return os.Rename(r.git.GitDir, target)
	})
}

// complete writes the settings of the repository, and fetches the ref if the remote has it: for a new repository,
// the mail without its history.
func (r *Repository) complete(ctx context.Context, around *surroundings, made *Initialized) error {
	if err := r.configure(ctx, around); err != nil || !made.Found {
		return err
	}
	fetch := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", remoteName, "+" + made.Ref + ":" + trackingRef}
	if made.Created {
		fetch = append(fetch, "--depth=1")
	}
	if _, err := r.overNetwork(ctx, fetch...); err != nil {
		made.Unreachable, made.Found = err, false
		return ctx.Err()
	}
	return r.look(ctx, made)
}

// look reads what the fetched ref holds: agents, and the workspace.json for a workspace that has none.
func (r *Repository) look(ctx context.Context, made *Initialized) error {
	s := newStore(ctx, r.git)
	defer s.close()
	v, err := s.view(trackingRef)
	if err != nil {
		return err
	}
	if err := v.checkFormat(); err != nil {
		_, top, _ := v.folder("") // for the message
		names := slices.Sorted(maps.Keys(top))
		return fmt.Errorf("%s %w: there is %s", made.Name(), err, strings.Join(names[:min(len(names), 5)], ", "))
	}
	_, agents, err := v.folder("agents")
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		if agent := schema.AgentName(name); agent.Valid() {
			made.Agents = append(made.Agents, agent)
		}
	}
	refs, err := r.refs(ctx, baseRef)
	made.Joined = refs[baseRef] == ""
	return cmp.Or(err, r.takeMarker(v))
}

// takeMarker gives a workspace without workspace.json that of the ref, if it is one. Otherwise the caller
// makes one.
func (r *Repository) takeMarker(v *view) error {
	at, err := v.entry(markerName)
	if err != nil || !at.isFile() || r.hasMarker() {
		return err
	}
	data, err := v.file(at.object)
	var fields map[string]json.RawMessage
	if err != nil || json.Unmarshal(data, &fields) != nil || fields == nil {
		return nil
	}
	_, err = r.w.AddFile(markerName, data)
	return err
}
