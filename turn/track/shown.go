package track

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// News tells which messages in the inbox of an agent are new to it: no turn works on them, and no living process or
// session of the agent was shown them. After a process has ended, what it was shown is new again, so that an agent
// that starts again finds its work.
type News struct {
	w       *mailbox.Workspace
	agent   schema.AgentName
	journal os.FileInfo
	state   *inboxState
}

// NewsOf returns the news of an agent.
func NewsOf(w *mailbox.Workspace, agent schema.AgentName) *News { return &News{w: w, agent: agent} }

// refresh reads the journal if it has changed.
func (n *News) refresh() error {
	info, err := os.Stat(filepath.Join(n.w.Dir(), TurnsFolder, JournalName(n.agent)))
	isSame := err == nil && n.journal != nil && os.SameFile(info, n.journal) && info.Size() == n.journal.Size()
	if isSame || err != nil && !os.IsNotExist(err) {
		return err
	}
	state, err := newTracker(n.w).inbox(n.agent)
	if err == nil {
		n.journal, n.state = info, state
	}
	return err
}

// Has reports whether a message in the inbox is new. It returns true if that is unknown, so that no message is missed.
func (n *News) Has(m *schema.Message) bool { return n.Standing(m, Holder{}) <= Seen }

// A Standing says who has a message, as a holder sees it.
type Standing int

// The standings. The holder may be given a message that is Fresh or Seen.
const (
	// Fresh is a message that nobody has.
	Fresh Standing = iota
	// Seen is one that somebody noticed who has ended.
	Seen
	// Own is one that the process of the holder was given by another front.
	Own
	// Offered is one that another holder was given, and Taken one that it noticed, or that has a turn.
	Offered
	Taken
)

// Standing returns who has a message. It returns Fresh if that is unknown, so that no message is missed.
func (n *News) Standing(m *schema.Message, to Holder) Standing {
	rec := n.record(m)
	if rec == nil {
		return Fresh
	}
	isTaken := func(ignore func(Holder) bool) bool {
		return n.state.history.isTaken(rec, n.state.running, time.Now(), ignore)
	}
	isNoticed := len(rec.Noticed) > 0 || rec.Working != nil
	switch {
	case !isTaken(to.replaces) && isNoticed:
		return Seen
	case !isTaken(to.replaces):
		return Fresh
	case !isTaken(to.isSameProcess):
		return Own
	case isNoticed || rec.Running || rec.Outcome != "":
		return Taken
	}
	return Offered
}

// HasReturned reports whether a holder that was given a message has it no more, because somebody returned it.
func (n *News) HasReturned(id schema.ID, from Holder) bool {
	if n.refresh() != nil {
		return false
	}
	rec := n.state.records[id]
	return rec != nil && rec.Returned && !rec.isOfferedTo(from)
}

// IsOfferedTo reports whether a holder was given a message and has not returned it.
func (n *News) IsOfferedTo(m *schema.Message, to Holder) bool {
	rec := n.record(m)
	return rec != nil && rec.isOfferedTo(to)
}

// record returns what the journal has about a message, or nil.
func (n *News) record(m *schema.Message) *Record {
	if n.refresh() != nil || n.state.records[m.ID] == nil { // most messages have no record
		return nil
	}
	return n.state.history.Records[KeyOf(m)]
}

// OpenMessage is a message that the agent was shown, and that is in its inbox.
type OpenMessage struct {
	*schema.Message
	// Shown is when that was first.
	Shown time.Time
}

// Open returns the messages in the inbox that were shown and are not handled, in processing order and without their bodies. It
// opens only the files that may hold one. The id of a message is precise enough for that.
func (n *News) Open(ctx context.Context) (open []OpenMessage, err error) {
	if err := n.refresh(); err != nil {
		return nil, err
	}
	shown, isForeign := make(map[sent]bool), false
	for id, rec := range n.state.records {
		if len(rec.Noticed) > 0 && !n.state.history.isNew(rec, n.state.running, time.Now()) {
			parts, err := schema.ParseID(id)
			shown[sent{parts.Sender, parts.At.Truncate(time.Minute)}] = true
			isForeign = isForeign || err != nil // the name of its file tells nothing
		}
	}
	if len(shown) == 0 {
		return nil, nil
	}
	mayHold := func(name string) bool {
		parsed, err := schema.ParseFileName(name)
		return err != nil || isForeign || shown[sent{parsed.From, parsed.At.Truncate(time.Minute)}]
	}
	inbox, err := n.w.ListNamed(ctx, n.agent, mailbox.Inbox, mayHold, func(e *mailbox.Entry) bool {
		if e.Err == nil {
			e.Message.Body = schema.Value{}
		}
		return e.Err == nil
	})
	for _, e := range mailbox.InOrder(inbox) {
		if rec := n.state.records[e.Message.ID]; rec != nil && !n.state.history.isNew(rec, n.state.running, time.Now()) && len(rec.Noticed) > 0 {
			open = append(open, OpenMessage{e.Message, inSeconds(rec.Noticed[0].At)})
		}
	}
	return open, err
}

// sent is what an id and the name of a file both tell: who sent the message, and in which minute.
type sent struct {
	from schema.AgentName
	at   time.Time
}

// MostAnnounced bounds how many files Announce opens, so that commands can call it whatever lies in the inbox.
const MostAnnounced = 50

