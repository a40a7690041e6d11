package provider

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// A mail is a message as Gas City knows it. A message with several recipients is one mail for each.
type mail struct {
	// ID is that of the message, with @ and the recipient if there are several.
	ID        string                `json:"id"`
	From      string                `json:"from"`
	To        string                `json:"to"`
	Subject   string                `json:"subject"`
	Body      string                `json:"body"`
	CreatedAt schema.Timestamp      `json:"created_at"`
	Read      bool                  `json:"read"`
	ThreadID  schema.ConversationID `json:"thread_id,omitempty"`
	ReplyTo   schema.ID             `json:"reply_to,omitempty"`
	// Priority is 0 to 3, for P0 to P3.
	Priority int      `json:"priority,omitempty"`
	CC       []string `json:"cc,omitempty"`

	message *schema.Message
	agent   schema.AgentName
	// file is the copy in the inbox. Without one, the mail is archived.
	file *mailbox.Entry
}

// slash is what the slash in RIG/NAME, the address of an agent, becomes in its name here, and in the names of Gas
// City's sessions.
const slash = "--"

func agentOf(address string) schema.AgentName {
	return schema.AgentName(strings.ReplaceAll(address, "/", slash))
}

func addressOf(agent schema.AgentName) string { return strings.ReplaceAll(string(agent), slash, "/") }

// newMail returns the mail of a message at one of its recipients.
func newMail(message *schema.Message, agent schema.AgentName) mail {
	m := mail{
		ID: string(message.ID), From: addressOf(message.From), To: addressOf(agent), Subject: message.Subject, Body: message.BodyText(),
		CreatedAt: message.CreatedAt, ThreadID: conversation.Of(message), ReplyTo: message.ParentID,
		Priority: max(0, slices.Index(schema.Priorities(), message.Priority)), message: message, agent: agent,
	}
	for _, other := range message.To {
		if other != agent {
			m.CC = append(m.CC, addressOf(other))
			m.ID = string(message.ID) + "@" + string(agent)
		}
	}
	return m
}

// mailsOf returns the mails of which files were found, in the order of their messages. A mail is unread if it is new
// to its recipient: see track.News.
func (p *provider) mailsOf(found []mailbox.Entry) (mails []mail) {
	indexes := make(map[string]int)
	for i := range found {
		e := &found[i]
		if e.Err != nil {
			continue
		}
		for _, agent := range e.Message.To {
			key := string(e.Message.ID) + "@" + string(agent)
			at, known := indexes[key]
			if !known {
				at = len(mails)
				indexes[key] = at
				mails = append(mails, newMail(e.Message, agent))
				mails[at].Read = true
			}
			if e.Agent == agent && e.Box == mailbox.Inbox {
				if p.news[agent] == nil {
					p.news[agent] = track.NewsOf(p.w, agent)
				}
				mails[at].file, mails[at].Read = e, !p.news[agent].Has(e.Message)
			}
		}
	}
	return mails
}

// find returns the mails with the id: all those of a message, or that of the recipient whom the id names.
func (p *provider) find(id string) ([]mail, error) {
	message, agent, _ := strings.Cut(id, "@")
	found, err := p.w.Find(p.ctx, message)
	if _, err = mailbox.SplitUnreadable(err); err != nil {
		return nil, err
	}
	mails := slices.DeleteFunc(p.mailsOf(found), func(m mail) bool { return agent != "" && m.agent != agentOf(agent) })
	switch {
	case len(mails) > 0:
		return mails, nil
	case found[0].Err != nil:
		return nil, found[0].Err
	}
	return nil, &mailbox.NotFoundError{ID: id, Workspace: p.w.Dir()}
}

// only returns the only mail with the id, for its recipient to read or archive.
func (p *provider) only(id string) (mail, error) {
	mails, err := p.find(id)
	if err != nil {
		return mail{}, err
	}
	m := mails[0]
	if len(mails) > 1 {
		return mail{}, failure.WithHint(fmt.Errorf("message %s has %d recipients", m.message.ID, len(mails)), "name one: "+m.ID)
	}
	_, err = client.As(p.w, m.agent, p.Caller())
	return m, err
}

