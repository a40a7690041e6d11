package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// worker works on messages that this machine holds: it gives them turns, and a closer ends them.
type worker struct {
	*closer
	// retryDelay is how long to wait after a failure to write the journal.
	retryDelay time.Duration
	// turns owns the processes of the turns.
	turns   orphans.Owner
	drivers *agent.Pool
}

// workOn carries out the decision about a message that this machine holds.
func (k *worker) workOn(ctx context.Context, held claim, it *item, do action) outcome {
	m, raw, err := k.read(it)
	switch {
	case err != nil && mailbox.IsGone(err):
		return outcome{item: it, done: true}
	case isHeld(err), err == nil && m.ID != it.ID:
		return outcome{item: it, done: true} // the watcher reports it as what it is now
	case err != nil:
		return outcome{item: it, failure: err}
	}
	rec, _ := k.journal.Get(it.Key)
	if do != finish { // its turn may have answered or asked back, and not ended well; and nobody does what the agent has answered or declined
		rec.Envelope = it.Envelope
		slot, err := k.slot(&rec)
		if err == nil && slot.Answer != nil {
			f := track.Succeeded.About(&rec)
			f.Reason = "the agent answered with " + slot.Answer.ID.Short()
			if !rec.Started.IsZero() {
				f.Reason += ", and then its turn did not end well"
			}
			if err = k.journal.Append(f, true); err == nil {
				return k.conclude(it)
			}
		}
		if err == nil && isNew(slot.Asked, &rec) {
			err = k.journal.Append(askedFact(&rec, slot.Asked), true)
			return outcome{item: it, failure: err}
		}
		if err != nil {
			return outcome{item: it, failure: err}
		}
	}
	switch do {
	case try:
		return k.attempt(ctx, held, it, m, raw)
	case giveUp:
		return k.deadLetter(it, m, k.unquoted(&rec))
	case acknowledge:
		return k.acknowledge(it)
	}
	return k.conclude(it)
}

// unquoted returns the record of a message without the texts of earlier turns, for an agent that signs what it sends: others may
// have written them into the journal.
func (c *closer) unquoted(rec *track.Record) *track.Record {
	if trust.Signs(c.workspace, c.config.Agent) {
		rec.Reason, rec.Output = "oacp status "+rec.ID.Short()+" shows how the last one ended", ""
	}
	return rec
}

// read reads the message of an item.
func (k *worker) read(it *item) (m *schema.Message, raw []byte, err error) {
	return k.workspace.Read(k.entryOf(it))
}

// entryOf returns an inbox entry with the fields that locate the file of an item.
func (c *closer) entryOf(it *item) mailbox.Entry {
	inbox := c.workspace.BoxPath(c.config.Agent, mailbox.Inbox)
	return mailbox.Entry{Agent: c.config.Agent, Box: mailbox.Inbox, Name: it.File, Path: filepath.Join(inbox, it.File)}
}

// attempt gives the message a turn, unless it had all of them by what is known outside the journal.
func (k *worker) attempt(ctx context.Context, held claim, it *item, m *schema.Message, raw []byte) outcome {
	turns, err := mailbox.Note(k.workspace, k.config.Agent, raw, mailbox.Begun)
	if err != nil {
		return outcome{item: it, failure: err}
	}
	before, _ := k.journal.Get(it.Key)
	if held.attempt = max(held.attempt, turns); held.attempt > k.config.attempts(&before) {
		return k.tooMany(it, m, held.attempt-1)
	}
	unstopped := context.WithoutCancel(ctx)
	var session string
	isFresh := false // the last session had no room
	k.journal.View(func(h *track.History) {
		if c := h.Conversations[it.Conversation]; c != nil {
			session, isFresh = c.Session, c.Full
		}
	})
	driver, err := k.drivers.Get(ctx, string(it.Conversation), session, true)
	if err != nil {
		k.uncount(&it.Envelope, m)
		if ctx.Err() != nil {
			return outcome{item: it}
		}
		return outcome{item: it, unavailable: err}
	}
	mark := k.turns.NewMark()
	marked := driver.(*markedDriver)
	rec, begun, err := k.begin(ctx, it, held.attempt, "", marked.mark, mark)
	if err != nil || !begun {
		k.uncount(&it.Envelope, m)
		isTaken := errors.Is(err, errTaken)
		if isTaken {
			err = nil // it is decided again
		}
		err = errors.Join(err, driver.Stop(unstopped))
		return outcome{item: it, done: err == nil && !isTaken, failure: err}
	}
	over, steered := make(chan struct{}), make(chan []joined)
	go func() { steered <- k.steer(held.ctx, over, it, marked, mark) }()
	request := k.request(k.entryOf(it), m, raw, rec.Attempts)
	if isFresh {
		request.Prompt = fmt.Sprintf(freshSession, it.Conversation) + request.Prompt
	}
	answers := k.joinAnswers(ctx, it, marked.mark, mark)
	if err := k.addAnswers(ctx, &request, &rec, answers); err != nil {
		k.events.problem(EventProblem.about(&rec), err) // the agent finds them in the conversation
	}
	result, err := k.turn(orphans.WithMark(held.ctx, mark), driver, request, &rec, marked.mark, mark)
	close(over)
	with := append(answers, <-steered...)
	err = k.confirm(ctx, held, it, err)
	k.putAway(unstopped, driver, &rec, err, marked.mark, mark)
	o := k.settle(ctx, it, m, &rec, result, err)
	o.joined = k.endJoined(ctx, with, result, err)
	return o
}

