//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// compare compares what the files and the journals say after a round with what the model says.
func (x *ledgerWalk) compare(acts []*act) {
	w, err := mailbox.Open(x.s.Dir, nil)
	x.fatal(err)
	defer w.Close()
	_, err = w.Recover(x.t.Context()) // what killed processes have begun
	x.fatal(err)
	seen := x.look(w)
	for id := range seen.boxes {
		if x.letters[id] == nil {
			m := seen.messages[id]
			x.letters[id] = &letter{id: id, from: m.From, to: m.To[0], asks: m.Type == schema.Question, states: []letterState{{}}}
			x.ids = append(x.ids, id)
		}
	}
	slices.Sort(x.ids)
	for _, a := range acts {
		x.understand(a)
	}
	logged, err := os.ReadFile(x.log)
	if err != nil && !os.IsNotExist(err) {
		x.t.Fatal(err)
	}
	began := strings.Fields(string(logged[x.logged:]))
	x.logged = len(logged)
	runs := make(map[schema.AgentName]int)
	for _, a := range acts {
		if a.verb == "run" {
			runs[a.shell.agent]++
		}
	}
	for _, id := range x.ids {
		l := x.letters[id]
		var effects []effect
		if l.states[0].box == "" {
			effects = append(effects, effect{{appears}})
		}
		for _, a := range acts {
			if a.shell.agent == l.to && a.verb == "next tool" {
				l.history = append(l.history, fmt.Sprintf("round %d: next tool killed %t, %t; status %s, shows %q", x.round, a.killed, a.shellKilled, a.status, a.shown))
			}
			if d := a.on(l, slices.Contains(began, string(id)), runs[a.shell.agent] > 1); d != nil {
				l.history = append(l.history, fmt.Sprintf("round %d: %s %d does %q: killed %t, %t; status %s, code %q, shows %q from %q", x.round, a.shell.agent, a.shell.front,
					a.line, a.killed, a.shellKilled, a.status, a.code, a.shown, a.box))
				effects = append(effects, d)
			}
			if a.shellKilled && a.shell.agent == l.to {
				effects = append(effects, effect{{dies(a.shell.front)}})
			}
			if a.verb == "hook" && slices.Contains(a.shown, id) {
				l.hooked |= a.shell.front
			}
		}
		x.settle(w, l, after(l.states, effects), seen)
		for _, a := range acts {
			if a.shellKilled && a.shell.agent == l.to {
				l.hooked &^= a.shell.front
			}
		}
	}
}

// settle takes over those of the possible states that agree with what is there.
func (x *ledgerWalk) settle(w *mailbox.Workspace, l *letter, possible []letterState, seen observed) {
	progress, err := track.Track(x.t.Context(), w, string(l.id))
	x.fatal(err)
	box, noticed, answers := seen.boxes[l.id], len(progress[0].Noticed) > 0, seen.answers[l.id]
	var fit []letterState
	for _, s := range possible {
		if s.box == box && s.noticed == noticed && s.answers == answers {
			fit = append(fit, s.settle())
		}
	}
	l.history = append(l.history, fmt.Sprintf("round %d: in %s, noticed %t, %d answers; %d of %d states", x.round, box, noticed, answers, len(fit), len(possible)))
	if l.states = fit; len(fit) > 0 {
		return
	}
	journal, _ := os.ReadFile(filepath.Join(w.Dir(), track.TurnsFolder, track.JournalName(l.to)))
	var facts []string
	for line := range strings.Lines(string(journal)) {
		if strings.Contains(line, string(l.id)) {
			facts = append(facts, line)
		}
	}
	x.t.Errorf("the model does not allow what became of %s:\n%s\nIt allows:\n%+v\nThe journal of %s says:\n%s", l.id,
		strings.Join(l.history, "\n"), possible, l.to, strings.Join(facts, ""))
}

// An observed is what the files say: where each message is, and how many answers it has.
type observed struct {
	boxes    map[schema.ID]mailbox.Box
	messages map[schema.ID]*schema.Message
	answers  map[schema.ID]int
}

func (x *ledgerWalk) look(w *mailbox.Workspace) observed {
	seen := observed{make(map[schema.ID]mailbox.Box), make(map[schema.ID]*schema.Message), make(map[schema.ID]int)}
	for _, agent := range walkers {
		for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters} {
			entries, err := w.List(x.t.Context(), agent, box)
			x.fatal(err)
			for _, e := range entries {
				x.fatal(e.Err)
				m := e.Message
				if other := seen.boxes[m.ID]; other != "" {
					x.t.Errorf("message %s lies in %s and in %s", m.ID, other, box)
				}
				if seen.boxes[m.ID], seen.messages[m.ID] = box, m; box == mailbox.DeadLetters && mailbox.RecalledBy(w, e) != "" {
					seen.boxes[m.ID] = recalled
				}
				if m.ParentID != "" && m.Channel == "" {
					seen.answers[m.ParentID]++
				}
			}
		}
	}
	for id := range x.letters {
		if seen.boxes[id] == "" {
			x.t.Fatalf("message %s is lost", id)
		}
	}
	return seen
}

