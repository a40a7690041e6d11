package track

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/oacp-go/oacp/schema"
)

// searchWords returns the words of a text in lower case, as Query looks for them.
func searchWords(text string) []string { return strings.Fields(strings.ToLower(text)) }

// search reports whether each word occurs in the subject or in the body. The snippet is the part of the body
// with the most words, or empty if none is in the body.
func search(words []string, subject string, body schema.Value) (snippet string, found bool) {
	subject = strings.ToLower(subject)
	text := SearchText(body)
	lower := strings.ToLower(text)
	if len(lower) != len(text) { // a few letters have another length in lower case, so places would differ
		text = lower
	}
	var at []int
	for _, word := range words {
		if i := strings.Index(lower, word); i >= 0 {
			at = append(at, i)
		} else if !strings.Contains(subject, word) {
			return "", false
		}
	}
	return snippetAt(text, at), true
}

// SearchText returns the texts in a body, a line each: what a Query looks for words in.
func SearchText(v schema.Value) string {
	if v.Kind == schema.Text {
		return v.Text
	}
	var texts []string
	for _, item := range v.Items {
		texts = append(texts, SearchText(item))
	}
	for _, p := range v.Pairs {
		texts = append(texts, SearchText(p.Value))
	}
	return strings.Join(texts, "\n")
}

// snippetAt returns a line of the text that shows as many of the places as possible, "" if there are none.
func snippetAt(text string, places []int) string {
	const before, after = 30, 70
	best, most := 0, 0
	slices.Sort(places)
	for i, from := range places {
		reached, _ := slices.BinarySearch(places, from+after)
		if reached-i > most {
			best, most = from, reached-i
		}
	}
	if most == 0 {
		return ""
	}
	from, to := max(0, best-before), min(len(text), best+after)
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	snippet := strings.Join(strings.Fields(text[from:to]), " ")
	if strings.TrimSpace(text[:from]) != "" {
		snippet = "…" + snippet
	}
	if strings.TrimSpace(text[to:]) != "" {
		snippet += "…"
	}
	return snippet
}
