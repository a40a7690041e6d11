// Package gitmail carries the mail of a workspace between machines as commits of a git repository of
// its own.
//
// The repository is in the folder .git of the workspace. It has no index and no working tree: git only reads
// and writes trees here, and [mailbox/replica] says what they mean. New mail is delivered as
// [mailbox.Workspace.Receive] does, so that every watcher and runner sees it whole and once.
//
// A sync that is killed at any point is repeated by the next one:
//
//	fetch    the tip of the mailbox branch, and the refs of machines whose pushes were refused
//	merge    what the workspace, the base, the tip and those refs know, as the union of their facts
//	apply    to the workspace what it lacks
//	commit   on the tip what the tip lacks
//	record   the new commit as the base
//	push     the commit to the branch or, if another machine was faster, to the ref of this machine, where all
//	         others find it
//
// Fetched mail is delivered before the push, so a push that hangs does not hold it up. That is safe because
// applying a result twice is the same as applying it once.
package gitmail

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/history"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// Names in the repository.
const (
	gitName = ".git"
	// remoteName is the name of the remote here. It may have another name in the user's repository.
	remoteName = "oacp"
	// baseRef is the commit that was last agreed on, trackingRef the tip as last fetched, and nextRef the commit
	// that was last made.
	baseRef     = "refs/oacp/base"
	trackingRef = "refs/remotes/oacp/mail"
	nextRef     = "refs/oacp/next"
	// claimRefs begins the names of claims on messages, here and on the remote.
	claimRefs = "refs/oacp/claims/"
	// machineRefs begins the names of the commits of machines whose pushes to the branch were refused, here and
	// on the remote.
	machineRefs = "refs/oacp/machines/"
)

// stateFolder holds the lock and the cache.
const stateFolder = "state/git"

// Settings say with which branch of which remote a workspace exchanges mail.
type Settings struct {
	// Remote is the name of the remote in the user's repository, or the URL, or empty.
	Remote string
	// URL is the URL of the remote as the user wrote it; empty means that there is no remote. pushURL is where to
	// push, if that is not the URL.
	URL, pushURL string
	// Ref is the branch or other ref that the user chose, such as refs/heads/oacp. Mail of the present format is on a ref
	// of another name; see MailRef.
	Ref string
	// Since is a day such as 20261121. The workspace does not take older mail that was handled or given up elsewhere.
	// If it is empty, the workspace takes all mail.
	Since string
	// sign says that the user signs commits, and hooks that the user's hooks run.
	sign, hooks bool
}

// Name returns the name of the branch in messages for users. It is empty if there is no remote.
func (s Settings) Name() string {
	if s.URL == "" {
		return ""
	}
	return git.PublicURL(s.URL) + " (" + strings.TrimPrefix(s.MailRef(), "refs/heads/") + ")"
}

// branchRef returns the local branch at the base, which users can inspect.
func (s Settings) branchRef() string { return "refs/heads/" + path.Base(s.MailRef()) }

// MailRef returns the ref with the mail. Its name ends in the number of the format, because earlier versions, which read and write
// the ref itself, do not check the format of what they find there.
func (s Settings) MailRef() string { return s.Ref + "-" + strings.TrimSpace(format) }

// Repository is the git repository of a workspace. Several processes may use it at the same time.
type Repository struct {
	w        *mailbox.Workspace
	git      *git.Repository
	settings Settings
	now      func() time.Time
	// step is called at each step of a sync, for tests.
	step func(name string)
	// pieceCopies is how many copies of messages a sync plans at once.
	pieceCopies int
}