// on returns what an act did to a message, nil for nothing. Began says that the message had a turn in this round, which
// may be that of another act.
func (a *act) on(l *letter, began, mayBeOther bool) effect {
	front := a.shell.front
	isShown := slices.Contains(a.shown, l.id)
	d := effect(nil)
	switch {
	case l.to != a.shell.agent && a.verb != "recall":
		return nil
	case strings.HasPrefix(a.verb, "next"), a.verb == "hook":
		return a.onGiven(l, isShown)
	case a.verb == "run":
		return a.onTurn(l, began, mayBeOther)
	case a.id != l.id:
		return nil
	case a.verb == "read":
		switch {
		case a.box == mailbox.Inbox && a.killed:
			return effect{{giveAgain(front)}, {giveAgain(front), notice(front)}}
		case a.killed && a.box == "":
			return effect{{}, {giveAgain(front)}}
		case a.box == mailbox.Inbox:
			return effect{{giveAgain(front), notice(front)}}
		}
		return effect{{isNotIn(mailbox.Inbox)}}
	case strings.HasPrefix(a.verb, "reply"):
		return a.onReply()
	case a.verb == "ack":
		d = effect{{acknowledge}}
	case a.verb == "working":
		d = effect{{works(front)}}
	case a.verb == "return":
		d = effect{{isIn(mailbox.Inbox), returnAll}}
	case a.verb == "recall":
		switch {
		case a.killed:
			return effect{{winBack}, {}}
		case strings.Contains(a.out, `"recalled": true`):
			return effect{{winBack}, {isIn(recalled)}}
		}
		return effect{{isKept}, {winBack, isIn(mailbox.Inbox)}} // or it was restored before the recall looked
	case a.verb == "restore":
		d = effect{{revive, putBack}, {isIn(mailbox.Inbox)}}
	}
	switch {
	case a.killed:
		return d.orLess()
	case a.status != "0":
		return effect{{isNotIn(mailbox.Inbox)}}
	}
	return d
}

// onGiven returns what an act did that may give the message to its front.
func (a *act) onGiven(l *letter, isShown bool) (d effect) {
	front := a.shell.front
	if a.verb == "next far" {
		front = far
	}
	// What was shown last is noticed only with the next call.
	isProven := a.verb != "next tool" && a.verb != "hook"
	switch {
	case isShown && a.verb == "hook": // what no later event has proven, it shows again
		d = effect{{giveToSession(front)}}
	case isShown && (a.killed || !isProven):
		d = effect{{give(front)}}
		if isProven {
			d = append(d, []step{give(front), notice(front)})
		}
	case isShown:
		d = effect{{give(front), notice(front)}}
	case a.killed && len(a.shown) == 0:
		d = effect{{}, {give(front)}}
	case a.verb == "next full" && a.status != "3":
		d = effect{{}, {give(front), returns(front)}}
	case a.verb == "hook":
		d = effect{{}, {giveTentatively(front), takeAway(front)}}
	case a.verb == "next far", a.verb == "next tool", len(a.shown) > 0:
		return nil
	default:
		d = effect{{isNotNew}}
	}
	if a.verb == "hook" && l.hooked&front != 0 {
		for _, steps := range d {
			d = append(d, slices.Concat([]step{notice(front)}, steps))
		}
	}
	if a.verb == "hook" && a.killed {
		d = append(d, effect{{giveTentatively(front), takeAway(front)}}.orLess()...)
	}
	return d
}

// onTurn returns what a runner did.
func (a *act) onTurn(l *letter, began, mayBeOther bool) effect {
	replies := l.asks && strings.Contains(a.line, "--reply")
	turn := effect{{begin(a.shell.front), succeed(replies), sendText, conclude}, {begin(a.shell.front), succeed(false), conclude}}
	if replies {
		turn = turn[:1]
	} else {
		turn = turn[1:]
	}
	if began && !mayBeOther && !a.killed && a.status == "0" {
		return effect{slices.Concat(turn[0], []step{stop})}
	}
	if began && !mayBeOther {
		return turn.orLess(stop)[1:] // it began
	}
	// It may finish what an earlier runner has left, and what has its answer gets no turn.
	rest := effect{{sendText, conclude}, {conclude}, {hasAnswer, acknowledge}}
	if a.killed || a.status != "0" || began {
		return append(turn.orLess(stop), rest.orLess(stop)...)
	}
	return append(effect{{stop}}, rest.orLess(stop)...)
}

// onReply returns what an answer did.
func (a *act) onReply() effect {
	sent, isAck := effect{{fillSlot}}, a.verb == "reply ack"
	if isAck {
		sent = effect{{fillSlot, acknowledge}, {isIn(mailbox.Archive), fillSlot}}
	}
	switch {
	case a.killed:
		if isAck {
			sent = append(sent, []step{hasAnswer, acknowledge})
		}
		return sent.orLess()
	case a.code == "already_sent" && isAck:
		return effect{{hasAnswer, acknowledge}, {hasAnswer}}
	case a.code == "already_sent", a.code == "already_answered":
		return effect{{hasAnswer}}
	case a.code == "recalled":
		return effect{{isIn(recalled)}}
	case a.code == "already_working":
		return effect{{isBusy(a.shell.front)}}
	case a.code == "not_acknowledged":
		return effect{{fillSlot}}
	}
	return sent
}
