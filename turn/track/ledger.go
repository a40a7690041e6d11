package track

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A Holder is who may have a message: a process of the agent, and the session that it runs, if any. A session that another
// process continues is another holder. A Holder with a Program alone stands for whoever uses that program, as a person does,
// who is the same in all of them.
type Holder struct {
	// Session is the program's id of the session.
	Session string `json:"session"`
	// Program is claude or codex, or empty if it is unknown.
	Program string          `json:"program"`
	Process process.Process `json:"process,omitzero"`
	// System is where the process is, as a fingerprint of process.System.
	System string `json:"system,omitempty"`
}

// Person is the holder of what a person is shown, by whatever front.
var Person = Holder{Program: "person"}

// HolderOf returns the holder that a process of this system is.
func HolderOf(p process.Process) Holder { return Holder{Process: p, System: thisSystem()} }

var thisSystem = sync.OnceValue(func() string { return Fingerprint([]byte(process.System())) })

// holdFor is how long a holder that cannot be seen from here counts as alive after its last sign.
const holdFor = 30 * time.Minute

// isHere reports whether this system can tell whether the holder is alive.
func (h Holder) isHere() bool { return h.System == "" || h.System == thisSystem() }

// lives reports whether the holder is alive. Sign is the last time that it did something.
func (h Holder) lives(sign, now time.Time) bool {
	switch {
	case h.Process.PID > 0 && h.isHere():
		return h.Process.IsAlive()
	case h.Process.PID == 0 && h.Session == "" && h.Program != "":
		return true
	}
	silent := now.Sub(sign)
	return silent < holdFor && silent > -holdFor // a sign from the future is from before the clock was set back
}

// A Given is a message that a holder was given.
type Given struct {
	mailbox.Entry
	// Before is when somebody else had noticed it, zero if nobody had.
	Before time.Time
}

