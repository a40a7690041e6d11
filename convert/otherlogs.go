package convert

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// otherLogs are the other logs that a workspace is mirrored with. Records of two runs that were made within a
// second and say the same become equal messages, and then it takes the logs to tell how many there are to be.
type otherLogs struct {
	workspace *mailbox.Workspace
	own       string // path of the log that is mirrored
	found     bool
	logs      []otherLog
}

// otherLog is a log and the line up to which it was delivered.
type otherLog struct {
	*bridge.Log
	delivered int
}

// find opens the logs that the state tells of and that are still there.
func (o *otherLogs) find(ctx context.Context) error {
	if o.found {
		return nil
	}
	o.found = true
	const extension = ".json"
	names, err := filepath.Glob(filepath.Join(stateFolder(o.workspace), "*-"+string(In)+extension))
	if err != nil {
		return err
	}
	for _, name := range names {
		state := loadState[inwardState](name[:len(name)-len(extension)])
		if state.Log == o.own || state.Delivered == "" {
			continue
		}
		log, err := bridge.Open(state.Log, nil)
		if err != nil {
			continue // it is no more, and tells nothing
		}
		o.logs = append(o.logs, otherLog{log, state.Delivered.Line()})
		if known, err := hasPlace(ctx, log, state.Delivered); err != nil || !known {
			o.logs[len(o.logs)-1].delivered = 0
		}
	}
	return nil
}

func (o *otherLogs) close() error {
	var failed error
	for _, log := range o.logs {
		failed = errors.Join(failed, log.Close())
	}
	return failed
}

// isOfAnotherRun reports whether the message that is in the outbox already stands for the record of another run,
// and not for this one. A message belongs to one record only. It is the other one's if that was delivered and has
// no message that names its run; so in the end there are as many messages as records, whichever came first.
func (d *deliverer) isOfAnotherRun(ctx context.Context, one delivery) (bool, error) {
	if d.others == nil || one.carried != nil || one.form.run != "" || isCopy(one.entry.Record) {
		return false, nil
	}
	if err := d.others.find(ctx); err != nil {
		return false, err
	}
	for _, log := range d.others.logs {
		found, err := log.Find(ctx, one.entry.ID)
		if err != nil {
			continue // a log that cannot be read tells nothing
		}
		for _, e := range found {
			if e.Line > log.delivered || !isTwin(e.Record, one.entry.Record) || isCopy(e.Record) {
				continue
			}
			if named, err := d.hasNamed(ctx, e.Record, one); err != nil || !named {
				return err == nil, err
			}
		}
	}
	return false, nil
}

// isTwin reports whether the record of another run gives the same message.
func isTwin(r, of bridge.Record) bool {
	at, _ := timeOf(r.Timestamp)
	same, _ := timeOf(of.Timestamp)
	return r.RunID != of.RunID && r.SaysTheSame(of) && at.Equal(same)
}

// isCopy reports whether a record is a copy of one in another log, which is the one that its message belongs to.
func isCopy(r bridge.Record) bool {
	m, _ := carriedBy(r)
	_, born := originOfCopy(m)
	return born
}

// hasNamed reports whether the message that names the run of a record is in the outbox.
func (d *deliverer) hasNamed(ctx context.Context, r bridge.Record, one delivery) (bool, error) {
	m, err := born(r, one.message.To, named(r, one.form.of))
	if err != nil {
		return false, err
	}
	to, err := d.outboxes.recipients(ctx, m)
	return to != nil, err
}

// named is the form of the message that names the run of its record.
func named(r bridge.Record, of schema.ID) form {
	return form{part: 1, long: true, of: of, run: strconv.Itoa(r.RunID)}
}
