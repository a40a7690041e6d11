package track

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// A Question is one that an agent asked the sender of a message back.
type Question struct {
	*schema.Message
	// Answer is the sender's last answer, or what says that it does not answer; nil if there is neither. Ended says why no answer
	// comes any more.
	Answer *schema.Message
	Ended  string
}

// QuestionsBack returns what turns on the message asked its sender back, the oldest first.
func (rec *Record) QuestionsBack(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName) ([]Question, error) {
	if len(rec.Questions) == 0 {
		return nil, nil
	}
	return questionsOf(ctx, w, rec.request(agent), agent, func(e *mailbox.Entry) bool { return slices.Contains(rec.Questions, e.Message.ID) })
}

// askedBack returns the questions of the last turn on a message that its sender may still answer. Questions that somebody else of
// the agent asks say nothing about what the turn has to say.
func (rec *Record) askedBack(ctx context.Context, w *mailbox.Workspace, request *schema.Message, agent schema.AgentName) (open []*schema.Message, err error) {
	if rec == nil {
		return nil, nil
	}
	all, err := questionsOf(ctx, w, request, agent, func(e *mailbox.Entry) bool { return rec.isOfTurn(e.Message, e.Modified) })
	for _, q := range all {
		if q.Answer == nil && q.Ended == "" {
			open = append(open, q.Message)
		}
	}
	return open, err
}

// questionsOf returns those wanted of what the agent asked the sender of a message back, the oldest first.
func questionsOf(ctx context.Context, w *mailbox.Workspace, request *schema.Message, agent schema.AgentName, wanted func(*mailbox.Entry) bool) (all []Question, err error) {
	asked, err := w.ListNamed(ctx, agent, mailbox.Outbox, conversation.Following(request.CreatedAt.Time()), func(e *mailbox.Entry) bool {
		return e.Err == nil && e.Message.AsksBack(request) && wanted(e)
	})
	if err != nil || len(asked) == 0 || !w.Knows(request.From) {
		return nil, err
	}
	answers, err := conversation.Responses(ctx, w, request.From, asked)
	if err != nil {
		return nil, err
	}
	bounced, err := w.ListNamed(ctx, request.From, mailbox.Outbox, conversation.Following(request.CreatedAt.Time()), func(e *mailbox.Entry) bool {
		isAbout := func(q mailbox.Entry) bool { return q.Message.ID == e.Message.ParentID }
		return e.Err == nil && e.Message.Marks.Ended != "" && e.Message.IsNotice() && slices.ContainsFunc(asked, isAbout)
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(asked, func(a, b mailbox.Entry) int { return schema.CompareAge(a.Message, b.Message) })
	for _, e := range asked {
		q := Question{Message: e.Message}
		if a := answers[q.ID]; a.Answers {
			q.Answer = a.Message
		} else if i := slices.IndexFunc(bounced, func(e mailbox.Entry) bool { return e.Message.ParentID == q.ID }); i >= 0 {
			q.Answer = bounced[i].Message
		} else if q.Ended, err = endOf(ctx, w, q.Message, request.From); err != nil {
			return nil, err
		}
		all = append(all, q)
	}
	return all, nil
}

// endOf says why no answer to a question comes any more, empty if one may come.
func endOf(ctx context.Context, w *mailbox.Workspace, question *schema.Message, from schema.AgentName) (string, error) {
	if question.ExpiredAt(time.Now()) {
		return "the question expired", nil
	}
	all, err := Track(ctx, w, string(question.ID))
	if _, err := mailbox.SplitUnreadable(err); err != nil {
		return "", err
	}
	for _, p := range all {
		if p.Agent == from && p.Stage.traits().fate == failed {
			return (&NothingComesError{p, question.From}).Error(), nil
		}
	}
	return "", nil
}

// ask adds the questions that a turn asked back.
func (h *History) ask(rec *Record, f *Fact) {
	h.failures = 0
	rec.Asks++
	rec.Awaits = f.Questions
	for _, id := range f.Questions {
		if !slices.Contains(rec.Questions, id) {
			rec.Questions = append(rec.Questions, id)
		}
		h.asked[id] = rec.Key
	}
	rec.Held = cmp.Or(rec.Stopped, rec.Waits())
}

// Waits says for which answer the message waits, empty if for none.
func (rec *Record) Waits() string {
	if len(rec.Awaits) == 0 {
		return ""
	}
	return "it asked back with " + rec.Awaits[len(rec.Awaits)-1].Short() + ", and waits for the answer"
}

// Asked returns the record of the message about which a turn asked a question back, nil if there is none.
func (h *History) Asked(question schema.ID) *Record {
	k, known := h.asked[question]
	if !known {
		return nil
	}
	return h.Records[k]
}