// Offer durably records that a holder gets some of the pending messages, before it does: those that are still in the inbox
// and that nobody else has or, if again is set, all that are still there; at most so many, unless most is 0. Until the holder
// ends or returns them, no other one gets them, and their sender cannot take them back. What the holder then has noticed is
// recorded with NoteNoticed.
func Offer(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, to Holder, pending []mailbox.Entry, most int, again bool) (given []Given, err error) {
	err = Exclusively(ctx, w, agent, func() error {
		news := NewsOf(w, agent)
		var facts []Fact
		var keys []Key
		for _, e := range pending {
			if most > 0 && len(given) == most {
				break
			}
			standing := news.Standing(e.Message, to)
			if _, err := os.Lstat(e.Path); err != nil || !again && standing > Seen {
				continue
			}
			one := Given{Entry: e}
			if rec := news.record(e.Message); rec != nil && len(rec.Noticed) > 0 {
				one.Before = inSeconds(rec.Noticed[len(rec.Noticed)-1].At)
			}
			given = append(given, one)
			keys = append(keys, KeyOf(e.Message))
			facts = append(facts, offered.by(to, KeyOf(e.Message)))
		}
		if len(facts) == 0 {
			return nil
		}
		if err := news.compact(ctx); err != nil {
			return err
		}
		err := appendFacts(w, agent, facts...)
		if err != nil { // some of them may be written, and nothing is given
			_ = Return(w, agent, to, true, keys...) // the first error says why that fails, too
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return given, nil
}

// Return durably records that a holder no longer has messages, or that nobody has for the zero Holder: then they are new again. Unwritten says that the holder was not shown any of their text, so
// that their sender can still take them back; otherwise they may have been seen.
func Return(w *mailbox.Workspace, agent schema.AgentName, from Holder, unwritten bool, messages ...Key) error {
	if err := w.CheckAgent(agent); err != nil || len(messages) == 0 {
		return err
	}
	facts := make([]Fact, len(messages))
	for i, k := range messages {
		facts[i] = returned.by(from, k)
		facts[i].Unwritten = unwritten
	}
	return appendFacts(w, agent, facts...)
}

// by makes a fact about a message and a holder.
func (k FactKind) by(h Holder, message Key) Fact {
	return Fact{Kind: k, Envelope: Envelope{Key: message}, Session: h.Session, Program: h.Program, Process: h.Process, System: h.System}
}

// holder returns the holder of a fact.
func (f *Fact) holder() Holder { return Holder{f.Session, f.Program, f.Process, f.System} }

// applyOffer adds who was given the message, who returned it, and which turn waited for it.
func (rec *Record) applyOffer(f *Fact) {
	if f.Kind == awaitedReply {
		rec.AwaitedIn, rec.AwaitedAt = f.In, f.At
		return
	}
	isOwn := func(n Noticed) bool { return n.Holder == f.holder() || f.holder() == Holder{} }
	if isAgain := f.Kind == offered && slices.ContainsFunc(rec.Offered, isOwn); isAgain || f.Kind != offered && !f.Unwritten {
		rec.MaySeen = rec.mayBeSeen()
	}
	rec.Offered = slices.DeleteFunc(rec.Offered, isOwn)
	switch {
	case f.Kind == offered:
		rec.Offered = append(rec.Offered, Noticed{f.holder(), f.At})
	case !f.Unwritten:
		rec.Returned = true
		rec.Noticed = slices.DeleteFunc(rec.Noticed, isOwn)
		if rec.Working != nil && isOwn(Noticed{Holder: rec.Working.holder()}) {
			rec.Working = nil
		}
	}
}

// isOfferedTo reports whether the holder was given the message and has not returned it.
func (rec *Record) isOfferedTo(h Holder) bool {
	return slices.ContainsFunc(rec.Offered, func(n Noticed) bool { return n.Holder == h || h.replaces(n.Holder) })
}

// mayBeSeen reports whether the recipient may have seen the message, so that its sender cannot take it back.
func (rec *Record) mayBeSeen() bool {
	return rec.MaySeen || len(rec.Offered)+len(rec.Noticed) > 0 || rec.Working != nil || rec.Attempts > 0
}

// replaces reports whether both are sessions, and n is the same one or was before it in its process. What a session itself was
// shown, it knows.
func (h Holder) replaces(n Holder) bool {
	isUnknown := h.Process.PID == 0 || n.Process.PID == 0
	return h.Session != "" && n.Session != "" && h.System == n.System &&
		(isUnknown && h.Session == n.Session || !isUnknown && h.Process == n.Process)
}

// isSameProcess reports whether both are in one process.
func (h Holder) isSameProcess(n Holder) bool {
	return h.replaces(n) || h.Process.PID > 0 && h.Process == n.Process && h.System == n.System
}

// isNew reports whether the message is new to the agent: no turn works on it or has succeeded, and nobody who has it is alive.
func (h *History) isNew(rec *Record, runs bool, now time.Time) bool {
	return !h.isTaken(rec, runs, now, func(Holder) bool { return false })
}

// isTaken is the opposite of isNew, except for holders that are ignored.
func (h *History) isTaken(rec *Record, runs bool, now time.Time, ignore func(Holder) bool) bool {
	if rec.Running && runs || rec.Outcome == Succeeded {
		return true
	}
	has := func(n Noticed) bool { // a turn that begins takes the message from a holder that no process stands for
		return !ignore(n.Holder) && n.lives(later(n.At, h.signs[n.Holder]), now) && (n.Process.PID > 0 || n.At.After(rec.Started))
	}
	isOffered := func(n Noticed) bool { return n.Holder != Person && has(n) } // a page that shows it may not be looked at
	return rec.Working != nil && has(Noticed{rec.Working.holder(), rec.Working.At}) ||
		slices.ContainsFunc(rec.Offered, isOffered) || slices.ContainsFunc(rec.Noticed, has)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// addNoticed adds who noticed the message. After another turn, noticing it again counts again.
func (rec *Record) addNoticed(by Noticed) {
	i := slices.IndexFunc(rec.Noticed, func(n Noticed) bool { return n.Holder == by.Holder })
	switch {
	case rec.Returned && !rec.isOfferedTo(by.Holder): // it was given up
	case i < 0:
		rec.Noticed = append(rec.Noticed, by)
	case !rec.Noticed[i].At.After(rec.Started):
		rec.Noticed[i].At = by.At
	}
}

// hasNoticed reports whether a session has noticed the message, or the recipient said that it works on it, since its
// last turn began.
func (rec *Record) hasNoticed() bool {
	return rec.Working != nil && rec.Working.At.After(rec.Started) ||
		slices.ContainsFunc(rec.Noticed, func(n Noticed) bool { return n.At.After(rec.Started) })
}

// TakenBy returns the program that has a message, so that a runner gives it no turn; nil if none has. A runner waits only for a
// process, which ends some time: a person leaves the mail of an agent to its runner, and so does a session of which no process
// is known. What processes of the runner itself have, its turns have, and the program that started it asked for the turns.
func (h *History) TakenBy(k Key, runner int, now time.Time) *Noticed {
	rec := h.Records[k]
	if rec == nil {
		return nil
	}
	all := slices.Concat(rec.Offered, rec.Noticed)
	if rec.Working != nil && !rec.Working.Finished {
		all = append(all, Noticed{rec.Working.holder(), rec.Working.At})
	}
	for _, n := range all {
		if n.Process.PID > 0 && n.lives(later(n.At, h.signs[n.Holder]), now) && !(n.isHere() && n.isKinOf(runner)) {
			return &n
		}
	}
	return nil
}

// Taken says in words that the holder has a message.
func (n *Noticed) Taken() string {
	text := fmt.Sprintf("process %d has it since %s", n.Process.PID, schema.NewTimestamp(n.At))
	if !n.isHere() {
		text = "another machine or container has it since " + string(schema.NewTimestamp(n.At))
	}
	return text + "; the message gets a turn when that ends, or after oacp return"
}

// isKinOf reports whether the runner with that number started the process of the holder, or was started by it, however
// indirectly.
func (h Holder) isKinOf(runner int) bool {
	return h.Process.IsWithin(runner) || process.Read(runner).IsWithin(h.Process.PID)
}
