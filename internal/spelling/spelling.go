// Package spelling suggests corrections of misspelled names, lists names, and writes counts and lengths
// of time in words.
package spelling

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// Nearest returns the candidate that the text probably means: one that begins with the text, or the one that takes the
// fewest changed characters: at most half of a short text, three of a longer one, a third of a long one. It returns nothing
// if there is none. Case is ignored, and a hyphen or space equals an underscore.
func Nearest[Name ~string](text string, candidates []Name) Name {
	text = folded(text)
	length := utf8.RuneCountInString(text)
	most := min(max(3, length/3), length/2)
	var nearest Name
	for _, candidate := range candidates {
		name := folded(string(candidate))
		changes := 1
		if missing := utf8.RuneCountInString(name) - length; max(missing, -missing) > most && !strings.HasPrefix(name, text) {
			continue // a long text is not compared
		}
		if length < 3 || name == text || !strings.HasPrefix(name, text) {
			changes = levenshtein.ComputeDistance(text, name)
		}
		if changes <= most {
			nearest, most = candidate, changes-1
		}
	}
	return nearest
}

// folded returns the name in lower case, with underscores for hyphens and spaces.
func folded(name string) string {
	return strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(name))
}

// SortByDistance sorts names by how few changes turn them into the text, ignoring case.
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

// PlainYAML replaces the terms of Go and of the YAML decoder in the text of an error by words that users know.
func PlainYAML(text string) string {
	if !strings.Contains(text, "yaml: ") {
		return text
	}
	text = strings.ReplaceAll(strings.TrimPrefix(text, "yaml: "), ": yaml: ", ": ")
	text = strings.ReplaceAll(text, "unmarshal errors:\n  ", "")
	text = regexp.MustCompile("cannot unmarshal (!!\\w+(?: `[^`]*`)?) into \\S+").ReplaceAllString(text, "$1 does not belong here")
	return strings.NewReplacer("!!seq", "a list", "!!map", "a mapping", "!!null", "nothing", "!!str ", "", "!!int ", "", "!!float ", "", "!!bool ", "").Replace(text)
}

// Plural returns a number of things in words: "1 file", "2 files".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Age returns how long ago something was: in seconds below two minutes, in minutes below an hour, in hours below two days, then
// in days.
func Age(from, now time.Time) string {
	age := max(0, now.Sub(from))
	minutes := int64(age / time.Minute)
	switch {
	case minutes < 2:
		return strconv.FormatInt(int64(age/time.Second), 10) + "s"
	case minutes < 60:
		return strconv.FormatInt(minutes, 10) + "m"
	case minutes < 48*60:
		return strconv.FormatInt(minutes/60, 10) + "h"
	}
	return strconv.FormatInt(minutes/(24*60), 10) + "d"
}

// Join lists names, separated by commas.
func Join[Name ~string](names []Name) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, ", ")
}