// Announce returns those new messages among the newest files in the inbox that the holder was not told of, and records that it
// is now. If that cannot be recorded, it returns none, rather than the same ones again and again.
func (n *News) Announce(ctx context.Context, to Holder) (told []*schema.Message) {
	listing, err := n.w.Names(func(agent schema.AgentName, box mailbox.Box) bool { return agent == n.agent && box == mailbox.Inbox })
	if err != nil || n.refresh() != nil {
		return nil
	}
	names := listing.MessageFiles()
	slices.Sort(names) // names begin with a time
	newest := names[max(0, len(names)-MostAnnounced):]
	entries, err := n.w.ListNamed(ctx, n.agent, mailbox.Inbox, func(name string) bool { return slices.Contains(newest, name) },
		func(e *mailbox.Entry) bool { return e.Err == nil && !e.Message.ExpiredAt(time.Now()) })
	if err != nil {
		return nil
	}
	var facts []Fact
	for _, e := range entries {
		if rec := n.record(e.Message); n.Has(e.Message) && (rec == nil || !slices.Contains(rec.Announced, to)) {
			told, facts = append(told, e.Message), append(facts, announced.by(to, KeyOf(e.Message)))
		}
	}
	if len(facts) == 0 {
		return nil
	}
	slices.SortFunc(told, schema.CompareAge)
	j, err := newJournal(n.w, n.agent, time.Now)
	if err != nil || errors.Join(j.write(false, facts...), j.Close()) != nil {
		return nil
	}
	return told
}

// Exclusively calls do while no other process shows messages to the agent, takes one back from it, answers, or begins a turn
// on one. It waits for the others.
func Exclusively(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, do func() error) error {
	if err := w.CheckAgent(agent); err != nil {
		return err
	}
	dir, err := w.OpenStateFolder(TurnsFolder)
	if err != nil {
		return err
	}
	return errors.Join(dir.Locked(ctx, string(agent)+".shown.lock", do), dir.Close())
}

// Recall takes a message back from those of its recipients that have not noticed it: it becomes a dead letter of theirs.
// Recall returns how far the message then is. It tries all recipients, and its error comes with that progress. What a
// recipient was shown on another machine comes back: see TakeBack.
func Recall(ctx context.Context, w *mailbox.Workspace, m *schema.Message) ([]Progress, error) {
	var failed error
	for i, agent := range m.To {
		if !w.Knows(agent) {
			continue
		}
		_, err := TakeBack(ctx, w, m, agent, func() error {
			progress, err := Track(ctx, w, string(m.ID))
			if err != nil {
				return err
			}
			p := progress[i]
			if isKept := p.Recall != nil && p.Recall.Kept; isKept || p.Stage != StageStored && !p.Stage.IsPending() {
				return nil
			}
			return mailbox.Recall(ctx, w, m, agent)
		})
		if !mailbox.IsGone(err) { // else the progress says where it is
			failed = errors.Join(failed, err)
		}
	}
	progress, err := Track(ctx, w, string(m.ID))
	if failed == nil {
		return progress, err
	}
	return progress, errors.Join(failed, err)
}

// TakeBack calls do, which takes a message back from an agent, unless the agent may have seen it on this machine: it was
// offered the message, or has answered it, or the message had a turn. Until do returns, nobody offers it to the agent.
func TakeBack(ctx context.Context, w *mailbox.Workspace, m *schema.Message, agent schema.AgentName, do func() error) (done bool, err error) {
	err = Exclusively(ctx, w, agent, func() error {
		t := newTracker(w)
		if err := t.note(t.readReplies(ctx, nil, m)); err != nil {
			return err
		}
		p, err := t.progress(m, agent, nil)
		if done = err == nil && !p.MaySeen; done {
			err = do()
		}
		return err
	})
	return done, err
}

// compactNoticed is the size of a journal, in bytes, above which Show looks whether it may forget messages that were
// only noticed and have left the inbox. A command that reads the journal shall not get slower from day to day.
const compactNoticed = 256 << 10

// compact removes from a large journal the records of messages that had no turn and left the inbox, if these are most of
// the records. A Runner compacts its journal itself.
func (n *News) compact(ctx context.Context) (err error) {
	if n.journal == nil || n.journal.Size() < compactNoticed || n.state.running {
		return nil
	}
	noticed := 0
	for _, rec := range n.state.history.Records {
		if rec.hadNoTurn() {
			noticed++
		}
	}
	inbox, err := n.w.Inbox(ctx, n.agent)
	if err != nil || noticed < 2*len(inbox)+len(n.state.history.Records)/2 {
		return err
	}
	pending := make(map[schema.ID]bool, len(inbox))
	for _, e := range inbox {
		if e.Message != nil {
			pending[e.Message.ID] = true
		}
	}
	return whileIdle(n.w, n.agent, func() error {
		j, err := OpenJournal(n.w, n.agent, time.Now)
		if err != nil {
			return err
		}
		err = j.compact(0, func(rec *Record) bool { return !rec.hadNoTurn() || pending[rec.ID] })
		return errors.Join(err, j.Close())
	})
}

// hadNoTurn reports whether all that is known of the message is who noticed it, and what the recipient said.
func (rec *Record) hadNoTurn() bool {
	return rec.Started.IsZero() && rec.Outcome == "" && rec.Held == "" && rec.Once == nil
}
