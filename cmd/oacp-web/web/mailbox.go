package web

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// boxPage is how many messages of a box a page shows.
const boxPage = 50

// A boxView is the view model of a box.
type boxView struct {
	Agent schema.AgentName
	Box   mailbox.Box
	Tabs  []tab
	Rows  []rowView
	paging
	// Restores names the button that returns a message to the inbox; empty if there is none.
	Restores string
	State    agentView
}

// A tab leads to a box.
type tab struct {
	Box   mailbox.Box
	Name  string
	Count int
}

// A rowView is a message in a list.
type rowView struct {
	messageView
	entry mailbox.Entry
	// File is the name of the file, for one that is not a message.
	File string
	// Reason is why it is a dead letter, and Recalled whether its sender took it back.
	Reason   string
	Output   string
	Attempts int
}

// boxNames are what pages call the boxes.
var boxNames = map[mailbox.Box]string{mailbox.Inbox: "Inbox", mailbox.Archive: "Archive", mailbox.DeadLetters: "Dead letters", mailbox.Outbox: "Outbox"}

// agentOf returns the agent that the path of a request names.
func (s *Server) agentOf(r *http.Request) (schema.AgentName, error) {
	name, err := schema.ParseAgentName(r.PathValue("agent"))
	if err != nil {
		return "", &mailbox.UnknownAgentError{Agent: schema.AgentName(r.PathValue("agent"))}
	}
	return name, s.w.CheckAgent(name)
}

// boxOf returns the box that the path of a request names.
func (s *Server) boxOf(r *http.Request) (box, error) {
	agent, err := s.agentOf(r)
	name := mailbox.Box(r.PathValue("box"))
	if err == nil && !slices.Contains(schema.Boxes(), name) {
		err = failure.Usagef("a mailbox has no box %q", name)
	}
	return box{agent, name}, err
}

func (s *Server) mailboxPage(r *http.Request) (page, error) {
	in, err := s.boxOf(r)
	if err != nil {
		return page{}, err
	}
	v := boxView{Agent: in.agent, Box: in.name}
	for _, name := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.Archive, mailbox.DeadLetters} {
		names, err := s.boxes.names(in.agent, name)
		if err != nil {
			return page{}, err
		}
		v.Tabs = append(v.Tabs, tab{name, boxNames[name], len(names)})
		if name != in.name {
			continue
		}
		var from, to int
		var shown []mailbox.Entry
		v.paging, from, to = pagingOf(r, len(names), boxPage)
		for _, file := range names[from:to] {
			if row, ok := s.row(in, file); ok {
				v.Rows, shown = append(v.Rows, row), append(shown, row.entry)
			}
		}
		s.display(r.Context(), shown...)
	}
	if v.State, err = s.agent(r.Context(), in.agent); err != nil {
		return page{}, err
	}
	switch {
	case s.options.Person == "":
	case in.name == mailbox.DeadLetters:
		v.Restores = "Retry"
	case in.name == mailbox.Archive:
		v.Restores = "Restore"
	}
	title := fmt.Sprintf("%s of %s", boxNames[in.name], in.agent)
	p := page{Title: title, Template: "mailbox", Content: v}
	if in.agent == s.options.Person {
		p.Section = "inbox"
	}
	return p, nil
}

// row returns the row of a file, unless it has left the box.
func (s *Server) row(in box, file string) (row rowView, ok bool) {
	e := s.boxes.read(in.agent, in.name, file)
	if mailbox.IsGone(e.Err) {
		return row, false
	}
	row = rowView{messageView: s.viewOf(e, []mailbox.Entry{e}), entry: e}
	if e.Err != nil {
		row.File = file
	}
	if in.name == mailbox.DeadLetters {
		if reason, err := s.w.Reason(e); err == nil {
			row.Reason, row.Output, row.Attempts = reason.Reason, reason.Output, reason.Attempts
			if reason.RecalledBy != "" {
				row.Reason = fmt.Sprintf("%s took it back", reason.RecalledBy)
			}
		}
	}
	return row, true
}
