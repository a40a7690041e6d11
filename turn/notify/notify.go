// Package notify tells people about new mail: it runs the command of the setting notify of a person once
// for each message, with the message's body as standard input and the variables of a turn.
//
// A file state/notify/AGENT/NAME says that the message in the file NAME of the inbox is dealt with. It is made
// before the command starts, so only one process runs it, and a command that fails or hangs does not run again. Until the
// command ends, the file has the mark of its processes.
//
// Mail that is older than the last change of the setting's file runs no command. A setting that the user has not allowed
// is a warning.
package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

// stateFolder has a folder for each person.
const stateFolder = "state/notify/"

// limit is how long a command may take. Then it is stopped with its children. Tests change it.
var limit = 30 * time.Second

// moment is how long Briefly waits.
const moment = 3 * time.Second

var (
	errLimit  = errors.New("the command took too long")
	errMoment = fmt.Errorf("%w: it did not end within %v, and oacp ends now", errLimit, moment)
)

// A person is an agent with the setting.
type person struct {
	w       *mailbox.Workspace
	name    schema.AgentName
	command []string
	// since is when the file with the setting was last changed.
	since time.Time
	// done are the files in the inbox that need no command any more.
	done map[string]bool
	// mark is that of the command about the last message that next returned.
	mark orphans.Mark
	// failure is the last error that was reported.
	failure string
}

// Check returns why new mail of an agent runs no command although it has the setting, and its user has allowed it.
func Check(w *mailbox.Workspace, name schema.AgentName) error {
	settings, err := turn.LoadSettings(w, name)
	switch {
	case err != nil || len(settings.Notify) == 0:
		return err
	case !project.IsPerson(w, name):
		return fmt.Errorf("notify has no effect: %s is no person, because its runtime is not human", name)
	}
	return driver(w, settings.Notify).Start(context.Background())
}

// Once runs the commands for the new mail of all people in the workspaces, for all of them at the same time, and for each
// until one fails: a later call goes on with the next message. It passes failures to warn.
func Once(ctx context.Context, warn func(error), workspaces ...*mailbox.Workspace) {
	var running sync.WaitGroup
	for _, p := range people(warn, workspaces) {
		running.Go(func() { p.look(ctx, warn) })
	}
	running.Wait()
}

// Briefly does what Once does, and stops the commands that do not end within a moment.
func Briefly(ctx context.Context, warn func(error), workspaces ...*mailbox.Workspace) {
	ctx, cancel := context.WithTimeoutCause(ctx, moment, errMoment)
	defer cancel()
	Once(ctx, warn, workspaces...)
}

