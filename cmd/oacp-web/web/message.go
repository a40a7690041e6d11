package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/turn/track"
)

// A messageView is a message as pages show it.
type messageView struct {
	// Message is what can be read of the file. Its subject is never empty.
	*schema.Message
	Body    template.HTML
	Excerpt string
	// Progress is how far the message got with each recipient.
	Progress []track.Progress
	// Held is a message that is not shown, because it is not verified.
	Held bool
	// Signature is the verdict on the signature, empty if there is none.
	Signature signing.Verdict
	// Problem says why the file is not valid, or not shown.
	Problem string
	// Mine is a message of the person. Pending is one in her inbox, and Answerable one that she can answer.
	Mine, Pending, Answerable bool
	// Target reports whether the reply box of the page answers it.
	Target bool
}

// viewOf returns the view of a message file. The person can answer what was sent to her.
func (s *Server) viewOf(e mailbox.Entry, files []mailbox.Entry) (v messageView) {
	shown := e.Message
	if e.Err != nil {
		v.Problem = failure.OneLine(e.Err.Error())
		shown = command.Preview(&e)
		if v.Held = e.IsHeld(); v.Held {
			shown = &schema.Message{ID: shown.ID, Subject: "A message that is not verified"}
		}
	}
	m := *shown
	m.Subject = cmp.Or(m.Subject, e.Name)
	v.Message = &m
	if e.Err == nil {
		v.Excerpt = excerpt(m.BodyText())
	}
	v.Signature = verdict(s.w, m.Auth, files)
	person := s.options.Person
	v.Mine = person != "" && m.From == person
	v.Answerable = e.Err == nil && person != "" && m.IsFor(person)
	for _, f := range files {
		v.Pending = v.Pending || v.Answerable && f.Agent == person && f.Box == mailbox.Inbox
	}
	return v
}

// display records that the person is shown those of the messages that are in her inbox, before a page shows their text: from
// then on, nobody takes them back. The entries may be other files of the messages.
func (s *Server) display(ctx context.Context, entries ...mailbox.Entry) {
	person, err := s.person()
	if err != nil || s.shown != nil {
		return // nobody looks
	}
	pending, err := s.boxes.names(s.options.Person, mailbox.Inbox)
	var files []mailbox.Entry
	for _, e := range entries {
		if e.Err != nil || e.Message == nil || !e.Message.IsFor(s.options.Person) || !slices.Contains(pending, e.Name) {
			continue
		}
		file := s.boxes.read(s.options.Person, mailbox.Inbox, e.Name)
		if file.Err == nil && file.Message.ID == e.Message.ID {
			files = append(files, file)
		}
	}
	if err = cmp.Or(err, person.Display(ctx, files)); err != nil {
		s.options.Warn(fmt.Errorf("a page shows messages that others may take back: %w", err))
	}
}

// verdict returns the worst verdict of the recipients on a signature, empty if there is none.
func verdict(w *mailbox.Workspace, auth string, files []mailbox.Entry) (worst signing.Verdict) {
	if auth == "" {
		return ""
	}
	order := []signing.Verdict{"", signing.VerdictVerified, signing.VerdictUnverified, signing.VerdictBad}
	checker := trust.NewChecker(w)
	for _, f := range files {
		worst = order[max(slices.Index(order, worst), slices.Index(order, checker.Check(f).Verdict))]
	}
	return worst
}

// with returns the view with the body and progress of the message.
func (v messageView) with(n track.Node) messageView {
	if n.Message != nil && !n.IsHeld() {
		v.Body = bodyHTML(n.Message)
	}
	v.Progress = n.Recipients
	return v
}

