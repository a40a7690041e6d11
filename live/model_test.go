package live

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// A model stands for a session of a program and its model: it calls hooks as the program does, hands what
// they say to the model, and knows what the model has seen.
type model struct {
	h  *hooks
	id string
	// turn says what the session does.
	turn phase
	// tools are the tools that were called together and still run.
	tools int
	// next is for the next request, sent is in a request that is not answered, and held waits for the next
	// request that the program can add to. Each holds short ids of messages.
	next, sent, held map[string]bool
	// seen are those that were in an answered request.
	seen map[string]bool
	// wakes says that a held text begins a turn when the session is idle.
	wakes bool
	// stopActive says that a hook held the session at its last Stop.
	stopActive bool
	// named are those that were shown to the session. Those in open came with a prompt that nothing has happened after.
	// If another prompt is next, they may be shown again. Those in taken came with the prompt of the turn.
	named, open, again, taken map[string]bool
}

type phase int

const (
	idle phase = iota
	asking
	working
)

func startModel(h *hooks, id string) *model {
	m := &model{
		h: h, id: id, next: make(map[string]bool), sent: make(map[string]bool), held: make(map[string]bool),
		seen: make(map[string]bool), named: make(map[string]bool),
		open: make(map[string]bool), again: make(map[string]bool), taken: make(map[string]bool),
	}
	if h.Program == Claude { // the sessions of codex are in one terminal
		h.programs[id] = startProgram(h)
	}
	m.hook(Event{Name: SessionStart, Source: "startup"}, m.next)
	return m
}

// hook calls a hook and adds what it says. It reports whether it says anything.
func (m *model) hook(e Event, to map[string]bool) bool {
	e.Session = m.id
	a, err := m.h.handle(e)
	if err != nil {
		m.h.Errorf("%s of %s: %v", e.Name, m.id, err)
	}
	text := shown(m.h, e.Name, a)
	if tokens := Tokens(text); tokens > defaultBudget {
		m.h.Errorf("%s of %s shows %d tokens:\n%s", e.Name, m.id, tokens, text)
	}
	names := named(text)
	switch {
	case e.Name == PostToolUse, e.Name == Stop:
		clear(m.open)
	case e.Name == UserPromptSubmit:
		maps.Copy(m.again, m.open)
	}
	for _, name := range names {
		if m.named[name] && !m.again[name] {
			m.h.Errorf("%s of %s shows %s again", e.Name, m.id, name)
		}
		to[name], m.named[name], m.open[name] = true, true, e.Name == UserPromptSubmit
		delete(m.again, name)
	}
	return text != ""
}

// ask sends a request with all that waits.
func (m *model) ask() {
	m.turn = asking
	maps.Copy(m.sent, m.next)
	clear(m.next)
}

// flush adds to the next request what a hook that woke the session said.
func (m *model) flush() {
	maps.Copy(m.next, m.held)
	clear(m.held)
	m.wakes = false
}

func (m *model) prompt() {
	added := make(map[string]bool)
	m.hook(Event{Name: UserPromptSubmit}, added)
	maps.Copy(m.next, added)
	if m.turn == idle {
		m.taken = added
		m.stopActive = false
		m.flush()
		m.ask()
	}
}

// answer ends a request: the model calls tools or ends the turn.
func (m *model) answer(tools int) {
	clear(m.taken)
	maps.Copy(m.seen, m.sent)
	clear(m.sent)
	if tools > 0 {
		m.turn, m.tools = working, tools
		return
	}
	if m.hook(Event{Name: Stop, StopActive: m.stopActive}, m.next) {
		m.stopActive = true
		m.ask()
		return
	}
	m.turn = idle
	m.wake()
}

// wake begins a turn if a hook has woken an idle session.
func (m *model) wake() {
	if m.turn == idle && m.wakes {
		m.flush()
		m.prompt()
		m.stopActive = true // so claude marks the end of a turn that a hook began
	}
}

func (m *model) endTool() {
	m.hook(Event{Name: PostToolUse}, m.next)
	if m.tools--; m.tools == 0 {
		m.flush()
		m.ask()
	}
}

// interrupt ends the turn as a person does. The session keeps what was sent, but claude takes back a prompt that
// the model has not answered.
func (m *model) interrupt() {
	maps.Copy(m.next, m.sent)
	if m.h.Program == Claude && m.turn == asking {
		maps.DeleteFunc(m.next, func(name string, _ bool) bool { return m.taken[name] })
	}
	clear(m.sent)
	m.turn, m.tools = idle, 0
}

// changed calls the hooks for new files, all at once.
func (m *model) changed(files int) {
	var mu sync.Mutex
	var group sync.WaitGroup
	for range files {
		group.Go(func() {
			said := make(map[string]bool)
			answer := &model{h: m.h, id: m.id, named: make(map[string]bool), open: make(map[string]bool)}
			if answer.hook(Event{Name: FileChanged, Change: "add", Path: "new.yaml"}, said) {
				mu.Lock()
				defer mu.Unlock()
				maps.Copy(m.held, said)
				m.wakes = true
				for name := range answer.named {
					if m.named[name] && !m.again[name] { // another session had it meanwhile
						m.h.Errorf("a new file shows %s again to %s", name, m.id)
					}
					m.named[name] = true
				}
			}
		})
	}
	group.Wait()
	m.wake()
}

