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
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

const (
	// usualSync is the interval of --sync without one.
	usualSync = 5 * time.Second
	// shortestSync is the shortest interval: a sync takes about as long.
	shortestSync = 100 * time.Millisecond
)

// A Sync is the flag --sync of commands that work or wait. They sync the workspace with its git remote meanwhile.
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

// A Synchronizer syncs workspaces with their remotes while a command works. It prints one warning when a
// remote fails, and one line when the remote recovers. A nil Synchronizer does nothing.
type Synchronizer struct {
	every   time.Duration
	remotes []*remote
}

// A remote is that of one workspace. The lock guards what follows it.
type remote struct {
	repository *gitmail.Repository
	options    gitmail.Options
	streams    *Streams

	lock  sync.Mutex
	state RemoteState
	// heard is set when a sync has ended, with or without an error.
	heard bool
}

// Open returns the synchronizer of the workspaces, or nil without --sync. It fails if no workspace has
// a repository; if only some have none, it warns. It syncs a workspace that has no agents: they may be
// on other machines.
func (o *Sync) Open(ctx context.Context, s *Streams, workspaces ...*mailbox.Workspace) (*Synchronizer, error) {
	if !o.IsSet() {
		return nil, nil
	}
	y := &Synchronizer{every: o.every}
	var without []string
	var missing error
	for _, w := range workspaces {
		repository, err := gitmail.Open(ctx, w)
		if errors.Is(err, gitmail.ErrNoRepository) {
			without, missing = append(without, project.Name(w)), err
			continue
		} else if err != nil {
			return nil, err
		}
		r := &remote{repository: repository, options: SyncOptions(w), streams: s, state: RemoteState{Name: repository.Settings().Name()}}
		y.remotes = append(y.remotes, r)
		if known, err := w.Agents(); err == nil && len(known) == 0 {
			ctx, stop := UntilSignal(ctx)
			r.sync(ctx)
			cause := context.Cause(ctx)
			if stop(); cause != nil {
				return nil, cause
			}
		}
	}
	if len(y.remotes) == 0 {
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

// SyncOptions returns the options of every sync of a workspace: a message that another machine restored
// also gets new turns here.
func SyncOptions(w *mailbox.Workspace) gitmail.Options {
	return gitmail.Options{Restore: func(ctx context.Context, m *schema.Message, agent schema.AgentName) error {
		_, err := track.Restore(ctx, w, string(m.ID), agent)
		return err
	}}
}

const (
	// patience is how long the work on what is pending here waits for a sync. A remote that answers
	// has then said what other machines acknowledged, and one that hangs does not stop the work.
	patience = 2 * time.Second
	// lastSync bounds the sync after a signal. That sync pushes the results of the work if the remote answers.
	lastSync = 5 * time.Second
)

// errNoAnswer is the error of a remote for which a command no longer waits.
var errNoAnswer = fmt.Errorf("the remote did not answer within %v", patience)

// sync syncs once, and says what it waits for.
func (r *remote) sync(ctx context.Context) error {
	options := r.options
	options.Waiting = r.streams.NoteWaiting
	_, err := r.repository.Sync(ctx, options)
	return r.observe(ctx, err)
}

// syncBriefly is sync for a command whose work is done: it waits two seconds for the remote to answer. A sync of another
// process that begins meanwhile is enough, so commands that send at the same time share a push.
func (r *remote) syncBriefly(ctx context.Context) error {
	options := r.options
	options.Waiting, options.Share = r.streams.NoteWaiting, true
	limited, cancel := context.WithTimeoutCause(ctx, patience, errNoAnswer)
	defer cancel()
	_, err := r.repository.SyncUntil(limited, options)
	return r.observe(ctx, err)
}

// observe notes how a sync ended, and returns its error.
func (r *remote) observe(ctx context.Context, err error) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	if ctx.Err() == nil {
		r.heard = true
		r.state.Observe(err, r.streams)
	}
	return err
}

// answers reports whether the last sync succeeded, and whether one has ended.
func (r *remote) answers() (answers, heard bool) {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.state.answers, r.heard
}

// Once syncs each workspace once. It says what it waits for.
func (y *Synchronizer) Once(ctx context.Context) {
	if y != nil {
		for _, r := range y.remotes {
			_ = r.sync(ctx) // it has warned
		}
	}
}

// Briefly syncs each workspace once, but waits only two seconds for a remote to answer. It reports whether
// all workspaces are synced.
func (y *Synchronizer) Briefly(ctx context.Context) bool {
	done := true
	if y != nil {
		for _, r := range y.remotes {
			done = r.syncBriefly(ctx) == nil && done
		}
	}
	return done
}

// Start syncs each workspace again and again until the caller calls stop: the first time at once if
// there is something to send, and otherwise unless another process has just done so.
func (y *Synchronizer) Start(ctx context.Context, sends bool) (stop func()) {
	if y == nil {
		return func() {}
	}
	return y.start(ctx, sends, func() {})
}

// start is Start. It calls first when a workspace was synced at once.
func (y *Synchronizer) start(ctx context.Context, sends bool, first func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, r := range y.remotes {
		running.Go(func() {
			if sends {
				_, err := r.repository.SyncUntil(ctx, r.options)
				_ = r.observe(ctx, err)
				first()
				select {
				case <-ctx.Done():
				case <-time.After(y.every):
				}
			}
			r.repository.Every(ctx, y.every, r.options, func(_ gitmail.Result, err error) { _ = r.observe(ctx, err) })
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// Begin syncs as Start does, at once, and waits until each workspace was synced once, but not longer than
// the limit and two seconds. Without a limit, it then says what it waits for, for two more seconds: the command
// works only once. The caller calls stop.
func (y *Synchronizer) Begin(ctx context.Context, limit time.Duration) (stop func()) {
	if y == nil {
		return func() {}
	}
	var first sync.WaitGroup
	first.Add(len(y.remotes))
	stop = y.start(ctx, true, first.Done)
	done := make(chan struct{})
	go func() {
		defer close(done)
		first.Wait()
	}()
	ends := func(after time.Duration) bool {
		select {
		case <-done:
			return true
		case <-ctx.Done():
			return true
		case <-time.After(after):
			return false
		}
	}
	if ends(min(cmp.Or(limit, patience), patience)) || limit > 0 {
		return stop
	}
	y.remotes[0].streams.NoteWaiting(y.remotes[0].state.Name)
	if !ends(patience) {
		for _, r := range y.remotes {
			r.lock.Lock()
			if !r.heard {
				url := git.PublicURL(r.repository.Settings().URL)
				r.state.Observe(&gitmail.RemoteError{URL: url, Err: errNoAnswer}, r.streams)
			}
			r.lock.Unlock()
		}
	}
	return stop
}

// Around calls work, and syncs meanwhile and once more after it. If work ends by itself, it also syncs before it.
func (y *Synchronizer) Around(ctx context.Context, ends bool, work func() error) error {
	if y == nil {
		return work()
	}
	var stop func()
	if ends {
		stop = y.Begin(ctx, 0)
	} else {
		stop = y.Start(ctx, false)
	}
	err := work()
	stop()
	if ctx.Err() != nil {
		// A second signal ends the last sync with its git, which a killed process would leave behind.
		var stop, cancel func()
		ctx, stop = UntilSignal(context.WithoutCancel(ctx))
		defer stop()
		ctx, cancel = context.WithTimeout(ctx, lastSync)
		defer cancel()
	}
	for _, r := range y.remotes {
		switch answers, heard := r.answers(); {
		case answers: // it may carry much mail now
			_ = r.sync(ctx)
		case heard || !ends:
			_ = r.syncBriefly(ctx)
		}
	}
	return err
}

// A RemoteState remembers whether syncs with a remote fail, to say so once.
type RemoteState struct {
	// Name is what messages call the remote.
	Name string
	// failing is the code of the last failure, or empty. answers is set if the last sync succeeded.
	failing string
	answers bool
}

// Observe warns about the first sync that fails, or fails for another reason than the last one, and notes
// the first one that succeeds again. It reports whether it printed anything.
func (r *RemoteState) Observe(err error, s *Streams) bool {
	if r.answers = err == nil; r.answers {
		recovered := r.failing != ""
		if r.failing = ""; recovered {
			s.Note("up to date with " + r.Name + " again")
		}
		return recovered
	}
	f := failure.Of(err)
	if f.Code == r.failing {
		return false
	}
	r.failing = f.Code
	hint := cmp.Or(f.Hint, "mail waits here for the next sync")
	_, _ = fmt.Fprintf(s.Err, "oacp: warning: sync: %s\nhint: %s\n", visible.Line(f.Message()), visible.Line(hint)) // as Warn
	return true
}
