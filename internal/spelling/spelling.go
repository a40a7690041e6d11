// Package spelling finds the name that a misspelled one was meant to be.
package spelling

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// beginning is how many characters are enough to know a name by its beginning.
const beginning = 3

// Nearest returns the candidate that the text is a likely misspelling of: the
// one that takes the fewest changes of a character, the first of them where
// several do, and nothing where all take too many. Half of the characters of a
// short text may be wrong, three of a longer one, and a third of a long one; a
// swap of two is two changes. The beginning of a candidate is one change away
// from it.
//
// Capitals are small letters, and a hyphen or space is an underscore. A text
// that is far longer than the candidates costs no more than to read it.
func Nearest[Name ~string](text string, candidates []Name) Name {
	text = folded(text)
	length := utf8.RuneCountInString(text)
	most := min(max(3, length/3), length/2)
	var nearest Name
	for _, candidate := range candidates {
		if changes, ok := distance(text, folded(string(candidate)), length, most); ok {
			nearest, most = candidate, changes-1
		}
	}
	return nearest
}

// folded is a name without what people take for the same.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' {
			return '_'
		}
		return unicode.ToLower(r)
	}, name)
}

// distance returns how many changes make the candidate of a text of the
// length, and whether these are few enough.
func distance(text, candidate string, length, most int) (changes int, ok bool) {
	missing := utf8.RuneCountInString(candidate) - length
	switch {
	case missing > 0 && length >= beginning && strings.HasPrefix(candidate, text):
		changes = 1
	case max(missing, -missing) > most:
		return 0, false
	default:
		changes = levenshtein.ComputeDistance(text, candidate)
	}
	return changes, changes <= most
}

// SortByDistance sorts names by how few changes make the text of them, whatever their case.
func SortByDistance[Name ~string](names []Name, text string) {
	distance := func(n Name) int {
		return levenshtein.ComputeDistance(strings.ToLower(string(n)), strings.ToLower(text))
	}
	slices.SortStableFunc(names, func(a, b Name) int { return distance(a) - distance(b) })
}

// DidYouMean returns a hint: the candidate nearest to the text, or else the other hint.
func DidYouMean[Name ~string](known []Name, text, otherwise string) string {
	if near := Nearest(text, known); near != "" {
		return "did you mean " + string(near) + "?"
	}
	return otherwise
}
