package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

const (
	// usualSync is the interval of --sync without one.
	usualSync = 5 * time.Second
	// shortestSync is the shortest interval: a sync takes about as long.
	shortestSync = 100 * time.Millisecond
)

// A Sync is the flag --sync of commands that work or wait. It keeps the workspace in step with its git
// remote meanwhile.
type Sync struct {
	text  string
	every time.Duration
}

// Flag returns the flag. Its category is empty or Rare.
func (o *Sync) Flag(category string) cli.Flag {
	return &cli.GenericFlag{Name: "sync", Category: category, Value: o,
		Usage: "exchange mail with the git remote every `TIME` (5s)"}
}

// IsSet reports whether the command line has the flag.
func (o *Sync) IsSet() bool { return o.text != "" }

func (o *Sync) String() string { return o.text }

// IsBoolFlag allows --sync without a value.
func (o *Sync) IsBoolFlag() bool { return true }

// Accepts reports whether the word after --sync is its value, not an argument of the command.
func (o *Sync) Accepts(word string) bool { return word != "" && word[0] >= '0' && word[0] <= '9' }

// Set takes the value, which is "true" if --sync has none. Check checks it.
func (o *Sync) Set(text string) error {
	o.text = text
	return nil
}

// Check checks the value.
func (o *Sync) Check() (err error) {
	switch o.text {
	case "":
	case "true":
		o.every = usualSync
	default:
		o.every, err = SyncInterval("--sync", o.text)
	}
	return err
}

// SyncInterval returns the value of a flag that says how often to sync.
func SyncInterval(flag, text string) (time.Duration, error) {
	every, err := schema.ParseDuration(text)
	switch {
	case err != nil:
		return 0, failure.Usagef("%s: %w", flag, err)
	case every < shortestSync:
		return 0, failure.Usagef("%s: %s is less than %v", flag, visible.Quote(text), shortestSync)
	}
	return every, nil
}

// Remote returns what messages call the branch with the mail. It is empty if the workspace has no
// remote.
func Remote(settings gitmail.Settings) string {
	if settings.URL == "" {
		return ""
	}
	return gitmail.PublicURL(settings.URL) + " (" + strings.TrimPrefix(settings.Ref, "refs/heads/") + ")"
}

// A Synchronizer keeps workspaces in step with their remotes while a command works. A remote that
// fails is a warning, printed once; so is its recovery. A nil Synchronizer does nothing.
type Synchronizer struct {
	streams      *Streams
	every        time.Duration
	workspaces   []*mailbox.Workspace
	repositories []*gitmail.Repository
	// remotes are the states of the repositories' remotes. The lock guards them.
	lock    sync.Mutex
	remotes []RemoteState
}

// Open returns the synchronizer of the workspaces, or nil without --sync. It fails if no workspace has
// a repository; if only some have none, it warns. It syncs a workspace that has no agents: they may be
// on other machines.
func (o *Sync) Open(ctx context.Context, s *Streams, workspaces ...*mailbox.Workspace) (*Synchronizer, error) {
	if !o.IsSet() {
		return nil, nil
	}
	y := &Synchronizer{streams: s, every: o.every}
	var without []string
	var missing error
	for _, w := range workspaces {
		repository, err := gitmail.Open(ctx, w)
		switch {
		case errors.Is(err, gitmail.ErrNoRepository):
			without, missing = append(without, project.Name(w)), err
		case err != nil:
			return nil, err
		default:
			y.workspaces, y.repositories = append(y.workspaces, w), append(y.repositories, repository)
			y.remotes = append(y.remotes, RemoteState{Name: Remote(repository.Settings())})
			if known, err := w.Agents(); err == nil && len(known) == 0 {
				if err := y.first(ctx); err != nil {
					return nil, err
				}
			}
		}
	}
	if len(y.repositories) == 0 {
		return nil, missing
	}
	if len(without) > 0 {
		s.Warn("without a git repository of their own, these are not synced: " + strings.Join(without, ", "))
	}
	return y, nil
}

