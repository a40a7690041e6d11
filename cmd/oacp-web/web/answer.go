package web

import (
	"cmp"
	"context"
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
	Options []client.Option
	Text    string
	Pending bool
	// Again sends another answer to a message that is answered, or that something else works on. MayAgain offers that.
	Again, MayAgain bool
	Problem         *problem
}

func newReplyForm(v *messageView) *replyForm {
	return &replyForm{ID: v.ID, To: v.From, Options: client.OptionsOf(v.Message), Pending: v.Pending}
}

// reply sends what the form says, and then shows the conversation. After an error it shows the form again, as it was.
func (s *Server) reply(w http.ResponseWriter, r *http.Request) {
	form := replyForm{
		ID: schema.ID(r.PathValue("id")), Text: strings.ReplaceAll(r.PostFormValue("text"), "\r\n", "\n"),
		Again: r.PostFormValue("again") != "",
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
	form.ID, form.To, form.Options = m.ID, m.From, client.OptionsOf(m)
	_, pendingErr := s.w.Pending(ctx, string(m.ID), s.options.Person)
	form.Pending = pendingErr == nil
	option := client.DefaultOption(m)
	if choice != "" {
		if option, err = client.FindOption(m, choice); err != nil {
			return nil, err
		}
	}
	answer := request.Draft()
	answer.Body, answer.Again, answer.Acknowledge = schema.TextValue(form.Text), form.Again, form.Pending && option.Acknowledges
	if err := answer.Take(m, option); err != nil {
		return nil, err
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
