package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
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
		redirect(w, r, fromRoot("c", string(form.ID))+"?sent#"+string(receipt.Message().ID))
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
func (s *Server) send(ctx context.Context, form *replyForm, choice string) (*client.Receipt, error) {
	person, err := s.person()
	if err != nil {
		return nil, err
	}
	request, err := person.Request(ctx, string(form.ID))
	if err != nil {
		return nil, err
	}
	m := request.Message
	form.ID, form.To, form.Choices = m.ID, m.From, m.Choices()
	_, pendingErr := s.w.Pending(ctx, string(m.ID), s.options.Person)
	form.Pending = pendingErr == nil
	if choice == "" && strings.TrimSpace(form.Text) == "" {
		return nil, &failure.Error{Code: "invalid_message", Err: errors.New("body: there is no text"), Hint: "write an answer, or mark the message as done without one"}
	}
	answer := request.Draft()
	answer.Body, answer.Choose, answer.Again = schema.TextValue(form.Text), choice, form.Again
	answer.Final, answer.Acknowledge = !form.Asks && !form.Keeps, form.Pending && !form.Keeps && !form.Asks
	switch {
	case form.Asks:
		answer.Type = schema.Question
	case answer.Type == schema.HandoffComplete: // its body has a structure
		answer.Type = schema.Notification
	}
	return request.Answer(ctx, answer)
}

// person is the person for whom the server acts, or errReadOnly.
func (s *Server) person() (*client.Client, error) {
	if s.options.Person == "" {
		return nil, errReadOnly
	}
	return client.For(s.w, s.options.Person, client.Caller{IsPerson: true})
}

// acknowledge takes a message out of the person's inbox without an answer.
func (s *Server) acknowledge(w http.ResponseWriter, r *http.Request) {
	person, err := s.person()
	if err == nil {
		_, err = person.Acknowledge(r.Context(), r.PathValue("id"))
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
	if err == nil {
		_, err = s.person()
	}
	if err == nil {
		_, err = client.Restore(r.Context(), s.w, in.agent, r.PostFormValue("id"))
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
