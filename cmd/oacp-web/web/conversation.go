package web

import (
	"cmp"
	"net/http"
	"time"

	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// threadPage is how many messages of a conversation a page shows.
const threadPage = 100

// A discussion is the view model of a conversation.
type discussion struct {
	ID       string
	Subject  string
	Messages []messageView
	paging
	// Unread says what could not be read.
	Unread string
	Reply  *replyForm
}

func (s *Server) conversationPage(r *http.Request) (page, error) {
	return s.discussion(r, nil)
}

// discussion returns the page of a conversation. After a reply that was not sent, it has its form.
func (s *Server) discussion(r *http.Request, failed *replyForm) (page, error) {
	id := r.PathValue("id")
	nodes, unreadable, err := s.thread(r.Context(), id)
	if err != nil {
		return page{}, err
	}
	conversation.Sort(nodes, func(n track.Node) *schema.Message { return n.Message })
	d := discussion{ID: id, Subject: nodes[0].Message.Subject, Reply: failed}
	if nodes[0].IsHeld() {
		d.Subject = "Conversation"
	}
	if unreadable != nil {
		d.Unread = unreadable.Error()
	}
	target := -1
	for i, n := range nodes {
		v := s.viewOf(n.Entry, n.Files)
		if v.Answerable && (v.Pending || target < 0 || !s.viewOf(nodes[target].Entry, nodes[target].Files).Pending) {
			target = i
		}
	}
	from, to := 0, 0
	d.paging, from, to = pagingOf(r, len(nodes), threadPage)
	now := time.Now()
	for i := len(nodes) - to; i < len(nodes)-from; i++ {
		v := s.viewOfNode(nodes[i], now)
		v.Target = i == target
		d.Messages = append(d.Messages, v)
	}
	if target >= 0 && d.Reply == nil {
		v := s.viewOf(nodes[target].Entry, nodes[target].Files)
		d.Reply = newReplyForm(&v, nodes[target].Message)
	}
	return page{Title: cmp.Or(d.Subject, "Conversation"), Template: "conversation", Content: d}, nil
}