// Start does what Once does now, and whenever mail arrives, until the caller calls stop. It reads the settings only
// once.
func Start(ctx context.Context, warn func(error), workspaces ...*mailbox.Workspace) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, p := range people(warn, workspaces) {
		running.Go(func() {
			inbox := []string{p.w.BoxPath(p.name, mailbox.Inbox)}
			_ = watch.Await(ctx, inbox, func() (bool, error) { p.look(ctx, warn); return false, nil }) // it ends with the context
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// people returns the people in the workspaces who have the setting.
func people(warn func(error), workspaces []*mailbox.Workspace) (all []*person) {
	for _, w := range workspaces {
		agents, err := w.Agents()
		if err != nil {
			warn(err)
		}
		for _, name := range agents {
			if !project.IsPerson(w, name) {
				continue
			}
			settings, err := turn.LoadSettings(w, name)
			if err = cmp.Or(err, settings.CheckNotify()); err != nil {
				warn(err)
				continue
			}
			if len(settings.Notify) == 0 {
				continue
			}
			info, err := os.Stat(settings.NotifyFile)
			if err != nil {
				warn(err)
				continue
			}
			all = append(all, &person{w: w, name: name, command: settings.Notify, since: info.ModTime(), done: make(map[string]bool)})
		}
	}
	return all
}

// look runs the command for each new message, until it fails.
func (p *person) look(ctx context.Context, warn func(error)) {
	for ctx.Err() == nil {
		e, err := p.next(ctx)
		if err == nil && e != nil {
			err = p.run(ctx, e)
		}
		if err != nil && (ctx.Err() == nil || errors.Is(err, errMoment)) && err.Error() != p.failure {
			p.failure = err.Error()
			warn(fmt.Errorf("notify of %s: %w", p.name, err))
		}
		if err != nil || e == nil {
			return
		}
	}
}

// next returns a new message, after it has recorded that it is dealt with. It returns nil if there is none.
func (p *person) next(ctx context.Context) (_ *mailbox.Entry, err error) {
	folder := stateFolder + string(p.name)
	dir, err := p.w.OpenStateFolder(folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	records, err := dir.Names() // before the inbox, so that none is of a message that comes between
	if err != nil {
		return nil, err
	}
	files, err := durable.ListFolder(p.w.Root(), p.w.Dir(), schema.BoxPath(p.name, mailbox.Inbox))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	for _, name := range records {
		if !p.done[name] {
			err = errors.Join(err, p.endOrphans(ctx, folder+"/"+name))
		}
		p.done[name] = true
		if _, found := slices.BinarySearch(files, name); !found {
			err = errors.Join(err, dir.Remove(name))
		}
	}
	isNew := func(name string) bool { return !p.done[name] }
	entries, listErr := p.w.ListNamed(ctx, p.name, mailbox.Inbox, isNew, func(*mailbox.Entry) bool { return true })
	for _, e := range mailbox.InOrder(entries) {
		if e.Err != nil { // it is held, or somebody is writing it
			continue
		}
		p.done[e.Name] = true
		if e.Modified.Before(p.since) || e.Message.ExpiredAt(time.Now()) {
			continue
		}
		p.mark = p.commands().NewMark()
		record, err := dir.Create(e.Name, []byte(p.mark))
		if errors.Is(err, fs.ErrExist) {
			continue // another process was first
		}
		if err == nil {
			err = durable.Finish(record)
		}
		return &e, err
	}
	return nil, errors.Join(err, listErr)
}

// endOrphans ends what a killed process left of a command, whose mark is in the record. No living one runs it that long.
func (p *person) endOrphans(ctx context.Context, record string) error {
	info, err := p.w.Root().Lstat(record)
	if err != nil || info.Size() == 0 || time.Since(info.ModTime()) < 2*limit {
		return nil
	}
	mark, err := durable.ReadFile(p.w.Root(), p.w.Dir(), record, maxMark)
	if err == nil {
		_, err = p.commands().End(ctx, orphans.Mark(mark))
	}
	return errors.Join(err, p.ended(record))
}

// commands is the owner of the processes of the commands.
func (p *person) commands() orphans.Owner {
	return orphans.OwnerOf(p.w.Dir(), "notify", string(p.name))
}

// maxMark bounds a record in bytes.
const maxMark = 100

// ended records that a command has ended. What it then leaves running, it means to.
func (p *person) ended(record string) error {
	file, err := p.w.Root().OpenFile(record, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	return file.Close()
}

// driver returns what runs a command, in the folder of the workspace.
func driver(w *mailbox.Workspace, command []string) agent.Driver {
	return agent.NewExec(agent.Options{Command: command, Dir: w.Dir(), Grace: time.Second})
}

// run runs the command for a message.
func (p *person) run(ctx context.Context, e *mailbox.Entry) error {
	ctx, cancel := context.WithTimeoutCause(orphans.WithMark(ctx, p.mark), limit, errLimit)
	defer cancel()
	command := driver(p.w, p.command)
	err := command.Start(ctx)
	if err == nil {
		request := agent.Request{Prompt: e.Message.BodyText(), Env: turn.Variables(p.w, p.name, e.Path, e.Message)}
		var result agent.Result
		if result, err = command.Turn(ctx, request, nil); err != nil && result.LastLine != "" {
			err = fmt.Errorf("%w: %s", err, result.LastLine)
		}
	}
	err = errors.Join(err, p.ended(stateFolder+string(p.name)+"/"+e.Name))
	if err != nil {
		err = fmt.Errorf("%s about message %s: %w", p.command[0], e.Message.ID.Short(), err)
	}
	return err
}