// UsualSync returns the synchronizer of a workspace that --sync without a value asks for.
func UsualSync(ctx context.Context, s *Streams, w *mailbox.Workspace) (*Synchronizer, error) {
	usual := Sync{text: "true", every: usualSync}
	return usual.Open(ctx, s, w)
}

// Once syncs each workspace once, and reports whether all are in step.
func (y *Synchronizer) Once(ctx context.Context) bool {
	if y == nil {
		return true
	}
	done := true
	for i := range y.repositories {
		done = y.once(ctx, i) && done
	}
	return done
}

// first syncs the last workspace once. A signal ends it, and is the error.
func (y *Synchronizer) first(ctx context.Context) error {
	ctx, stop := UntilSignal(ctx)
	defer stop()
	y.once(ctx, len(y.repositories)-1)
	return context.Cause(ctx)
}

func (y *Synchronizer) once(ctx context.Context, i int) (done bool) {
	_, err := y.repositories[i].Sync(ctx, y.options(i))
	y.observe(ctx, i, err)
	return err == nil
}

// Start syncs each workspace again and again until the caller calls stop: the first time at once if
// there is something to send, and otherwise unless another process has just done so.
func (y *Synchronizer) Start(ctx context.Context, sends bool) (stop func()) {
	if y == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for i, r := range y.repositories {
		running.Go(func() {
			report := func(_ gitmail.Result, err error) { y.observe(ctx, i, err) }
			if sends {
				report(r.Sync(ctx, y.options(i)))
			}
			r.Every(ctx, y.every, y.options(i), report)
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

func (y *Synchronizer) options(i int) gitmail.Options { return SyncOptions(y.workspaces[i]) }

// SyncOptions returns the options of every sync of a workspace: a message that another machine restored
// gets new turns here, too.
func SyncOptions(w *mailbox.Workspace) gitmail.Options {
	return gitmail.Options{Restore: func(ctx context.Context, m *schema.Message, agent schema.AgentName) error {
		_, err := turn.Restore(ctx, w, string(m.ID), agent, false)
		return err
	}}
}

// lastSync bounds the sync after a signal. That sync pushes the results of the work if the remote answers.
const lastSync = 5 * time.Second

// Around calls work, and syncs meanwhile and once more after it; if work ends by itself, also before
// it.
func (y *Synchronizer) Around(ctx context.Context, ends bool, work func() error) error {
	if y == nil {
		return work()
	}
	if ends {
		y.Once(ctx)
	}
	stop := y.Start(ctx, false)
	err := work()
	stop()
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastSync)
		defer cancel()
	}
	y.Once(ctx)
	return err
}

// observe notes how a sync ended.
func (y *Synchronizer) observe(ctx context.Context, i int, err error) {
	y.lock.Lock()
	defer y.lock.Unlock()
	if ctx.Err() == nil {
		y.remotes[i].Observe(err, y.streams)
	}
}

// A RemoteState remembers whether syncs with a remote fail, to say so once.
type RemoteState struct {
	// Name is what Remote returns.
	Name string
	// failing is the code of the last failure, or empty.
	failing string
}

// Observe warns about the first sync that fails, or fails for another reason than the last one, and notes
// the first one that succeeds again. It reports whether it printed anything.
func (r *RemoteState) Observe(err error, s *Streams) bool {
	if err == nil {
		recovered := r.failing != ""
		if r.failing = ""; recovered {
			s.Note("in step with " + r.Name + " again")
		}
		return recovered
	}
	f := failure.Of(err)
	if f.Code == r.failing {
		return false
	}
	r.failing = f.Code
	hint := cmp.Or(f.Hint, "mail waits here for the next sync")
	_, _ = fmt.Fprintf(s.Err, "oacp: warning: no sync: %s\nhint: %s\n", visible.Line(f.Message()), visible.Line(hint)) // as Warn
	return true
}
