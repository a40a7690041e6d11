package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
	"github.com/oacp-go/oacp/validate"
)

// errReadOnly reports a form that would write, although the server acts for nobody.
var errReadOnly = failure.Usagef("this server sends nothing, because it acts for no person").WithHint("oacp web --agent NAME acts for one; oacp add-agent NAME --runtime human adds one")

// A replyForm is the reply box of a page, as it was filled in.
type replyForm struct {
	ID      schema.ID
	To      schema.AgentName
	Choices []string
	Text    string
	// Asks is set for a question back, which does not answer the message.
	Asks bool
	// Keeps is set if the message stays in the inbox.
	Keeps   bool
	Pending bool
	// Again sends another answer to a message that is answered, or that something else works on. MayAgain offers that.
	Again, MayAgain bool
	Problem         *problem
}

func newReplyForm(v *messageView) *replyForm {
	return &replyForm{ID: v.ID, To: v.From, Choices: v.Choices(), Pending: v.Pending}
}

// reply sends what the form says, and then shows the conversation. After an error it shows the form again, as it was.
func (s *Server) reply(w http.ResponseWriter, r *http.Request) {
	form := replyForm{
		ID: schema.ID(r.PathValue("id")), Text: strings.ReplaceAll(r.PostFormValue("text"), "\r\n", "\n"),
		Asks: r.PostFormValue("asks") != "", Keeps: r.PostFormValue("keeps") != "", Again: r.PostFormValue("again") != "",
	}
	receipt, err := s.send(r.Context(), &form, r.PostFormValue("choose"))
	switch {
	case err == nil:
		redirect(w, r, fromRoot("c", string(form.ID))+"?sent#"+string(receipt.Message.ID))
		return
	case receipt != nil: // it is sent, so the form would send it again
		r.PostForm.Del("text")
		s.fail(w, r, err)
		return
	}
	failed := problemOf(err)
	form.Problem, form.MayAgain = &failed, is[*track.AnsweredError](err) || is[*track.BusyError](err)
	p, pageErr := s.discussion(r, &form)
	if pageErr != nil {
		s.fail(w, r, cmp.Or(err, pageErr))
		return
	}
	s.show(w, r, statusOf(err), p)
}

// send sends the answer of the person to a message. With a receipt, the answer is sent despite the error. Send completes
// the form with what the message says.
func (s *Server) send(ctx context.Context, form *replyForm, choice string) (receipt *mailbox.Receipt, err error) {
	person := s.options.Person
	if person == "" {
		return nil, errReadOnly
	}
	found, err := s.w.Find(ctx, string(form.ID))
	if _, err = mailbox.SplitUnreadable(err); err != nil {
		return nil, err
	}
	original, err := conversation.Original(found, person)
	if err != nil {
		return nil, err
	}
	form.ID, form.To, form.Choices = original.ID, original.From, original.Choices()
	_, pendingErr := s.w.Pending(ctx, string(original.ID), person)
	form.Pending = pendingErr == nil
	draft, err := form.draft(original, person, choice)
	if err != nil {
		return nil, err
	}
	var held *conversation.Copy
	if form.acknowledges() {
		found, err := conversation.FindCopy(ctx, s.w, string(original.ID), person)
		if err != nil {
			return nil, err
		}
		held = &found
	}
	if err := command.PrepareDraft(ctx, s.w, &draft, validate.Source{}); err != nil {
		return nil, err
	}
	err = track.SendOnce(ctx, s.w, original, &draft, process.Process{}, form.Again, func() (err error) {
		receipt, err = s.w.Send(ctx, draft, nil)
		return err
	})
	if err != nil || held == nil {
		return receipt, err
	}
	err = held.Acknowledge(s.w)
	if _, moved := errors.AsType[*mailbox.NotDurableError](err); err != nil && !moved {
		return receipt, failure.WithHint(fmt.Errorf("the answer is sent, but %s is not acknowledged: %w", original.ID, err), "do not answer again")
	}
	return receipt, err
}

// acknowledges reports whether the answer takes the message out of the inbox.
func (f *replyForm) acknowledges() bool { return f.Pending && !f.Keeps && !f.Asks }

// draft returns the message that the form makes.
func (f *replyForm) draft(original *schema.Message, person schema.AgentName, choice string) (schema.Message, error) {
	draft := conversation.Reply(original, person)
	draft.Body = schema.TextValue(f.Text)
	switch {
	case f.Asks:
		draft.Type = schema.Question
	case draft.Type == schema.HandoffComplete: // its body has a structure
		draft.Type = schema.Notification
	}
	if choice != "" {
		if err := draft.Choose(original, choice); err != nil {
			return draft, err
		}
	} else if strings.TrimSpace(f.Text) == "" {
		return draft, &failure.Error{Code: "invalid_message", Err: errors.New("body: there is no text"), Hint: "write an answer, or mark the message as done without one"}
	}
	conversation.Conclude(&draft, original, !f.Asks && !f.Keeps, f.acknowledges())
	return draft, nil
}

// acknowledge takes a message out of the person's inbox without an answer.
func (s *Server) acknowledge(w http.ResponseWriter, r *http.Request) {
	err := error(errReadOnly)
	if s.options.Person != "" {
		var held conversation.Copy
		if held, err = conversation.FindCopy(r.Context(), s.w, r.PathValue("id"), s.options.Person); err == nil {
			err = held.Acknowledge(s.w)
		}
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	redirect(w, r, fromRoot(""))
}

// restore returns a message to the inbox of an agent.
func (s *Server) restore(w http.ResponseWriter, r *http.Request) {
	in, err := s.boxOf(r)
	if err == nil && s.options.Person == "" {
		err = errReadOnly
	}
	if err == nil {
		_, err = track.Restore(r.Context(), s.w, r.PostFormValue("id"), in.agent)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	redirect(w, r, fromRoot("a", string(in.agent), string(in.name)))
}

// redirect shows another page after a form was carried out.
func redirect(w http.ResponseWriter, r *http.Request, address string) {
	http.Redirect(w, r, address, http.StatusSeeOther)
}
