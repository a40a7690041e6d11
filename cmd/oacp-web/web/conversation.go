package web

import (
	"cmp"
	"net/http"

	"github.com/oacp-go/oacp/mailbox"
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
	views, target := make([]messageView, len(nodes)), -1
	for i, n := range nodes {
		views[i] = s.viewOf(n.Entry, n.Files)
		if views[i].Answerable && (views[i].Pending || target < 0 || !views[target].Pending) {
			target = i
		}
	}
	if target >= 0 {
		if views[target].Target = true; d.Reply == nil {
			d.Reply = newReplyForm(&views[target])
		}
	}
	var shown []mailbox.Entry
	from, to := 0, 0
	d.paging, from, to = pagingOf(r, len(nodes), threadPage)
	for i := len(nodes) - to; i < len(nodes)-from; i++ {
		d.Messages, shown = append(d.Messages, views[i].with(nodes[i])), append(shown, nodes[i].Files...)
	}
	s.display(r.Context(), shown...)
	return page{Title: cmp.Or(d.Subject, "Conversation"), Template: "conversation", Content: d}, nil
}
