package turn

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// A message whose turn asked its sender back waits until the answer arrives, or until none can come. Then it has a turn again,
// which the answer joins: it has no turn of its own.

// asker returns the item in the inbox about which a turn asked what another item answers, nil if there is none.
func (r *Runner) asker(it *item) (asker *item) {
	if it.parent == "" {
		return nil
	}
	r.journal.View(func(h *track.History) {
		if rec := h.Asked(it.parent); rec != nil && rec.From == it.From {
			if asker = r.schedule.items[rec.File]; asker != nil && asker.Key != rec.Key {
				asker = nil
			}
		}
	})
	return asker
}

// isAnswer reports whether an item joins the next turn on another one.
func (r *Runner) isAnswer(it *item) bool { return r.asker(it) != nil }

// wakeAsker lets a message have a turn that waits for an answer which has arrived.
func (r *Runner) wakeAsker(answer *item) {
	if asker := r.asker(answer); asker != nil {
		r.schedule.wakeItem(asker)
	}
}

// wakeAnswers lets messages have turns of their own that answer what turns on an item asked that has left the inbox.
func (r *Runner) wakeAnswers(it *item) {
	rec, _ := r.journal.Get(it.Key)
	for _, a := range r.answersTo(&rec) {
		r.schedule.wakeItem(a)
	}
}

// answersTo returns the items that answer what turns on a message asked, the oldest first.
func (r *Runner) answersTo(rec *track.Record) (answers []*item) {
	if len(rec.Questions) == 0 {
		return nil
	}
	for _, a := range r.schedule.items {
		if a.From == rec.From && slices.Contains(rec.Questions, a.parent) {
			answers = append(answers, a)
		}
	}
	slices.SortFunc(answers, (*item).compare)
	return answers
}

// findAnswers finds the answers that have arrived for an item that is not in work.
func (r *Runner) findAnswers(it *item) {
	if it.state == inWork {
		return
	}
	rec, _ := r.journal.Get(it.Key)
	it.answers = r.answersTo(&rec)
	it.heard = len(it.answers) > 0
}

// hasEnded reports whether an item can stop waiting although no answer is in the inbox: the message itself is answered, or no
// answer to one of the questions can come.
func (r *Runner) hasEnded(it *item) bool {
	rec, _ := r.journal.Get(it.Key)
	slot, err := r.closer.slot(&rec)
	questions, questionsErr := rec.QuestionsBack(context.Background(), r.workspace, r.config.Agent)
	is := slot.Answer != nil
	for _, q := range questions {
		if !is && slices.Contains(rec.Awaits, q.ID) {
			is = q.Ended != ""
			if q.Answer != nil {
				queued, queuedErr := mailbox.IsQueued(r.workspace, q.Answer.ID, r.config.Agent)
				there, thereErr := mailbox.Copies(context.Background(), r.workspace, q.Answer.ID, r.config.Agent, mailbox.Inbox)
				err = errors.Join(err, queuedErr, thereErr)
				is = !queued && len(there) == 0 // else the watcher reports it
			}
		}
	}
	if err = errors.Join(err, questionsErr); err != nil {
		r.events.problem(EventProblem.of(&it.Envelope), err)
		return false
	}
	return is
}

// isNew reports whether one of the questions was asked since the message waited last.
func isNew(questions []*schema.Message, rec *track.Record) bool {
	return slices.ContainsFunc(questions, func(q *schema.Message) bool { return !slices.Contains(rec.Questions, q.ID) })
}

// askedFact makes the fact that a message waits for the answers to questions.
func askedFact(rec *track.Record, questions []*schema.Message) track.Fact {
	f := track.Asked.About(rec)
	for _, q := range questions {
		f.Questions = append(f.Questions, q.ID)
	}
	return f
}

// joinAnswers begins the turns of the answers that join the turn on an item.
func (k *worker) joinAnswers(ctx context.Context, it *item, marks ...orphans.Mark) (all []joined) {
	for _, a := range it.answers {
		if j, _, ok := k.beginJoined(ctx, a, it, marks...); ok {
			all = append(all, j)
		}
	}
	return all
}

// addAnswers adds to a request what turns on the message asked back, and what was answered. A program that is no model gets it
// as further documents, or texts, behind the message; OACP_ANSWERS has the ids of the answers, and OACP_UNANSWERED those of the
// questions to which no answer comes.
func (k *worker) addAnswers(ctx context.Context, request *agent.Request, rec *track.Record, with []joined) error {
	questions, err := rec.QuestionsBack(ctx, k.workspace, k.config.Agent)
	if err != nil {
		return err
	}
	var answers, unanswered []string
	add := func(m *schema.Message, provenance string) error {
		text := m.BodyText()
		switch {
		case k.config.ForModel:
			text = "\n" + visible.Model(provenance, text)
		case k.config.Input == InputBody:
			text = "\n\n" + text
		default:
			data, err := schema.Encode(m)
			if err != nil {
				return err
			}
			text = "---\n" + string(data)
		}
		request.Prompt += text
		return nil
	}
	for _, q := range questions {
		answer := q.Answer
		for _, j := range with {
			if j.message.ParentID == q.ID {
				answer = j.message
			}
		}
		if err := add(q.Message, "You asked "+string(rec.From)+" about it, with "+q.ID.Short()+":"); err != nil {
			return err
		}
		switch {
		case answer != nil && (answer.Marks.Declined || answer.IsNotice()):
			err = add(answer, string(rec.From)+" does not answer, so work without it:")
		case answer != nil:
			err = add(answer, visible.Provenance(answer.ID.Short(), string(answer.From)))
		case q.Ended != "":
			unanswered = append(unanswered, string(q.ID))
			if k.config.ForModel {
				request.Prompt += visible.ModelLine("No answer comes, so work without it: "+q.Ended) + "\n"
			}
		}
		if err != nil {
			return err
		}
		if answer != nil {
			answers = append(answers, string(answer.ID))
		}
	}
	request.Env = append(request.Env, "OACP_ANSWERS="+strings.Join(answers, ","), "OACP_UNANSWERED="+strings.Join(unanswered, ","))
	return nil
}