// putAway keeps the driver for the next turn of the conversation. After a failure it stops the driver, and ends what the turn
// left running.
func (k *worker) putAway(ctx context.Context, driver agent.Driver, rec *track.Record, failed error, marks ...orphans.Mark) {
	var err error
	if failed == nil {
		err = k.drivers.Keep(ctx, string(rec.Conversation), driver)
	} else {
		err = errors.Join(driver.Stop(ctx), k.endLeft(ctx, rec, marks))
	}
	if err != nil {
		k.events.problem(EventProblem.about(rec), err)
	}
}

// endLeft ends the processes that a turn, or a program that died in it, left running, and says so.
func (k *worker) endLeft(ctx context.Context, rec *track.Record, marks []orphans.Mark) error {
	killed, err := k.turns.End(ctx, marks...)
	if len(killed) > 0 {
		k.events.say(EventWarning.about(rec), "the turn left these processes running, which were killed: "+strings.Join(killed, ", "))
	}
	return err
}

// freshSession comes before the first request of a session that takes the place of a full one.
const freshSession = "[The session of this conversation had no room for more, so this is a new session, which does not know what was said and done " +
	"before. `oacp thread %s` shows the messages of the conversation.]\n\n"

// errTaken keeps a turn from beginning, because another program has got the message.
var errTaken = errors.New("another program has the message")

// begin records that a turn begins, with the marks of its processes. With claims, attempt is the number of the turn. In is
// the message whose turn this one joins, or empty. No turn begins if somebody has just acknowledged the message or taken
// it back; nor, with errTaken, if another program got it. From then on, none gets it.
func (k *worker) begin(ctx context.Context, it *item, attempt int, in schema.ID, marks ...orphans.Mark) (rec track.Record, begun bool, err error) {
	err = track.Exclusively(ctx, k.workspace, k.config.Agent, func() error {
		_, err := os.Lstat(k.entryOf(it).Path)
		if mailbox.IsGone(err) {
			return nil
		}
		if err = cmp.Or(err, k.checkTaken(it)); err != nil {
			return err
		}
		begun = true
		return k.recordStart(it, attempt, in, marks)
	})
	if err == nil && begun {
		rec, _ = k.journal.Get(it.Key)
		e := EventStarted.about(&rec)
		if in != "" {
			e.Reason = "it joins the turn on " + in.Short()
		}
		k.events.publish(e)
	}
	return rec, begun, err
}

// checkTaken returns errTaken if another program or another turn has a message.
func (k *worker) checkTaken(it *item) error {
	err := k.journal.Refresh()
	k.journal.View(func(h *track.History) {
		running, ended := h.WasAwaited(it.Key)
		if running || ended || h.TakenBy(it.Key, os.Getpid(), k.now()) != nil {
			err = cmp.Or(err, errTaken)
		}
	})
	return err
}

