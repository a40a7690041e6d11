package gitmail

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Errors of Init.
var (
	// ErrForeignRepository says that the workspace is the top of a repository that Init did not make.
	ErrForeignRepository = errors.New("it is a git repository that oacp did not make")
	// ErrDamaged says that git cannot use the repository that Init made.
	ErrDamaged = errors.New("its git repository is damaged")
	// ErrObjectFormat says that the remote has objects of another format, SHA-1 or SHA-256, than the
	// repository of the workspace.
	ErrObjectFormat = errors.New("the object format of its repository is not that of the remote")
	// ErrTracked says that the user's repository has files of the workspace under version control.
	ErrTracked = errors.New("the repository has files of the workspace under version control")
	// ErrForeignBranch says that the ref on the remote holds something other than mailboxes.
	ErrForeignBranch = errors.New("holds no mailboxes")
	// ErrCheckedOut says that the user has checked out the branch.
	ErrCheckedOut = errors.New("is checked out")
	// ErrBadRef says that a ref cannot hold mailboxes, whatever the remote has.
	ErrBadRef = errors.New("cannot hold mailboxes")
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
	// Mail is the mail that a workspace takes which joins: RecentMail unless it is set.
	Mail Mail
}

// Mail says which mail that was handled or given up a workspace takes when it joins. It takes pending mail of any age.
type Mail string

// The kinds of mail.
const (
	RecentMail  Mail = "recent" // of the last week
	AllMail     Mail = "all"
	PendingMail Mail = "pending" // no other
)

// since returns the setting oacp.since.
func (m Mail) since(now time.Time) string {
	switch m {
	case AllMail:
		return ""
	case PendingMail:
		return "99999999"
	}
	return now.UTC().AddDate(0, 0, -7).Format("20060102")
}

// Initialized says what Init did and found.
type Initialized struct {
	// Remote is the name of a remote of the user's repository, or a URL, or empty if there is none. It
	// may hold a password; PublicURL removes that.
	Remote string
	// URL is where the remote is, as written in the settings.
	URL string
	// Ref is the ref on the remote.
	Ref string
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
	own := repositoryOf(w, false)
	before, err := settingsBefore(ctx, w, own)
	if err != nil {
		return made, err
	}
	around, err := openSurroundings(ctx, w, options.Enclosing)
	if err != nil {
		return made, err
	}
	chosen, err := around.choose(ctx, options, before)
	if err != nil {
		return made, err
	}
	made.Remote, made.URL, made.Ref = chosen.Remote, chosen.URL, chosen.Ref
	made.Created, made.Remotes = before == nil, names(around.remotes)
	answer, err := around.ask(ctx, chosen)
	if ctx.Err() != nil {
		return made, err
	}
	made.Unreachable, made.Found = err, answer.found
	if err := checkFormat(ctx, w, own, chosen, before, answer); err != nil {
		return made, err
	}
	if before == nil {
		err = create(ctx, w, around, chosen, answer, options.Mail, &made)
		return made, err
	}
	unlock, err := (&Repository{w: w}).lock(ctx)
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if made.Excluded, err = around.exclude(ctx); err != nil {
		return made, err
	}
	err = complete(ctx, w, own, around, chosen, options.Mail, &made)
	return made, err
}

