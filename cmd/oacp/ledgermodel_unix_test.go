//go:build unix

package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/oacp-go/oacp/mailbox"
)

// A letterState is a state in which a message can be, as far as the ledger of its recipient is concerned.
type letterState struct {
	// box is empty before the message is sent.
	box mailbox.Box
	// holders have the message; working is the one that said last that it works on it. dead are those that ended in this round.
	// tentative are those that may still return it unwritten.
	holders, working, dead, tentative frontSet
	// maySeen is set once the recipient may have seen it, and noticed once the journal may say that it did.
	maySeen, noticed bool
	// answered says that the slot is filled, and answers counts what filled it since the message was sent.
	answered bool
	answers  int
	// running says that a turn works on it, and done that a turn has succeeded. unsent says that its answer is not sent yet.
	running, done, unsent bool
}

// A frontSet is a set of the living fronts of an agent.
type frontSet uint8

// recalled is the place of a message that its sender took back.
const recalled = mailbox.Box("recalled")

// isNew reports whether an agent may be given the message.
func (s *letterState) isNew() bool { return s.isNewTo(0) }

// isNewTo is isNew for a runner that one of these fronts has started.
func (s *letterState) isNewTo(own frontSet) bool {
	return s.box == mailbox.Inbox && (s.holders|s.working|s.tentative)&^s.dead&^own == 0 && !s.running && !s.done
}

// A step is what a process does to a message at one moment. It reports whether that can happen.
type step func(*letterState) bool

// A effect is what a process did to a message: one of these sequences of steps.
type effect [][]step

// The steps. Those without a parameter check what a process saw.

// far is the front of all containers. Nobody outside sees when they end, but one that gets the number of another one does.
const far = frontSet(1 << 7)

func give(to frontSet) step {
	return func(s *letterState) bool {
		if !s.isNewTo(to & far) {
			return false
		}
		s.holders |= to
		s.maySeen = true
		return true
	}
}

// giveToSession gives the message to a session that may have been given it before.
func giveToSession(to frontSet) step {
	return func(s *letterState) bool {
		fits := s.isNewTo(to)
		s.holders |= to
		s.maySeen = true
		return fits
	}
}

// giveAgain gives the message to a reader that names it.
func giveAgain(to frontSet) step {
	return func(s *letterState) bool {
		s.holders |= to
		s.maySeen = true
		return s.box == mailbox.Inbox
	}
}

// giveTentatively gives the message, and takeAway takes it away because nothing of it was written.
func giveTentatively(to frontSet) step {
	return func(s *letterState) bool {
		fits := s.isNewTo(to)
		s.tentative |= to
		return fits
	}
}

func takeAway(from frontSet) step {
	return func(s *letterState) bool { s.tentative &^= from; return true }
}

// returns is what a holder does that was given a message, and whose reader went away. returnAll is what oacp return does.
func returns(from frontSet) step {
	return func(s *letterState) bool { s.holders &^= from; return true }
}

func returnAll(s *letterState) bool {
	s.holders, s.working, s.tentative, s.noticed = 0, 0, 0, false
	return s.box == mailbox.Inbox
}

func notice(by frontSet) step {
	return func(s *letterState) bool {
		s.holders |= by
		s.maySeen, s.noticed = true, true
		return true
	}
}

func works(by frontSet) step {
	return func(s *letterState) bool {
		s.working, s.maySeen = by, true
		return s.box == mailbox.Inbox
	}
}

func dies(front frontSet) step {
	return func(s *letterState) bool { s.dead |= front; return true }
}

func appears(s *letterState) bool {
	isFirst := s.box == ""
	s.box = mailbox.Inbox
	return isFirst
}

func isNotNew(s *letterState) bool { return !s.isNew() }

func isIn(box mailbox.Box) step {
	return func(s *letterState) bool { return s.box == box }
}

func isNotIn(box mailbox.Box) step {
	return func(s *letterState) bool { return s.box != box }
}

func hasAnswer(s *letterState) bool { return s.answered }

