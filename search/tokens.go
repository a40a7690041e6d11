package search

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oacp-go/oacp/mailbox/conversation"
)

// A second has the ids of secondIDs docs. If it has more docs, they take ids of seconds before, at most of spill.
const (
	secondIDs = 64
	spill     = 10 * time.Minute
)

// idOf returns the first id of a second. Newer docs have lower ids, so the search engine returns the newest first.
func idOf(at time.Time) int64 {
	const most = 1 << 40 // seconds from 1970, far beyond what messages have
	return (most - max(-most, min(at.Unix(), most))) * secondIDs
}

// freeID returns an id for a new doc.
func (s *session) freeID(at time.Time) (int64, error) {
	first := idOf(at)
	for id := max(first, s.next[first]); ; id++ {
		var taken bool
		if _, err := s.row([]any{&taken}, "SELECT EXISTS(SELECT 1 FROM doc WHERE id=?)", id); err != nil || !taken {
			s.next[first] = id + 1
			return id, err
		}
	}
}

// token returns a text as one token: the search engine ends one at ASCII characters that are not letters or digits.
func token(text string) string {
	return strings.Map(func(c rune) rune {
		if c < utf8.RuneSelf && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return 0xe000 + c
		}
		return c
	}, text)
}

func tag(key, value string) string { return token(strings.ToLower(key + ":" + value)) }

// trigrams returns the trigrams of a text as tokens, in order.
func trigrams(text string) []string {
	text = token(text)
	var grams []string
	a, b := -1, -1 // where the two characters before begin
	for i, c := range text {
		if a >= 0 {
			grams = append(grams, text[a:i+utf8.RuneLen(c)])
		}
		a, b = b, i
	}
	return grams
}

func everyThird(grams []string, start int) (third []string) {
	for i := start; i < len(grams); i += 3 {
		third = append(third, grams[i])
	}
	return third
}

// tokens returns the tokens of a content, with a space behind each: every third trigram of its text, from the first, the
// second and the third, so that any part of the text is a phrase of every third of its trigrams; and tags. Short words
// are at the beginning of trigrams, also at the end of the text.
func (c *content) tokens() string {
	grams := trigrams(c.texts() + "\n\n")
	var b strings.Builder
	add := func(token string) { b.WriteString(token); b.WriteByte(' ') }
	for start := range 3 {
		for _, gram := range everyThird(grams, start) {
			add(gram)
		}
	}
	add(tag("from", string(c.Message.From)))
	for _, to := range c.Message.To {
		add(tag("to", string(to)))
	}
	add(tag("type", string(c.Message.Type)))
	if c.Run == nil {
		add(tag("in", string(conversation.Of(c.Message))))
	}
	return b.String()
}

// match returns the condition of the search engine for a query, empty if there is none. What it excludes does not fit.
func (s *session) match(q *Query) (string, error) {
	var all []string
	add := func(tokens ...string) { all = append(all, `"`+strings.Join(tokens, " ")+`"`) }
	for key, value := range map[string]string{"from": q.From, "to": q.To, "type": q.Type, "is": string(q.Is), "in": string(q.In)} {
		if value != "" {
			add(tag(key, value))
		}
	}
	terms := slices.Clone(q.Terms)
	slices.SortStableFunc(terms, func(a, b string) int { return len(b) - len(a) })
	for _, term := range terms[:min(len(terms), maxTerms)] {
		grams := trigrams(term)
		if len(grams) == 0 {
			starting, err := s.starting(token(term))
			if err != nil {
				return "", err
			}
			if starting != "" {
				all = append(all, starting)
			}
			continue
		}
		const long = 10 // of it, every third trigram and the last one are enough
		for start := range 3 {
			if third := everyThird(grams, start); len(third) > 0 && (start == 0 || len(grams) < long) {
				add(third...)
			}
		}
		if len(grams) >= long {
			add(grams[len(grams)-1])
		}
	}
	return strings.Join(all, " AND "), nil
}

// starting returns the condition of a word of one or two characters: one of the trigrams that start with it. It is empty
// if there are many, as for any letter of ASCII: then the word is so common that the newest matches are soon found without.
func (s *session) starting(word string) (string, error) {
	const most = 64
	if len(word) == 1 {
		return "", nil
	}
	var gram string
	grams := []string{`"` + word + `"`} // which is no trigram, so that there is one
	for err := range s.rows([]any{&gram}, "SELECT term FROM vocabulary WHERE term>=? AND term<? LIMIT ?", word, word+string(utf8.MaxRune), most) {
		if err != nil {
			return "", err
		}
		if utf8.RuneCountInString(gram) == 3 { // not a tag
			grams = append(grams, `"`+gram+`"`)
		}
	}
	if len(grams) > most {
		return "", nil
	}
	return "(" + strings.Join(grams, " OR ") + ")", nil
}