// step does something that the session can do.
func (m *model) step(random *rand.Rand) {
	switch n := random.IntN(13); {
	case n == 0 && m.turn != idle:
		m.interrupt()
	case n == 12 && m.turn == idle:
		said := make(map[string]bool) // which claude drops
		if m.h.Program == Codex {
			said = m.next
		}
		m.hook(Event{Name: UserPromptSubmit}, said) // another hook blocks the prompt
	case n == 1 && m.turn == idle:
		m.hook(Event{Name: SessionStart, Source: []string{"compact", "resume"}[random.IntN(2)]}, m.next)
	case n == 2 && m.turn == working:
		m.prompt() // which goes to the next request
	case n <= 4 && m.h.Program == Claude:
		m.changed(1 + random.IntN(3))
	case m.turn == idle:
		m.prompt()
	case m.turn == asking:
		m.answer(random.IntN(4) - 1)
	default:
		m.endTool()
	}
}

// finish lets the session work until all is shown to it, and it is idle.
func (m *model) finish() {
	for range 20 {
		for m.turn != idle {
			if m.turn == working {
				m.endTool()
			} else {
				m.answer(0)
			}
		}
		m.prompt()
		m.answer(0)
	}
}

// check compares what the journal says the session noticed with what the model has seen.
func (m *model) check(all bool) {
	noticed := m.h.noticed(m.id)
	for _, short := range noticed {
		if !m.seen[short] {
			m.h.Errorf("session %s noticed %s, and its model has not seen it", m.id, short)
		}
	}
	for name := range m.named {
		if all && !slices.Contains(noticed, name) && !m.again[name] { // else another session has it

			m.h.Errorf("%s was shown to session %s, which has not noticed it", name, m.id)
		}
	}
}

// anyMessage returns a message, which wakes or does not.
func anyMessage(h *hooks, random *rand.Rand, short string) *schema.Message {
	m := h.ask(short)
	m.Priority = schema.Priorities()[random.IntN(4)]
	m.Body = schema.TextValue(strings.Repeat("A line of the body.\n", 1+random.IntN(60)))
	switch random.IntN(5) {
	case 0:
		m.Type = schema.Notification
	case 1:
		m.Type, m.Channel = schema.Notification, schema.ChannelBounce
	case 2:
		m.ExpiresAt = schema.NewTimestamp(h.now.Add(time.Duration(random.IntN(10)) * time.Second))
	}
	return m
}

// TestAnySessions lets some sessions of an agent work while messages come and go; those of codex are in one terminal. Each
// message is shown to one of them, unless one that has ended noticed it: once, or again at a prompt before which nothing has
// happened. The session notices it when its model has seen it, not before.
func TestAnySessions(t *testing.T) {
	const (
		runs  = 5
		steps = 120
	)
	for run := range uint64(runs) {
		for _, program := range Programs() {
			t.Run(fmt.Sprintf("%s-%d", program, run), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { anySessions(t, program, rand.New(rand.NewPCG(run, 1)), steps) })
			})
		}
	}
}

func anySessions(t *testing.T, program Program, random *rand.Rand, steps int) {
	h := newHooks(t, program)
	var sessions, gone []*model
	var pending []string
	began, messages := 0, 0
	begin := func() {
		sessions = append(sessions, startModel(h, fmt.Sprint("session-", began)))
		began++
	}
	arrive := func() {
		short := fmt.Sprintf("m%03d", messages)
		h.arrive(anyMessage(h, random, short))
		messages++
		pending = append(pending, short)
	}
	for range random.IntN(80) {
		arrive()
	}
	begin()
	for range steps {
		h.now = h.now.Add(time.Duration(random.IntN(1500)) * time.Millisecond)
		switch n := random.IntN(20); {
		case n <= 2:
			for range 1 + random.IntN(3) {
				arrive()
			}
		case n == 3 && len(pending) > 0:
			i := random.IntN(len(pending))
			h.leave(pending[i])
			pending = slices.Delete(pending, i, i+1)
		case n == 4 && len(sessions) < 3:
			begin()
		case n == 5 && len(sessions) > 1:
			i := random.IntN(len(sessions))
			if sessions[i].check(false); random.IntN(2) == 0 {
				sessions[i].hook(Event{Name: SessionEnd}, nil)
			}
			if program == Claude {
				kill(h.programs[sessions[i].id])
			}
			gone, sessions = append(gone, sessions[i]), slices.Delete(sessions, i, i+1)
		default:
			s := sessions[random.IntN(len(sessions))]
			s.step(random)
			s.check(false)
		}
		if t.Failed() {
			return
		}
	}
	for _, s := range sessions {
		s.finish()
		s.check(true)
	}
	for _, short := range pending {
		isShown := func(s *model) bool { return s.named[short] }
		isSeen := func(s *model) bool { return s.seen[short] }
		if !slices.ContainsFunc(sessions, isShown) && !slices.ContainsFunc(gone, isSeen) {
			t.Errorf("%s was never shown to a session", short)
		}
	}
}
