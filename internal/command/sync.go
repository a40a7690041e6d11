package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

const (
	// usualSync is the interval of --sync without a value.
	usualSync = 5 * time.Second
	// shortestSync is the shortest interval: a sync takes about as long.
	shortestSync = 100 * time.Millisecond
)

// A Sync is the flag --sync, with which a command exchanges mail with the git remote while it works or waits.
type Sync struct {
	text  string
	every time.Duration
}

// Flag returns the flag. Its category is empty or Rare.
func (o *Sync) Flag(category string) cli.Flag {
	return &cli.GenericFlag{Name: "sync", Category: category, Value: o,
		Usage: "exchange mail with the git remote every `TIME` (5s)"}
}

func (o *Sync) String() string { return o.text }

// IsSet reports whether the command line has the flag.
func (o *Sync) IsSet() bool { return o.text != "" }

// Accepts reports whether the word after --sync is its value, not an argument of the command.
func (o *Sync) Accepts(word string) bool { return word != "" && word[0] >= '0' && word[0] <= '9' }

// Set takes the value, which is "true" if --sync has none.
func (o *Sync) Set(text string) (err error) {
	o.text, o.every = text, usualSync
	if text != "true" {
		o.every, err = SyncInterval(text)
	}
	return err
}

// SyncInterval returns the value of a flag that says how often to sync.
func SyncInterval(text string) (time.Duration, error) {
	every, err := schema.ParseDuration(text)
	if err == nil && every < shortestSync {
		err = fmt.Errorf("%s is less than %v", visible.Quote(text), shortestSync)
	}
	return every, err
}

// A Synchronizer syncs workspaces with their remotes while a command works. It prints one warning when a
// remote fails, and one line when the remote recovers. A nil Synchronizer does nothing.
type Synchronizer struct {
	every   time.Duration
	streams *Streams
	remotes []*remote
}

// A remote belongs to one workspace. Its syncs do not overlap.
type remote struct {
	RemoteState
	repository *gitmail.Repository
	options    gitmail.Options
}

// Open returns a synchronizer for those of the workspaces that have a repository, and an error if none has one.
// Without --sync, it returns nil.
func (o *Sync) Open(ctx context.Context, s *Streams, workspaces ...*mailbox.Workspace) (*Synchronizer, error) {
	if o.every == 0 {
		return nil, nil
	}
	y := &Synchronizer{every: o.every, streams: s}
	var missing error
	for _, w := range workspaces {
		repository, err := gitmail.Open(ctx, w)
		switch {
		case errors.Is(err, gitmail.ErrNoRepository):
			missing = err
		case err != nil:
			return nil, err
		default:
			options := SyncOptions(w)
			options.Waiting = s.NoteWaiting
			y.remotes = append(y.remotes, &remote{RemoteState{Name: repository.Settings().Name()}, repository, options})
		}
	}
	if len(y.remotes) == 0 {
		return nil, missing
	}
	return y, nil
}

// UsualSync returns the synchronizer that --sync without a value makes.
func UsualSync(ctx context.Context, s *Streams, w *mailbox.Workspace) (*Synchronizer, error) {
	usual := Sync{every: usualSync}
	return usual.Open(ctx, s, w)
}

// SyncOptions returns the options of every sync of a workspace: a message that another machine restored
// also gets new turns here, and one that was taken back there stays if its recipient has noticed it here.
func SyncOptions(w *mailbox.Workspace) gitmail.Options {
	return gitmail.Options{
		Return: func(ctx context.Context, m *schema.Message, agent schema.AgentName) error {
			return track.PutBack(ctx, w, m, agent)
		},
		TakeBack: func(ctx context.Context, m *schema.Message, agent schema.AgentName, do func() error) (bool, error) {
			return track.TakeBack(ctx, w, m, agent, do)
		},
	}
}

const (
	// briefly is how long a command waits for a remote before or after its work.
	briefly = 2 * time.Second
	// patiently is the same for the last sync after a signal.
	patiently = 5 * time.Second
)

// Once syncs each workspace once.
func (y *Synchronizer) Once(ctx context.Context) {
	if y == nil {
		return
	}
	for _, r := range y.remotes {
		_, err := r.repository.Sync(ctx, r.options)
		y.observe(ctx, r, err)
	}
}

// Briefly syncs each workspace once, but waits only two seconds for a remote to answer. It reports whether all
// are synced. A sync of another process that begins meanwhile is enough, so commands that send at the same time
// share a push.
func (y *Synchronizer) Briefly(ctx context.Context) bool {
	return y == nil || y.within(ctx, briefly)
}

func (y *Synchronizer) within(ctx context.Context, limit time.Duration) bool {
	synced := true
	for _, r := range y.remotes {
		options := r.options
		options.Share = true
		limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the remote did not answer within %v", limit))
		_, err := r.repository.SyncUntil(limited, options)
		cancel()
		y.observe(ctx, r, err)
		synced = synced && err == nil
	}
	return synced
}

// observe reports how a sync ended, unless ctx was cancelled.
func (y *Synchronizer) observe(ctx context.Context, r *remote, err error) {
	if ctx.Err() == nil {
		r.Observe(err, y.streams)
	}
}

// Start syncs each workspace repeatedly until the caller calls stop: the first time at once, unless another process
// has just done so.
func (y *Synchronizer) Start(ctx context.Context) (stop func()) {
	if y == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, r := range y.remotes {
		options := r.options
		options.Waiting = nil // the work goes on
		running.Go(func() {
			r.repository.Every(ctx, y.every, options, func(_ gitmail.Result, err error) { y.observe(ctx, r, err) })
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// Begin syncs each workspace once, and then does what Start does. It waits two seconds for a remote, but not longer
// than the limit, unless that is 0.
func (y *Synchronizer) Begin(ctx context.Context, limit time.Duration) (stop func()) {
	if y == nil {
		return func() {}
	}
	y.within(ctx, min(cmp.Or(limit, briefly), briefly))
	return y.Start(ctx)
}

// Around calls work, and syncs while it runs and once more afterwards. If work ends by itself, Around also syncs
// before it.
func (y *Synchronizer) Around(ctx context.Context, ends bool, work func() error) error {
	if y == nil {
		return work()
	}
	var stop func()
	if ends {
		stop = y.Begin(ctx, 0)
	} else {
		stop = y.Start(ctx)
	}
	err := work()
	stop()
	if ctx.Err() != nil {
		// A second signal ends the last sync with its git, which a killed process would leave behind.
		ctx, stop = UntilSignal(context.WithoutCancel(ctx))
		defer stop()
		y.within(ctx, patiently)
		return err
	}
	for _, r := range y.remotes {
		if r.failing != "" {
			y.Briefly(ctx)
			return err
		}
	}
	y.Once(ctx) // it may carry much mail
	return err
}

// A RemoteState remembers whether syncs with a remote fail, to say so once.
type RemoteState struct {
	// Name is what messages call the remote.
	Name string
	// failing is the code of the last failure, or empty.
	failing string
}

// Observe takes the result of a sync. It warns if the sync failed, unless the one before failed for the same reason,
// and prints a note if syncs succeed again. It reports whether it printed anything.
func (r *RemoteState) Observe(err error, s *Streams) bool {
	if err == nil {
		recovered := r.failing != ""
		r.failing = ""
		if recovered {
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
	s.Tell("oacp: warning: sync: %s\nhint: %s\n", visible.Line(f.Message()), visible.Line(hint)) // as Warn
	return true
}
