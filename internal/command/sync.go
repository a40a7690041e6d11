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
	"github.com/oacp-go/oacp/turn/track"
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
	// isSilent says that the remotes did not answer from the beginning to the end of the work.
	isSilent bool
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
			y.remotes = append(y.remotes, RemoteState{Name: repository.Settings().Name()})
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

// Once syncs each workspace once, and reports whether all are in step. It says what it waits for.
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

// errNoAnswer says that a remote holds up a command no longer.
var errNoAnswer = fmt.Errorf("the remote did not answer within %v", patience)

// Briefly is Once for a command whose work is done: it waits two seconds for a remote to answer. A sync of another process
// that begins meanwhile is enough, so commands that send at the same time share a push.
func (y *Synchronizer) Briefly(ctx context.Context) bool {
	if y == nil {
		return true
	}
	done := true
	for i := range y.repositories {
		done = y.briefly(ctx, i) && done
	}
	return done
}

func (y *Synchronizer) briefly(ctx context.Context, i int) (done bool) {
	o := y.options(i)
	o.Waiting, o.Share = y.streams.NoteWaiting, true
	limited, cancel := context.WithTimeoutCause(ctx, patience, errNoAnswer)
	defer cancel()
	_, err := y.repositories[i].SyncUntil(limited, o)
	y.observe(ctx, i, err)
	return err == nil
}

// first syncs the last workspace once. A signal ends it, and is the error.
func (y *Synchronizer) first(ctx context.Context) error {
	ctx, stop := UntilSignal(ctx)
	defer stop()
	y.once(ctx, len(y.repositories)-1)
	return context.Cause(ctx)
}

func (y *Synchronizer) once(ctx context.Context, i int) (done bool) {
	o := y.options(i)
	o.Waiting = y.streams.NoteWaiting
	_, err := y.repositories[i].Sync(ctx, o)
	y.observe(ctx, i, err)
	return err == nil
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
	for i, r := range y.repositories {
		running.Go(func() {
			report := func(_ gitmail.Result, err error) { y.observe(ctx, i, err) }
			if sends {
				report(r.SyncUntil(ctx, y.options(i)))
				first()
				select {
				case <-ctx.Done():
				case <-time.After(y.every):
				}
			}
			r.Every(ctx, y.every, y.options(i), report)
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// patience is how long the work on what is pending here waits for the first sync. A remote that answers
// has then said what other machines acknowledged, and one that hangs does not stop the work.
const patience = 2 * time.Second

// A Beginning is the first sync of a command that ends by itself.
type Beginning struct {
	y *Synchronizer
	// done is closed when the first sync has ended. It is nil if Begin waited for that.
	done <-chan struct{}
	stop func()
}

// Begin syncs as Start does, at once, and waits until each workspace was synced once, but not longer than
// the limit, which may be 0 for none, and two seconds. The caller calls Stop.
func (y *Synchronizer) Begin(ctx context.Context, limit time.Duration) *Beginning {
	if y == nil {
		return &Beginning{stop: func() {}}
	}
	var first sync.WaitGroup
	first.Add(len(y.repositories))
	b := &Beginning{y: y, stop: y.start(ctx, true, first.Done)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		first.Wait()
	}()
	late := time.NewTimer(min(cmp.Or(limit, patience), patience))
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		b.done = done
	}
	return b
}

// Await waits for the first sync if Begin did not, for two more seconds, and reports whether mail may have come since
// then.
func (b *Beginning) Await(ctx context.Context) bool {
	if b.done == nil {
		return false
	}
	b.y.streams.NoteWaiting(b.y.remotes[0].Name)
	select {
	case <-b.done:
		b.done = nil
		return ctx.Err() == nil
	case <-time.After(patience):
		for i := range b.y.remotes {
			b.y.unanswered(ctx, i)
		}
	case <-ctx.Done():
	}
	return false
}

// Stop ends all syncs.
func (b *Beginning) Stop() { b.stop() }

func (y *Synchronizer) options(i int) gitmail.Options { return SyncOptions(y.workspaces[i]) }

// SyncOptions returns the options of every sync of a workspace: a message that another machine restored
// gets new turns here, too.
func SyncOptions(w *mailbox.Workspace) gitmail.Options {
	return gitmail.Options{Restore: func(ctx context.Context, m *schema.Message, agent schema.AgentName) error {
		_, err := track.Restore(ctx, w, string(m.ID), agent, false)
		return err
	}}
}

// lastSync bounds the sync after a signal. That sync pushes the results of the work if the remote answers.
const lastSync = 5 * time.Second

// Around calls work, and syncs meanwhile and once more after it. If work ends by itself, it syncs before it,
// too; mail of a first sync that takes long is work for a second call.
func (y *Synchronizer) Around(ctx context.Context, ends bool, work func() error) error {
	if y == nil {
		return work()
	}
	err := y.during(ctx, ends, work)
	if ctx.Err() != nil {
		// A second signal ends the last sync with its git, which a killed process would leave behind.
		var stop, cancel func()
		ctx, stop = UntilSignal(context.WithoutCancel(ctx))
		defer stop()
		ctx, cancel = context.WithTimeout(ctx, lastSync)
		defer cancel()
	}
	for i := range y.repositories {
		switch {
		case y.answers(i): // it may carry much mail now
			y.once(ctx, i)
		case !y.isSilent:
			y.briefly(ctx, i)
		}
	}
	return err
}

// during calls work, and syncs meanwhile.
func (y *Synchronizer) during(ctx context.Context, ends bool, work func() error) error {
	if !ends {
		defer y.Start(ctx, false)()
		return work()
	}
	begun := y.Begin(ctx, 0)
	defer begun.Stop()
	err := work()
	if err == nil && begun.Await(ctx) {
		err = work()
	}
	select {
	case <-begun.done:
	default:
		y.isSilent = begun.done != nil
	}
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

// answers reports whether the last sync succeeded.
func (y *Synchronizer) answers(i int) bool {
	y.lock.Lock()
	defer y.lock.Unlock()
	return y.remotes[i].answers
}

// unanswered notes that a remote did not answer yet, unless it did.
func (y *Synchronizer) unanswered(ctx context.Context, i int) {
	if !y.answers(i) {
		y.observe(ctx, i, &gitmail.RemoteError{URL: gitmail.PublicURL(y.repositories[i].Settings().URL), Err: errNoAnswer})
	}
}

// A RemoteState remembers whether syncs with a remote fail, to say so once.
type RemoteState struct {
	// Name is what messages call the remote.
	Name string
	// failing is the code of the last failure, or empty, and answers says that the last sync succeeded.
	failing string
	answers bool
}

// Observe warns about the first sync that fails, or fails for another reason than the last one, and notes
// the first one that succeeds again. It reports whether it printed anything.
func (r *RemoteState) Observe(err error, s *Streams) bool {
	if r.answers = err == nil; r.answers {
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
	_, _ = fmt.Fprintf(s.Err, "oacp: warning: sync: %s\nhint: %s\n", visible.Line(f.Message()), visible.Line(hint)) // as Warn
	return true
}