// settingsBefore returns the settings of the repository that the workspace has, and nil if it has
// none.
func settingsBefore(ctx context.Context, w *mailbox.Workspace, own *git.Repository) (*choice, error) {
	if _, err := os.Lstat(own.GitDir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := usable(ctx, w, own); err != nil {
		return nil, err
	}
	s, err := ownSettings(ctx, own)
	return &choice{Remote: s["oacp.remote"], URL: s["remote.oacp.url"], Ref: s["oacp.ref"], pushURL: s["remote.oacp.pushurl"]}, err
}

// checkFormat returns an error that matches ErrObjectFormat if the repository that the workspace has cannot
// exchange objects with the remote.
func checkFormat(ctx context.Context, w *mailbox.Workspace, own *git.Repository, chosen, before *choice, a answer) error {
	if before == nil || a.objectFormat == "" {
		return nil
	}
	format, err := own.Run(ctx, "rev-parse", "--show-object-format")
	if got := strings.TrimSpace(string(format)); err == nil && got != a.objectFormat {
		err = &RepositoryError{Dir: w.Dir(), Remote: chosen.Remote, Ref: chosen.Ref, Err: fmt.Errorf("%w: %s here, %s there", ErrObjectFormat, got, a.objectFormat)}
	}
	return err
}

// create makes the repository under another name and renames it when it is complete, so that a killed
// process leaves either all of it or none.
func create(ctx context.Context, w *mailbox.Workspace, around *surroundings, chosen *choice, answer answer, mail Mail, made *Initialized) (err error) {
	format := answer.objectFormat
	if format == "" {
		format = around.objectFormat
	}
	target := filepath.Join(w.Dir(), gitName)
	// The path of the user's settings is relative, so this name must be in the same folder.
	r := repositoryOf(w, false)
	r.GitDir = target + "-init-" + rand.Text()
	defer func() { err = errors.Join(err, os.RemoveAll(r.GitDir)) }()
	maker := &git.Repository{Env: []string{"GIT_DEFAULT_REF_FORMAT=files"}}
	if _, err := maker.Run(ctx, "init", "--quiet", "--bare", "--template=", "--object-format="+format,
		"--initial-branch="+path.Base(chosen.Ref), r.GitDir); err != nil {
		return err
	}
	if err := complete(ctx, w, r, around, chosen, mail, made); err != nil {
		return err
	}
	unlock, err := (&Repository{w: w}).lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if made.Excluded, err = around.exclude(ctx); err != nil {
		return err
	}
	if _, there := os.Lstat(target); there == nil {
		made.Created = false // another process was faster
		return nil
	}
	if err := os.Rename(r.GitDir, target); err != nil {
		return fmt.Errorf("making repository %s: %w", target, err)
	}
	return nil
}

// complete writes the settings of the repository, and fetches the ref if the remote has it.
func complete(ctx context.Context, w *mailbox.Workspace, r *git.Repository, around *surroundings, chosen *choice, mail Mail, made *Initialized) error {
	if err := configure(ctx, w, r, around, chosen); err != nil {
		return err
	}
	if err := limitMail(ctx, r, mail, made); err != nil {
		return err
	}
	if !made.Found {
		return nil
	}
	if err := fetch(ctx, r, chosen, made.Created); err != nil {
		made.Unreachable, made.Found = err, false
		return ctx.Err()
	}
	return look(ctx, w, r, chosen, made)
}

// limitMail notes which old mail the workspace takes. One that had a repository keeps what it has, unless the caller
// says what to take.
func limitMail(ctx context.Context, r *git.Repository, mail Mail, made *Initialized) error {
	if mail == "" && (!made.Created || !made.Found) {
		return nil
	}
	_, err := r.Run(ctx, "config", "--file", filepath.Join(r.GitDir, "config"), "--replace-all", "oacp.since", mail.since(time.Now()))
	return err
}

// fetch brings the ref into the repository: a new one needs the mail, and not its history.
func fetch(ctx context.Context, r *git.Repository, chosen *choice, shallow bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, firstLimit, fmt.Errorf("no answer within %v: %w", firstLimit, context.DeadlineExceeded))
	defer cancel()
	args := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"}
	if shallow {
		args = append(args, "--depth=1")
	}
	_, err := r.Run(ctx, append(args, remoteName, "+"+chosen.Ref+":"+trackingRef)...)
	return err
}

// look reads what the fetched ref holds: agents, and the workspace.json for a workspace that has none.
func look(ctx context.Context, w *mailbox.Workspace, r *git.Repository, chosen *choice, made *Initialized) error {
	own := &Repository{w: w, git: r}
	var top []string
	marker := ""
	err := own.listTree(ctx, 4, []string{"--long", trackingRef}, func(path string, fields []string) {
		if top = append(top, path); path == markerName && len(fields[3]) < len("1000000") {
			marker = fields[2]
		}
	})
	if err == nil {
		err = own.checkFormat(ctx, chosen, top)
	}
	if err == nil {
		err = own.listTree(ctx, 3, []string{trackingRef, "--", "agents/"}, func(path string, _ []string) {
			if agent := schema.AgentName(strings.TrimPrefix(path, "agents/")); agent.Valid() {
				made.Agents = append(made.Agents, agent)
			}
		})
	}
	if err != nil {
		return err
	}
	_, err = r.Run(ctx, "rev-parse", "--verify", "--quiet", baseRef)
	made.Joined = err != nil
	return own.takeMarker(ctx, marker)
}

// checkFormat returns an error if the fetched ref holds no mailboxes. The top is what it holds.
func (r *Repository) checkFormat(ctx context.Context, chosen *choice, top []string) error {
	s := newStore(ctx, r.git)
	defer s.close()
	v, err := s.view(trackingRef)
	if err == nil {
		err = v.checkFormat()
	}
	if errors.Is(err, ErrForeignBranch) {
		err = fmt.Errorf("%s %w: there is %s", chosen, err, strings.Join(top[:min(len(top), 5)], ", "))
	}
	return err
}

// takeMarker gives a workspace without workspace.json that of the ref, if it is one. Otherwise the caller
// makes one.
func (r *Repository) takeMarker(ctx context.Context, object string) error {
	if _, err := r.w.Root().Lstat(markerName); err == nil || object == "" {
		return nil
	}
	data, err := r.git.Run(ctx, "cat-file", "blob", object)
	var fields map[string]json.RawMessage
	if err != nil || json.Unmarshal(data, &fields) != nil || fields == nil {
		return nil
	}
	_, err = r.w.AddFile(markerName, data)
	return err
}