// thread returns the conversation of a message, with its progress. What folders hide is missing.
func (s *Server) thread(ctx context.Context, id string) ([]track.Node, *mailbox.UnreadableError, error) {
	if _, err := schema.ParseID(schema.ID(id)); err != nil { // a part of one
		found, err := s.w.Find(ctx, id)
		if _, err = mailbox.SplitUnreadable(err); err != nil {
			return nil, nil, err
		}
		id = string(found[0].Message.ID)
	}
	names, err := s.threads.of(ctx, schema.ID(id))
	if _, err = mailbox.SplitUnreadable(err); err != nil {
		return nil, nil, err
	}
	nodes, err := track.ThreadNamed(ctx, s.w, schema.ID(id), names)
	unreadable, err := mailbox.SplitUnreadable(err)
	if err == nil && len(nodes) == 0 {
		err = &mailbox.NotFoundError{ID: id, Workspace: s.w.Dir()}
	}
	return nodes, unreadable, err
}

// A single is the view model of the page of a message.
type single struct {
	messageView
	Fields []field
	Files  []fileView
	Reply  *replyForm
}

type field struct{ Name, Text string }

// A fileView is a file of a message, with the reason of a dead letter.
type fileView struct {
	mailbox.Entry
	Reason string
}

func (s *Server) messagePage(r *http.Request) (page, error) {
	node, err := s.node(r.Context(), r.PathValue("id"))
	if err != nil {
		return page{}, err
	}
	s.display(r.Context(), node.Files...)
	v := single{messageView: s.viewOf(node.Entry, node.Files).with(node)}
	for _, name := range schema.FieldNames() {
		text, _ := node.Message.TextField(name)
		if text != nil && *text != "" && name != "auth" && name != "subject" && !node.IsHeld() {
			v.Fields = append(v.Fields, field{strings.ReplaceAll(name, "_", " "), *text})
		}
	}
	for _, e := range node.Files {
		f := fileView{Entry: e}
		if reason, err := s.w.Reason(e); e.Box == mailbox.DeadLetters && err == nil {
			f.Reason = reason.Reason
		}
		v.Files = append(v.Files, f)
	}
	if v.Answerable {
		v.Reply = newReplyForm(&v.messageView)
	}
	return page{Title: v.Subject, Template: "message", Content: v}, nil
}

// node returns a message with its progress.
func (s *Server) node(ctx context.Context, id string) (track.Node, error) {
	nodes, _, err := s.thread(ctx, id)
	if err != nil {
		return track.Node{}, err
	}
	for _, n := range nodes {
		if n.Message.ID.Match(id) == schema.Matches {
			return n, nil
		}
	}
	return track.Node{}, &mailbox.NotFoundError{ID: id, Workspace: s.w.Dir()}
}

// serveFile serves the bytes of a file that may be shown.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, e mailbox.Entry) {
	m, data, err := s.w.Read(e)
	if data == nil {
		s.fail(w, r, err)
		return
	}
	if e.Err = err; err == nil {
		e.Message = m
		s.display(r.Context(), e)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(data) // the client may be gone
}

// serveBoxFile serves the bytes of any file in a box, such as one that is not a message.
func (s *Server) serveBoxFile(w http.ResponseWriter, r *http.Request) {
	in, err := s.boxOf(r)
	name := r.PathValue("name")
	if err == nil && !schema.IsMessageFile(name) {
		err = &mailbox.NotFoundError{ID: name, Workspace: s.w.Dir()}
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.serveFile(w, r, mailbox.Entry{Agent: in.agent, Box: in.name, Name: name})
}

// serveJSON serves a message and its progress as JSON.
func (s *Server) serveJSON(w http.ResponseWriter, r *http.Request) {
	node, err := s.node(r.Context(), r.PathValue("id"))
	if err == nil && node.Err != nil {
		err = node.Err
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.display(r.Context(), node.Files...)
	w.Header().Set("Content-Type", "application/json")
	err = command.WriteJSON(w, struct {
		Message    *schema.Message  `json:"message"`
		Recipients []track.Progress `json:"recipients"`
	}{node.Message, node.Recipients})
	if err != nil && !errors.Is(err, context.Canceled) {
		s.options.Warn(fmt.Errorf("message %s as JSON: %w", node.Message.ID, err))
	}
}