// Open opens the repository of a workspace. The error is a *RepositoryError or a *git.Error, or matches
// git.ErrMissing.
func Open(ctx context.Context, w *mailbox.Workspace) (*Repository, error) {
	if err := noRepository(w); err != nil {
		return nil, err
	}
	r := &Repository{w: w, git: repositoryOf(w, false), now: time.Now, step: func(string) {}, pieceCopies: 5_000}
	s, err := readSettings(ctx, r.git)
	if err != nil {
		return nil, fmt.Errorf("opening the git repository of workspace %s: %w", w.Dir(), r.explain(ctx, err))
	}
	r.settings, r.git = s, repositoryOf(w, s.hooks)
	if s.Ref == "" {
		_, err := inspect(ctx, w)
		if errors.Is(err, ErrForeignRepository) {
			err = &RepositoryError{Dir: w.Dir(), Err: fmt.Errorf("%w: %w", ErrNoRepository, ErrForeignRepository)}
		}
		return nil, err
	}
	return r, nil
}

// ours are the settings of Settings. programs are those that make git start programs, or let hooks run, and that repositoryOf
// does not override.
const (
	ours     = `oacp\.(ref|hooks|remote|since)|remote\.oacp\.(push)?url|commit\.gpgsign`
	programs = `core\.(sshcommand|gitproxy|askpass|alternaterefscommand)|credential\.(.*\.)?helper|gpg\.(.*\.)?(program|defaultkeycommand)|` +
		`filter\..*\.(clean|smudge|process)|diff\.(external|.*\.(command|textconv))|merge\..*\.driver|remote\..*\.(uploadpack|receivepack|vcs)|` +
		`protocol\.(.*\.)?allow|url\..*|oacp\.hooks`
)