// inbox returns the mails in the inbox of a recipient or, without one, in all. A recipient that is not known yet has none.
func (p *provider) inbox(recipient string) (mails []mail, err error) {
	agents := []schema.AgentName{agentOf(recipient)}
	if recipient == "" {
		agents, err = p.w.Agents()
	} else {
		_, err = schema.ParseAgentName(string(agents[0]))
	}
	for _, agent := range agents {
		if err == nil && p.w.Knows(agent) {
			var entries []mailbox.Entry
			entries, err = p.w.List(p.ctx, agent, mailbox.Inbox)
			mails = append(mails, slices.DeleteFunc(p.mailsOf(entries), func(m mail) bool { return m.agent != agent })...)
		}
	}
	return mails, err
}

func (p *provider) all(recipient string) (any, error) { return p.inbox(recipient) }

func (p *provider) unread(recipient string) (any, error) {
	mails, err := p.inbox(recipient)
	return slices.DeleteFunc(mails, func(m mail) bool { return m.Read }), err
}

func (p *provider) count(recipient string) (any, error) {
	mails, err := p.inbox(recipient)
	total := len(mails)
	unread := len(slices.DeleteFunc(mails, func(m mail) bool { return m.Read }))
	return map[string]int{"total": total, "unread": unread}, err
}

// thread returns the mails of a conversation, the oldest first. One that nobody knows is empty.
func (p *provider) thread(id string) (any, error) {
	parts, err := schema.ParseConversationID(schema.ConversationID(id))
	if err != nil {
		return nil, nil
	}
	listing, err := p.w.Names(nil)
	if err != nil {
		return nil, err
	}
	found, err := listing.Search(p.ctx, conversation.Following(parts.Date), func(m *schema.Message) bool {
		return conversation.Of(m) == schema.ConversationID(id)
	})
	_, err = mailbox.SplitUnreadable(err)
	mails := p.mailsOf(found)
	slices.SortStableFunc(mails, func(a, b mail) int { return schema.CompareAge(a.message, b.message) })
	return mails, err
}

func (p *provider) get(id string) (any, error) {
	mails, err := p.find(id)
	if err != nil {
		return nil, err
	}
	return mails[0], nil
}

// reader is who has read a message that Gas City marks as read.
var reader = track.Holder{Program: "gascity"}

// read records that the recipient has noticed the message. For mark-read, Gas City ignores the answer.
func (p *provider) read(id string) (any, error) {
	m, err := p.only(id)
	if err == nil && m.file != nil {
		_, err = track.Offer(p.ctx, p.w, m.agent, reader, []mailbox.Entry{*m.file}, 0, true)
	}
	if err == nil && m.file != nil {
		err = track.NoteNoticed(p.w, m.agent, []track.Key{track.KeyOf(m.message)}, track.Noticed{Holder: reader})
	}
	m.Read = true
	return m, err
}

func (p *provider) markUnread(id string) (any, error) {
	m, err := p.only(id)
	if err != nil {
		return nil, err
	}
	c, err := client.As(p.w, m.agent, p.Caller())
	if err == nil {
		_, err = c.ReturnMessage(p.ctx, string(m.message.ID))
	}
	return nil, err
}

// archive acknowledges the message. Gas City recognizes the last two words of the error.
func (p *provider) archive(id string) (any, error) {
	m, err := p.only(id)
	if err != nil {
		return nil, err
	}
	c, err := client.As(p.w, m.agent, p.Caller())
	if err != nil {
		return nil, err
	}
	done, err := c.Acknowledge(p.ctx, string(m.message.ID))
	if err == nil && done.Already {
		err = fmt.Errorf("message %s is already archived", m.message.ID)
	}
	return nil, err
}
