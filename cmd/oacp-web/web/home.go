package web

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

const (
	// mostWaiting is how many waiting messages the first page shows.
	mostWaiting = 20
	// latestMessages is how many of the newest messages are read for the latest conversations.
	latestMessages = 120
	// mostCounted is how many files an inbox may have so that the first page reads them all for the state of its agent.
	mostCounted = 300
)

// A home is the view model of the first page.
type home struct {
	Waiting []messageView
	// More counts the waiting messages that the page does not show. They come after those in Waiting.
	More          int
	Agents        []agentView
	Conversations []conversationView
	Problems      []string
}

// An agentView is the state of an agent, in words.
type agentView struct {
	Name    schema.AgentName
	IsThere bool
	// Facts are what is proven about the agent.
	Facts []string
	// Pending counts the files in the inbox, and Dead the dead letters.
	Pending, Dead int
	// Oldest is when the oldest pending message was created, if that is known.
	Oldest time.Time
	// Last says how the last turn ended.
	Last     string
	Failures int
	Problem  string
}

// A conversationView is a conversation in a list.
type conversationView struct {
	ID     schema.ConversationID
	Latest messageView
	People []schema.AgentName
	// Count counts its messages among the newest ones.
	Count int
}

func (s *Server) homePage(r *http.Request) (page, error) {
	var h home
	if err := s.addWaiting(r.Context(), &h); err != nil {
		h.Problems = append(h.Problems, failure.OneLine(err.Error()))
	}
	agents, err := s.w.Agents()
	if err != nil {
		return page{}, err
	}
	for _, name := range agents {
		a, err := s.agent(r.Context(), name)
		if err != nil {
			a.Problem = failure.OneLine(err.Error())
		}
		h.Agents = append(h.Agents, a)
	}
	h.Conversations = s.latest(r.Context(), agents, &h)
	return page{Title: "Home", Template: "home", Section: "home", Content: h}, r.Context().Err()
}

// addWaiting adds the first of what waits for the person, in processing order.
func (s *Server) addWaiting(ctx context.Context, h *home) error {
	if s.options.Person == "" {
		return nil
	}
	entries, err := s.w.Inbox(ctx, s.options.Person)
	if err != nil {
		return err
	}
	shown := min(len(entries), mostWaiting)
	h.More = len(entries) - shown
	var shownNow []mailbox.Entry
	for _, e := range entries[:shown] { // again, with their bodies
		if e = s.boxes.read(s.options.Person, mailbox.Inbox, e.Name); !mailbox.IsGone(e.Err) {
			h.Waiting = append(h.Waiting, s.viewOf(e, []mailbox.Entry{e}))
			shownNow = append(shownNow, e)
		}
	}
	s.display(ctx, shownNow...)
	return nil
}

// agent returns the state of an agent. Of one with many files, it is only what needs no look at them.
func (s *Server) agent(ctx context.Context, name schema.AgentName) (v agentView, err error) {
	v.Name = name
	inbox, err := s.boxes.names(name, mailbox.Inbox)
	if err != nil {
		return v, err
	}
	dead, err := s.boxes.names(name, mailbox.DeadLetters)
	if err != nil {
		return v, err
	}
	v.Pending, v.Dead = len(inbox), len(dead)
	now, status := time.Now(), track.AgentStatus{Agent: name}
	if len(inbox)+len(dead) > mostCounted {
		status.LastCommand, status.Waiting = track.CommandsOf(s.w, name)
		status.Running, err = track.IsRunning(s.w, name)
	} else {
		var all []track.AgentStatus
		if all, err = track.Status(ctx, s.w, name); err == nil {
			status = all[0]
			v.Dead, v.Oldest, v.Failures = status.DeadLetters, status.Oldest, status.Failures
		}
	}
	if err != nil {
		return v, err
	}
	v.Facts, v.IsThere = live.Presence(s.w, &status, now)
	if last := status.Last; last != nil && last.Succeeded {
		v.Last = "last turn done " + spelling.Age(last.Ended, now) + " ago: " + last.Subject
	} else if last != nil {
		v.Last = "last turn failed " + spelling.Age(last.Ended, now) + " ago: " + last.Reason
	}
	return v, nil
}

// latest returns the conversations of the newest messages, the last one first.
func (s *Server) latest(ctx context.Context, agents []schema.AgentName, h *home) (list []conversationView) {
	type sent struct {
		agent schema.AgentName
		file  string
	}
	var newest []sent
	for _, agent := range agents {
		names, err := s.boxes.names(agent, mailbox.Outbox)
		if err != nil {
			h.Problems = append(h.Problems, failure.OneLine(err.Error()))
		}
		for _, file := range names[:min(len(names), latestMessages)] {
			newest = append(newest, sent{agent, file})
		}
	}
	slices.SortFunc(newest, func(a, b sent) int { return newestFirst(a.file, b.file) })
	var entries []mailbox.Entry
	for _, one := range newest[:min(len(newest), latestMessages)] {
		if e := s.boxes.read(one.agent, mailbox.Outbox, one.file); e.Err == nil {
			entries = append(entries, e)
		}
	}
	conversation.Sort(entries, func(e mailbox.Entry) *schema.Message { return e.Message })
	var shown []mailbox.Entry
	known := make(map[schema.ConversationID]int)
	for _, e := range slices.Backward(entries) {
		id := conversation.Of(e.Message)
		i, ok := known[id]
		if !ok {
			i = len(list)
			known[id] = i
			list = append(list, conversationView{ID: id, Latest: s.viewOf(e, nil)})
			shown = append(shown, e)
		}
		c := &list[i]
		c.Count++
		for _, name := range append([]schema.AgentName{e.Message.From}, e.Message.To...) {
			if !slices.Contains(c.People, name) {
				c.People = append(c.People, name)
			}
		}
	}
	s.display(ctx, shown...)
	return list
}