var startsProgram = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(` + programs + `)$`) })

// mayStart reports whether a setting is in a file that only the user writes: her own configuration, or that of the repository
// around the workspace. Who can write to the workspace can write all other files that its repository reads.
func mayStart(r *git.Repository, scope, file string) bool {
	if scope != "local" && scope != "worktree" {
		return true
	}
	top, _ := git.Top(filepath.Dir(r.Dir))
	if top == "" {
		return false
	}
	common, _ := git.CommonFolder(top)
	return project.SameFolder(filepath.Join(common, "config"), file)
}

// A ProgramError reports a setting that would start a program, in a file that others may have written.
type ProgramError struct{ File, Setting string }

func (e *ProgramError) Error() string {
	return fmt.Sprintf("%s sets %s, which lets git start a program, and who can write to the workspace could have set that", e.File, e.Setting)
}

// Explain returns the code and the hint.
func (e *ProgramError) Explain() (code, hint string) {
	return "git_program", "remove it there; in your own configuration (git config --global) or that of the repository around the workspace, it counts"
}

// readSettings returns the settings of a workspace's repository. The places are for git config. Unless they are given, the error
// may be a *ProgramError.
func readSettings(ctx context.Context, r *git.Repository, places ...string) (Settings, error) {
	out, err := r.Run(ctx, slices.Concat([]string{"config"}, places,
		[]string{"-z", "--show-scope", "--show-origin", "--get-regexp", `^(` + ours + "|" + programs + `)$`})...)
	if err != nil && git.Exit(err) != 1 {
		return Settings{}, err
	}
	settings := make(map[string]string)
	next, stop := iter.Pull(git.Records(out))
	defer stop()
	for scope, ok := next(); ok; scope, ok = next() {
		origin, _ := next()
		setting, _ := next()
		name, value, hasValue := strings.Cut(setting, "\n")
		if !hasValue {
			value = "true"
		}
		settings[name] = value
		file := filepath.FromSlash(strings.TrimPrefix(origin, "file:"))
		isOff := name == "oacp.hooks" && value == "false"
		if len(places) == 0 && startsProgram().MatchString(name) && !isOff && !mayStart(r, scope, file) {
			return Settings{}, &ProgramError{File: file, Setting: name}
		}
	}
	on := func(name string) bool { return slices.Contains([]string{"true", "yes", "on", "1"}, settings[name]) }
	return Settings{
		Remote: settings["oacp.remote"], URL: settings["remote.oacp.url"], pushURL: settings["remote.oacp.pushurl"], Ref: settings["oacp.ref"],
		Since: settings["oacp.since"], sign: on("commit.gpgsign"), hooks: on("oacp.hooks"),
	}, nil
}

// repositoryOf returns the repository of a workspace with settings that override the user's: git must not push
// anything else with the mail or rewrite it. The user's hooks, which are often test suites, run only if the caller
// asks for them.
func repositoryOf(w *mailbox.Workspace, hooks bool) *git.Repository {
	r := &git.Repository{
		Dir: w.Dir(), GitDir: filepath.Join(w.Dir(), gitName),
		Config: []string{
			"core.fsmonitor=false", "core.logAllRefUpdates=false", "gc.auto=0", "maintenance.auto=false",
			"push.followTags=false", "push.gpgSign=false", "push.recurseSubmodules=no", "fetch.recurseSubmodules=false", "fetch.writeCommitGraph=false",
			"fetch.fsckObjects=false", // one bad entry would hold up everything; a sync checks each of them
			"core.quotePath=false", "core.bigFileThreshold=8m",
		},
		// The settings of a user's partial clone must not make git ask a remote for missing objects.
		Env: []string{"GIT_NO_LAZY_FETCH=1"},
	}
	if !hooks {
		r.Config = append(r.Config, "core.hooksPath=/dev/null")
	}
	return r
}

// Settings returns the settings of the repository.
func (r *Repository) Settings() Settings { return r.settings }

// Options changes a sync. The zero value is the default.
type Options struct {
	// DryRun makes a sync fetch and say what it would do.
	DryRun bool
	// Progress, if set, is called with the numbers of messages received so far, and to receive.
	Progress func(done, total int)
	// Waiting, if set, is called from another goroutine after a sync has waited for a second. It gets what the
	// sync waits for.
	Waiting func(what string)
	// Return puts a message back into an inbox after another machine restored it. The default is the PutBack of the
	// workspace.
	Return func(ctx context.Context, m *schema.Message, agent schema.AgentName) error
	// TakeBack, if set, calls do for a message that its sender has taken back, unless the agent was shown the message here. Until
	// do returns, nobody shows it to the agent. A message that the agent was shown is kept, on all machines.
	TakeBack func(ctx context.Context, m *schema.Message, agent schema.AgentName, do func() error) (done bool, err error)
	// Share makes Sync return early if another process began a sync after Sync was called.
	Share bool
	// Prune, if set, reports whether to remove the bytes of a message that was handled or given up.
	Prune func(name string) bool
	// Forget, if set, is a time. The branch forgets what it knows of pruned messages of earlier days.
	Forget time.Time
	// Squash replaces the history by one commit, here and on the remote.
	Squash bool
	// until, if set, ends the sync where it waits for others; see SyncUntil.
	until context.Context
}

// Problem is a file that a sync skips. Path is its path in the tree or below the workspace, or a ref.
type Problem struct {
	Path string
	Err  error
}

// Result is what a sync did.
type Result struct {
	// Changes are the first ones, and In and Out count all of them.
	Changes  []history.Change
	In, Out  Counts
	Problems []Problem
	// Commit is the new base; empty if there is none.
	Commit string
	// Pruned counts the copies of messages whose bytes were pruned, and Forgotten those of pruned messages that the branch forgot.
	Pruned, Forgotten int
	// Squashed says what Squash did.
	Squashed Squashed
	// Whole says that the remote had lost the branch, so that the sync sent all of it.
	Whole bool
}

// Counts are numbers of changes, by their kind.
type Counts map[history.Kind]int

// Total returns the number of all changes.
func (c Counts) Total() (n int) {
	for _, count := range c {
		n += count
	}
	return n
}

// add counts a change, and lists it unless there are many: those of a long history fill memory.
func (r *Result) add(c history.Change) {
	const most = 1_000
	counts := &r.In
	if c.Direction == history.Out {
		counts = &r.Out
	}
	if *counts == nil {
		*counts = make(Counts)
	}
	(*counts)[c.Kind]++
	if len(r.Changes) < most {
		r.Changes = append(r.Changes, c)
	}
}
