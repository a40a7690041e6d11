package search

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

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
