package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// outward carries what is new in the outboxes into a log.
type outward struct {
	workspace *mailbox.Workspace
	log       *bridge.Log
	outboxes  *outboxes

	loaded  bool
	state   outwardState
	journal *journal // loaded when the first outbox turns out to have changed
	young   *nursery
	// patience is for how long files that are being written are waited for, where no further pass follows.
	patience time.Duration
	// since and all say what belongs in the log; see Mirror. Afresh says that the caller did so, and what was
	// left out before is to be looked at again.
	since  time.Time
	all    bool
	afresh bool
	// only is Mirror.Only, and passedOver the files of messages that it does not want.
	only       func(*schema.Message) bool
	passedOver map[fileKey]bool
	// reported are the files that were reported as bad.
	reported map[fileKey]bool
}

func (o *outward) pass(ctx context.Context, named *changes, report *Report, count *progress) (err error) {
	if err := o.load(ctx); err != nil {
		return err
	}
	s := &scan{
		dirs: make(map[schema.AgentName]*durable.Dir), present: make(map[fileKey]bool),
		modified: make(map[schema.AgentName]time.Time), again: make(map[schema.AgentName]bool),
	}
	defer func() {
		for _, dir := range s.dirs {
			err = errors.Join(err, dir.Close())
		}
	}()
	if named != nil {
		err = o.lookAt(ctx, s, named)
	} else {
		err = o.look(ctx, s)
	}
	if err != nil {
		return err
	}
	if err := o.readAll(ctx, s); err != nil {
		return err
	}
	o.settle(s, report)
	count.expect(len(s.files))
	for start := 0; start < len(s.files); start += appendBatch {
		batch := s.files[start:min(start+appendBatch, len(s.files))]
		if err := o.record(ctx, s, batch, report); err != nil {
			return err
		}
		count.add(len(batch))
	}
	return errors.Join(o.finish(ctx, s, report), s.failed)
}

// readAll reads what was found. A mirror with patience then waits for what is being written.
func (o *outward) readAll(ctx context.Context, s *scan) error {
	deadline := o.young.now().Add(o.patience)
	for {
		if err := o.read(ctx, s); err != nil {
			return err
		}
		o.young.leave(s.young)
		now := o.young.now()
		if o.patience == 0 || len(s.young) == 0 || o.young.due.After(deadline) {
			return nil
		}
		if err := o.young.pause(ctx, o.young.due.Sub(now)); err != nil {
			return err
		}
		again := o.young.names()
		s.young = nil
		if err := o.addNamed(s, again); err != nil {
			return err
		}
	}
}

// load reads what is remembered, and forgets it if it is not about this log.
func (o *outward) load(ctx context.Context) error {
	if !o.loaded {
		o.state = loadState[outwardState](o.statePath())
		o.state.Log, o.loaded = o.log.Path(), true
		if o.afresh || o.state.Bound != o.bound() {
			clear(o.state.Outboxes)
		}
		o.state.Bound = o.bound()
	}
	if o.state.Outboxes == nil {
		o.state.Outboxes = make(map[schema.AgentName]time.Time)
	}
	known, err := hasPlace(ctx, o.log, o.state.Recorded)
	if err != nil || known && o.state.Recorded != "" {
		return err
	}
	clear(o.state.Outboxes)
	if known {
		return nil
	}
	o.state.Recorded = ""
	if err := o.needJournal(ctx); err != nil {
		return err
	}
	return o.journal.reset()
}

// bound says in a word what belongs in the log.
func (o *outward) bound() string {
	if o.all {
		return "all"
	}
	return "since " + o.since.UTC().Format(time.RFC3339)
}

// isDone reports whether a file was dealt with, and under which key it is listed.
func (o *outward) isDone(key fileKey) (listed fileKey, done bool) {
	if _, done := o.journal.files[key]; done {
		return key, true
	}
	listed = key.leftOutKey(o.bound())
	_, done = o.journal.files[listed]
	return listed, done
}

func (o *outward) statePath() string { return statePath(o.workspace, o.log, Out) }

func (o *outward) needJournal(ctx context.Context) (err error) {
	if o.journal == nil {
		o.journal, err = loadJournal(ctx, o.statePath(), o.log)
		if err == nil && o.afresh {
			clear(o.journal.files)
		}
	}
	return err
}

// wasRecorded reports whether a message was recorded from an outbox, in these words.
func (o *outward) wasRecorded(ctx context.Context, as recorded) (bool, error) {
	if err := o.needJournal(ctx); err != nil {
		return false, err
	}
	return o.journal.messages[as], nil
}

// record appends the messages of files to the log and then lists the files.
func (o *outward) record(ctx context.Context, s *scan, files []*outboxFile, report *Report) error {
	messages := make([]*schema.Message, 0, len(files))
	done := make([]journalEntry, 0, len(files))
	for _, f := range files {
		if f.message == nil {
			s.load(f)
		}
		if f.err != nil { // it was there, and as it was, a moment ago
			if errors.Is(f.err, fs.ErrNotExist) {
				s.again[f.agent] = true
			} else {
				o.leave(s, f, f.err, report)
			}
			continue
		}
		if o.only != nil && !o.only(f.message) {
			// The state says what is done with, and an outbox that holds this is not.
			o.passedOver[f.key], s.again[f.agent] = true, true
			f.message = nil
			continue
		}
		if err := o.outboxes.note(f.message); err != nil {
			return err
		}
		sum, err := sumOf(f.message)
		if err != nil {
			return err
		}
		messages, done = append(messages, f.message), append(done, journalEntry{f.key, recordedAs(f.message.ID, sum)})
		f.message = nil
	}
	a := appender{log: o.log, report: report, since: o.since, ownOnly: !o.all}
	if err := a.append(ctx, messages); err != nil {
		return err
	}
	for i, m := range messages {
		if a.leftOut[m] {
			done[i].key = done[i].key.leftOutKey(o.bound())
		}
	}
	place, err := o.log.End(ctx)
	if err != nil {
		return err
	}
	if err = o.workspace.MakeStateFolder(stateName); err == nil {
		err = o.journal.add(done, place)
	}
	stateWarning(report, err)
	return nil
}

// finish remembers that all that was found is recorded.
func (o *outward) finish(ctx context.Context, s *scan, report *Report) error {
	forgotten := false
	for agent := range s.again {
		_, known := o.state.Outboxes[agent]
		forgotten = forgotten || known
		delete(o.state.Outboxes, agent)
		delete(s.modified, agent)
	}
	if len(s.files) == 0 && len(s.modified) == 0 && !forgotten {
		return nil
	}
	place, err := o.log.End(ctx)
	if err != nil {
		return fmt.Errorf("end of the log: %w", err)
	}
	o.state.Recorded = place
	maps.Copy(o.state.Outboxes, s.modified)
	err = saveState(o.workspace, o.statePath(), o.state)
	if s.present != nil {
		err = errors.Join(err, o.journal.keep(s.present, place))
	}
	stateWarning(report, err)
	return nil
}