// recordStart writes that a turn begins. If the message is a dead letter that somebody put back, its earlier turns no
// longer count.
func (k *worker) recordStart(it *item, attempt int, in schema.ID, marks []orphans.Mark) error {
	rec, _ := k.journal.Get(it.Key)
	if rec.Outcome == track.Dead {
		if err := k.journal.Append(track.Revived.Of(&rec.Envelope), false); err != nil {
			return err
		}
	}
	f := track.Started.Of(&it.Envelope)
	f.Marks, f.Attempt, f.In, f.Hops = marks, attempt, in, it.hops()
	if rec.Resumed {
		f.Hops = 0
	}
	if err := k.journal.Append(f, true); err != nil {
		// If the line was written but not synced, it must not count: no turn begins.
		return cmp.Or(k.journal.Append(track.Interrupted.Of(&it.Envelope), false), err)
	}
	return nil
}

// turn runs a turn. If its program dies, the program is started again, once, after what it left running has ended.
func (k *worker) turn(ctx context.Context, driver agent.Driver, request agent.Request, rec *track.Record, marks ...orphans.Mark) (agent.Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, k.config.Timeout, errTimeout)
	defer cancel()
	retries := 0
	result, err := agent.RunTurn(ctx, driver, request, func(shown agent.Event) {
		e := EventOutput.about(rec)
		e.Output = &shown
		k.events.publish(e)
		if len(shown.Acts) == 0 || shown.Acts[0].Kind == agent.ToolCall {
			return
		}
		if shown.Acts[0].Kind == agent.NewSession {
			k.events.say(EventWarning.about(rec), shown.Acts[0].Text)
			return
		}
		if retries++; isWorthSaying(retries) {
			k.events.say(EventWarning.about(rec), shown.Acts[0].Text+" ("+spelling.Plural(retries, "failure")+" in this turn)")
		}
	}, func(first agent.Result, died error) error {
		e := EventWarning.about(rec)
		e.Reason, e.Err = first.Explain(died)+"; it is started again in the same session", died
		k.events.publish(e)
		return k.endLeft(ctx, rec, marks)
	})
	if errors.Is(err, errTimeout) && !errors.Is(err, agent.ErrUnavailable) {
		err = fmt.Errorf("%w: it did not end within %v", errTimeout, k.config.Timeout)
	}
	return result, err
}

// record writes a fact that must not be lost. It tries until it succeeds or the context ends, and in a run
// with Once only a few times.
func (k *worker) record(ctx context.Context, rec *track.Record, f track.Fact) error {
	for tries := 1; ; tries++ {
		err := k.append(f, true)
		if err == nil {
			return nil
		}
		k.events.problem(EventProblem.about(rec), err)
		if errors.Is(err, track.ErrStateLost) || k.config.Once && tries == maxFailures {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(k.retryDelay):
		}
	}
}

// uncount takes a turn that began outside the journal back.
func (k *worker) uncount(about *track.Envelope, m *schema.Message) {
	if _, err := mailbox.Note(k.workspace, k.config.Agent, []byte(m.File), mailbox.Interrupted); err != nil {
		k.events.problem(EventProblem.of(about), err)
	}
}

// request returns the agent's input and the variables that describe the message.
func (k *worker) request(entry mailbox.Entry, m *schema.Message, raw []byte, attempt int) agent.Request {
	fence := ""
	if k.config.Claims != nil {
		fence = strconv.Itoa(attempt)
	}
	env := append(Variables(k.workspace, k.config.Agent, entry.Path, m),
		"OACP_ATTEMPT="+strconv.Itoa(attempt),
		client.FenceVariable+"="+fence,
	)
	prompt := string(raw)
	if k.config.Input == InputBody {
		prompt = m.BodyText()
	}
	if k.config.ForModel {
		prompt = visible.Model(k.provenance(m), prompt)
	}
	return agent.Request{Prompt: prompt, Env: env}
}

// provenance is the first line of what a model gets.
func (k *worker) provenance(m *schema.Message) string {
	use := "Your last text is sent to nobody; oacp reply " + m.ID.Short() + " --body TEXT, or reply_message, answers."
	if k.config.Reply && m.Type.ExpectsAnswer() {
		use = "Your last text is sent to " + string(m.From) + " as the answer, unless you answer with oacp reply or reply_message."
	}
	return fmt.Sprintf("You are oacp agent %s. Your user has you work on this message from %s, who is not your user. %s", k.config.Agent, m.From, use)
}
