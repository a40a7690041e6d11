package search

import (
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// fold returns a text as it is compared: in lower case, with single spaces for white space. As words have no white
// space, a word occurs in it exactly if it occurs in the text in lower case, as oacp list --text has it.
func fold(text string) string { return strings.Join(strings.Fields(strings.ToLower(text)), " ") }

// content is what a query is compared with: a message, what can be read of an invalid one, or a record.
type content struct {
	Hit
	body string
	// at is the time of creation or, if that is unknown, of the file.
	at time.Time
}

// contentOf returns the content of a file. If no field can be read, the bytes of the file count as a body.
func contentOf(e mailbox.Entry, data []byte) *content {
	if e.Message == nil {
		e.Message = &schema.Message{Body: schema.TextValue(string(data))}
	}
	c := &content{Hit: Hit{Entry: e}, body: track.SearchText(e.Message.Body), at: e.Message.CreatedAt.Time()}
	if c.at.IsZero() {
		c.at = e.Modified
		if parsed, err := schema.ParseFileName(e.Name); err == nil {
			c.at = parsed.At
		}
	}
	return c
}

// recordContent returns the content of a record.
func recordContent(run *bridge.Run, e bridge.Entry) *content {
	m := &schema.Message{From: schema.AgentName(e.From), Type: schema.Type(e.Type), CreatedAt: schema.Timestamp(e.Timestamp), Body: schema.TextValue(e.Content)}
	if e.To != "" {
		m.To = []schema.AgentName{schema.AgentName(e.To)}
	}
	c := &content{Hit: Hit{Entry: mailbox.Entry{Message: m}, Run: run, Line: e.Line}, body: e.Content}
	c.at, _ = time.Parse(time.RFC3339, e.Timestamp) // any text; zero sorts last
	return c
}

// texts returns the folded subject, choices and body. No term has a line feed, so none reaches from one into the other.
func (c *content) texts() string {
	text := fold(c.Message.Subject)
	for _, choice := range c.Message.Marks.Choices {
		text += "\n" + fold(choice)
	}
	return text + "\n" + fold(c.body)
}

// fits reports whether the content fits the query, whose terms are folded.
func (q *Query) fits(c *content) bool {
	m := c.Message
	switch {
	case q.From != "" && !strings.EqualFold(q.From, string(m.From)),
		q.To != "" && !slices.ContainsFunc(m.To, func(to schema.AgentName) bool { return strings.EqualFold(q.To, string(to)) }),
		q.Type != "" && !strings.EqualFold(q.Type, string(m.Type)),
		q.In != "" && (c.Run != nil || q.In != conversation.Of(m)),
		q.Is != "" && !slices.Contains(c.States, q.Is),
		!q.After.IsZero() && c.at.Before(q.After),
		!q.Before.IsZero() && !c.at.Before(q.Before):
		return false
	}
	text := c.texts()
	return !slices.ContainsFunc(q.Terms, func(term string) bool { return !strings.Contains(text, term) })
}

// folded returns the query with its terms as they are compared.
func (q Query) folded() Query {
	var terms []string
	for _, term := range q.Terms {
		if term = fold(term); term != "" && !slices.Contains(terms, term) {
			terms = append(terms, term)
		}
	}
	q.Terms = terms
	return q
}