// isBusy reports whether something else than the front works on the message.
func isBusy(with frontSet) step {
	return func(s *letterState) bool { return s.running || s.working&^s.dead&^with != 0 }
}

func fillSlot(s *letterState) bool {
	fits := s.box != recalled && s.box != "" && !s.answered
	s.answered, s.maySeen = true, true
	s.answers++
	return fits
}

func acknowledge(s *letterState) bool {
	fits := s.box == mailbox.Inbox
	s.box = mailbox.Archive
	return fits
}

// winBack is a recall that wins, and isKept one that comes too late.
func winBack(s *letterState) bool {
	fits := s.box == mailbox.Inbox && !s.maySeen && s.tentative&^s.dead == 0
	s.box = recalled
	return fits
}

func isKept(s *letterState) bool { return s.box != mailbox.Inbox || s.maySeen || s.tentative != 0 }

// revive begins another life of a message that is not pending, and putBack makes it pending.
func revive(s *letterState) bool {
	fits := s.box == mailbox.Archive || s.box == recalled
	*s = letterState{box: s.box, dead: s.dead, answers: s.answers}
	return fits
}

func putBack(s *letterState) bool { s.box = mailbox.Inbox; return true }

// begin begins a turn of a runner that one of these fronts started, succeed ends it, and stop ends its runner.
func begin(by frontSet) step {
	return func(s *letterState) bool {
		fits := s.isNewTo(by)
		s.running, s.maySeen = true, true
		return fits
	}
}

func succeed(replies bool) step {
	return func(s *letterState) bool {
		s.done, s.unsent = true, replies
		return true
	}
}

// sendText sends the text of a turn unless something has answered.
func sendText(s *letterState) bool {
	fits := s.unsent
	if s.unsent = false; !s.answered && s.box != recalled {
		s.answered = true
		s.answers++
	}
	return fits
}

// conclude has a message leave the inbox after its turn.
func conclude(s *letterState) bool {
	if s.box == mailbox.Inbox && s.done {
		s.box = mailbox.Archive
	}
	return !s.unsent
}

func stop(s *letterState) bool { s.running = false; return true }

// orLess is a effect of which a process that was killed did all, or only the beginning. The end happens in any case.
func (d effect) orLess(end ...step) (all effect) {
	for _, steps := range d {
		for n := range len(steps) + 1 {
			all = append(all, slices.Concat(steps[:n], end))
		}
	}
	return all
}

// mostEffects bounds how many processes do something to one message at the same time.
const mostEffects = 16

// A modelPath is a state and how far each effect is: which of its sequences it follows, from 1, and how many steps of it are done.
type modelPath struct {
	letterState
	at [mostEffects]struct{ sequence, done int8 }
}

// after returns the states in which a message can be after these effects, in whatever order their steps came.
func after(before []letterState, effects []effect) []letterState {
	if len(effects) > mostEffects {
		panic(fmt.Sprintf("%d effects", len(effects)))
	}
	ends, known := make(map[letterState]bool), make(map[modelPath]bool)
	var todo []modelPath
	for _, s := range before {
		todo = append(todo, modelPath{letterState: s})
	}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if known[p] {
			continue
		}
		known[p] = true
		isEnd := true
		for i, d := range effects {
			at := p.at[i]
			for n, steps := range d {
				if at.sequence != 0 && int(at.sequence) != n+1 || at.sequence != 0 && int(at.done) == len(steps) {
					continue
				}
				isEnd = false
				next := p
				next.at[i].sequence = int8(n + 1)
				if len(steps) == 0 {
					todo = append(todo, next)
				} else if steps[at.done](&next.letterState) {
					next.at[i].done++
					todo = append(todo, next)
				}
			}
		}
		if isEnd {
			ends[p.letterState] = true
		}
	}
	return slices.Collect(maps.Keys(ends))
}

// settle forgets the fronts that ended.
func (s letterState) settle() letterState {
	s.holders &^= s.dead
	s.working &^= s.dead
	s.tentative &^= s.dead
	s.dead = 0
	return s
}
