package web

import (
	"cmp"
	"net/http"
	"strconv"
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
	// Hidden counts the messages before those on the page, and Earlier is the number of the page with them; 0 if there is none.
	Hidden, Earlier, Later int
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
	number, _ := strconv.Atoi(r.URL.Query().Get("page")) // anything else is the last page
	end := max(min(len(nodes), len(nodes)-number*threadPage), 1)
	d.Hidden = max(0, end-threadPage)
	if d.Hidden > 0 {
		d.Earlier = max(number, 0) + 1
	}
	if end < len(nodes) {
		d.Later = number - 1
	}
	now := time.Now()
	for i, n := range nodes[d.Hidden:end] {
		v := s.viewOfNode(n, now)
		v.Target = d.Hidden+i == target
		d.Messages = append(d.Messages, v)
	}
	if target >= 0 && d.Reply == nil {
		v := s.viewOf(nodes[target].Entry, nodes[target].Files)
		d.Reply = newReplyForm(&v, nodes[target].Message)
	}
	return page{Title: cmp.Or(d.Subject, "Conversation"), template: "conversation", Content: d}, nil
}
