package provider

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
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
}

// A letter is a message at one of its recipients.
type letter struct {
	*schema.Message
	agent schema.AgentName
	// pending is its file in the inbox. Without one, the letter is archived.
	pending *mailbox.Entry
}

// Gas City names an agent of a rig RIG/NAME. A slash becomes what it is in the names of Gas City's sessions.
const slash = "--"

func agentOf(address string) schema.AgentName {
	return schema.AgentName(strings.ReplaceAll(address, "/", slash))
}

func addressOf(agent schema.AgentName) string { return strings.ReplaceAll(string(agent), slash, "/") }

func separate(id string) (message string, agent schema.AgentName) {
	message, address, _ := strings.Cut(id, "@")
	return message, agentOf(address)
}

// mail returns a letter as Gas City knows it. It is read if it is not new to its recipient: see track.News.
func (p *provider) mail(l letter) mail {
	m := mail{
		ID: string(l.ID), From: addressOf(l.From), To: addressOf(l.agent), Subject: l.Subject, Body: l.Body.Text, CreatedAt: l.CreatedAt,
		ThreadID: conversation.Of(l.Message), ReplyTo: l.ParentID, Priority: max(0, slices.Index(schema.Priorities(), l.Priority)),
	}
	if l.Body.Kind == schema.Mapping {
		m.Body = string(schema.EncodeMapping(l.Body))
	}
	for _, other := range l.Message.To {
		if other != l.agent {
			m.CC = append(m.CC, addressOf(other))
		}
	}
	if len(m.CC) > 0 {
		m.ID += "@" + string(l.agent)
	}
	news := p.news[l.agent]
	if news == nil {
		news = track.NewsOf(p.w, l.agent)
		p.news[l.agent] = news
	}
	m.Read = l.pending == nil || !news.Has(l.Message)
	return m
}

// mails returns letters as Gas City knows them, or nil if there are none.
func (p *provider) mails(letters []letter) any {
	if len(letters) == 0 {
		return nil
	}
	mails := make([]mail, len(letters))
	for i, l := range letters {
		mails[i] = p.mail(l)
	}
	return mails
}

// lettersOf returns the letters of which files were found, in the order of their messages.
func lettersOf(found []mailbox.Entry) (letters []letter) {
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
				at = len(letters)
				indexes[key] = at
				letters = append(letters, letter{Message: e.Message, agent: agent})
			}
			if e.Agent == agent && e.Box == mailbox.Inbox {
				letters[at].pending = e
			}
		}
	}
	return letters
}

// find returns the letters with the id: all those of a message, or that at the recipient that the id names.
func (p *provider) find(id string) ([]letter, error) {
	message, agent := separate(id)
	found, err := p.w.Find(p.ctx, message)
	if _, err = mailbox.SplitUnreadable(err); err != nil {
		return nil, err
	}
	letters := slices.DeleteFunc(lettersOf(found), func(l letter) bool { return agent != "" && l.agent != agent })
	switch {
	case len(letters) > 0:
		return letters, nil
	case found[0].Err != nil:
		return nil, found[0].Err
	}
	return nil, &conversation.NotRecipientError{Agent: agent, Message: found[0].Message}
}

// handled returns the only letter with the id, which its recipient reads or archives.
func (p *provider) handled(id string) (letter, error) {
	letters, err := p.find(id)
	if err != nil {
		return letter{}, err
	}
	l := letters[0]
	if len(letters) > 1 {
		err := fmt.Errorf("message %s was sent to %s", l.ID, spelling.Join(l.Message.To))
		return letter{}, failure.WithHint(err, "name one: "+string(l.ID)+"@"+string(l.agent))
	}
	_, err = command.ActingAgent(p.w, string(l.agent), p.Streams)
	return l, err
}

// inbox returns the letters in the inbox of a recipient or, without one, in all.
func (p *provider) inbox(recipient string) (letters []letter, err error) {
	agents := []schema.AgentName{agentOf(recipient)}
	if recipient == "" {
		if agents, err = p.w.Agents(); err != nil {
			return nil, err
		}
	}
	for _, agent := range agents {
		if !p.w.Knows(agent) {
			if _, err := schema.ParseAgentName(string(agent)); err != nil {
				return nil, err
			}
			continue // it gets a mailbox with its first mail
		}
		entries, err := p.w.List(p.ctx, agent, mailbox.Inbox)
		if err != nil {
			return nil, err
		}
		for i := range entries {
			if e := &entries[i]; e.Err == nil {
				letters = append(letters, letter{e.Message, agent, e})
			}
		}
	}
	return letters, nil
}

func (p *provider) all(recipient string) (any, error) {
	letters, err := p.inbox(recipient)
	return p.mails(letters), err
}

func (p *provider) unread(recipient string) (any, error) {
	letters, err := p.inbox(recipient)
	return p.mails(slices.DeleteFunc(letters, func(l letter) bool { return p.mail(l).Read })), err
}

func (p *provider) count(recipient string) (any, error) {
	letters, err := p.inbox(recipient)
	if err != nil {
		return nil, err
	}
	var c struct {
		Total  int `json:"total"`
		Unread int `json:"unread"`
	}
	c.Total = len(letters)
	for _, l := range letters {
		if !p.mail(l).Read {
			c.Unread++
		}
	}
	return c, nil
}

func (p *provider) get(id string) (any, error) {
	letters, err := p.find(id)
	if err != nil {
		return nil, err
	}
	return p.mail(letters[0]), nil
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
	if _, err = mailbox.SplitUnreadable(err); err != nil {
		return nil, err
	}
	letters := lettersOf(found)
	conversation.Sort(letters, func(l letter) *schema.Message { return l.Message })
	return p.mails(letters), nil
}

// readLetter records that the recipient of the letter has noticed it, and returns it.
func (p *provider) readLetter(id string) (letter, error) {
	l, err := p.handled(id)
	if err != nil || l.pending == nil {
		return l, err
	}
	_, err = track.Show(p.ctx, p.w, l.agent, track.Noticed{}, []mailbox.Entry{*l.pending}, 1, true, func([]mailbox.Entry) error { return nil })
	return l, err
}

func (p *provider) read(id string) (any, error) {
	l, err := p.readLetter(id)
	if err != nil {
		return nil, err
	}
	m := p.mail(l)
	m.Read = true
	return m, nil
}

func (p *provider) markRead(id string) (any, error) {
	_, err := p.readLetter(id)
	return nil, err
}

func (p *provider) markUnread(id string) (any, error) {
	l, err := p.handled(id)
	if err != nil {
		return nil, err
	}
	if l.pending == nil {
		err := fmt.Errorf("message %s is archived", l.ID)
		return nil, failure.WithHint(err, fmt.Sprintf("oacp restore %s --agent %s returns it", l.ID, l.agent))
	}
	return nil, track.NoteUnread(p.w, l.agent, track.KeyOf(l.Message))
}

// archive acknowledges the letter. Gas City recognizes the words of the error.
func (p *provider) archive(id string) (any, error) {
	l, err := p.handled(id)
	if err != nil {
		return nil, err
	}
	c, err := conversation.FindCopy(p.ctx, p.w, string(l.ID), l.agent)
	gone := c.Gone
	if err == nil {
		err = c.Acknowledge(p.w)
	}
	if err == nil && (gone || c.Gone) {
		err = fmt.Errorf("message %s is already archived", l.ID)
	}
	return nil, err
}
