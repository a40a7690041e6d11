package search

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// fold returns a text as it is compared: in lower case, with single spaces for white space. As words have no white
// space, a word occurs in it exactly if it occurs in the text in lower case, as oacp list --text has it.
func fold(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(strings.ToLower(text)), " "), "\x00", "\ufffd")
}

// content is what a query is compared with: a message, what can be read of an invalid one, or a record.
type content struct {
	Hit
	body string
	// at is the time of creation or, if that is unknown, of the file.
	at time.Time
	// isRecord reports that it has neither states nor a conversation.
	isRecord bool
}

// contentOf returns the content of a file. The message is nil for a file in which no field can be read; then its text
// counts as a body.
func contentOf(m *schema.Message, name string, modified time.Time, raw func() []byte) content {
	if m == nil {
		m = &schema.Message{Body: schema.TextValue(string(raw()))}
	}
	c := content{body: track.BodyText(m.Body), at: m.CreatedAt.Time()}
	c.Hit = Hit{ID: m.ID, From: string(m.From), Type: string(m.Type), Priority: string(m.Priority), Subject: m.Subject,
		CreatedAt: c.at, Conversation: conversation.Of(m), Name: name}
	for _, to := range m.To {
		c.To = append(c.To, string(to))
	}
	if c.at.IsZero() {
		c.at = modified
		if parsed, err := schema.ParseFileName(name); err == nil {
			c.at = parsed.At
		}
	}
	return c
}

// texts returns the folded subject and body. No term has a line feed, so none reaches from one into the other.
func (c *content) texts() string { return fold(c.Subject) + "\n" + fold(c.body) }

// fits reports whether the content fits the query, whose terms are folded.
func (q *Query) fits(c *content) bool {
	switch {
	case q.From != "" && !strings.EqualFold(q.From, c.From),
		q.To != "" && !slices.ContainsFunc(c.To, func(to string) bool { return strings.EqualFold(q.To, to) }),
		q.Type != "" && !strings.EqualFold(q.Type, c.Type),
		q.In != "" && (c.isRecord || q.In != c.Conversation),
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

var stateOf = map[mailbox.Box]State{mailbox.DeadLetters: Dead, mailbox.Inbox: Pending, mailbox.Archive: Handled, mailbox.Outbox: Sent}

// statesOf returns the states of a message with files in these boxes, each once, in the order of States.
func statesOf(boxes []mailbox.Box) []State {
	return slices.DeleteFunc(States(), func(s State) bool {
		return !slices.ContainsFunc(boxes, func(b mailbox.Box) bool { return stateOf[b] == s })
	})
}

// place is where a term is in a text.
type place struct{ from, to int }

// snippet returns the part of a body with the most terms in it, marked.
func snippet(body string, terms []string) []Fragment {
	const before, length = 40, 200
	text := strings.Join(strings.Fields(body), " ")
	lower := strings.ToLower(text)
	if len(lower) != len(text) { // a few letters change their length, and with it what follows them its place
		text = lower
	}
	first, all := places(lower, terms)
	best, most := 0, 0
	for i, p := range first {
		reached, _ := slices.BinarySearchFunc(first, p.from+length-before, func(p place, at int) int { return cmp.Compare(p.to, at+1) })
		if reached-i > most {
			best, most = p.from, reached-i
		}
	}
	from := max(0, best-before)
	to := min(len(text), from+length)
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	var parts []Fragment
	add := func(part string, hit bool) {
		if part != "" {
			parts = append(parts, Fragment{part, hit})
		}
	}
	if from > 0 {
		add("…", false)
	}
	at := from
	for _, p := range all {
		if start, end := max(p.from, at), min(p.to, to); start < end {
			add(text[at:start], false)
			add(text[start:end], true)
			at = end
		}
	}
	add(text[at:to], false)
	if to < len(text) {
		add("…", false)
	}
	return parts
}

// places returns the first place of each term in a text, and the places of all, both sorted.
func places(text string, terms []string) (first, all []place) {
	const most = 1000 // of each term; a snippet shows the beginning of these
	for _, term := range terms {
		for at, n := 0, 0; n < most; n++ {
			i := strings.Index(text[at:], term)
			if i < 0 {
				break
			}
			p := place{at + i, at + i + len(term)}
			if n == 0 {
				first = append(first, p)
			}
			all, at = append(all, p), p.to
		}
	}
	byPlace := func(a, b place) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) }
	slices.SortFunc(first, byPlace)
	slices.SortFunc(all, byPlace)
	return first, all
}
