package facts

import (
	"slices"
	"strings"
)

// A Mark is what a workspace has noted of a message besides its file: facts, and where the file was put after them. Placed is
// Nowhere if that is not noted.
type Mark struct {
	Facts  Set
	Placed Place
}

// Join returns what two marks say together. The later place, which was noted with more facts, counts.
func (m Mark) Join(other Mark) Mark {
	joined := Mark{m.Facts.Join(other.Facts), m.Placed}
	if other.Placed != Nowhere && (m.Placed == Nowhere || other.Facts.Contains(m.Facts)) {
		joined.Placed = other.Placed
	}
	return joined
}

// Here returns what a workspace knows of a message, from the place of its file, the facts that the machines last agreed on and
// the mark. end is the kind of fact that a file in a later place than the one where it was put adds, because a program moved it
// that notes no facts.
func (m Mark) Here(file Place, end Kind, agreed Set) Set {
	s := agreed.Join(m.Facts)
	if file == Nowhere {
		return s
	}
	s = s.Join(Known)
	placed := m.Placed
	if placed == Nowhere {
		placed = agreed.Place()
	}
	if file > placed && file != s.Place() && end.place() != Nowhere {
		return s.Add(end)
	}
	return s
}

const placedPrefix = "@"

// String returns the mark as words.
func (m Mark) String() string {
	if m.Placed == Nowhere {
		return m.Facts.String()
	}
	return m.Facts.String() + " " + placedPrefix + m.Placed.String()
}

// ParseMark parses what Mark.String returns.
func ParseMark(text string) (m Mark, err error) {
	if before, place, ok := strings.Cut(text, placedPrefix); ok {
		text = before
		for p := Pending; p <= Handled; p++ {
			if p.String() == strings.TrimSpace(place) {
				m.Placed = p
			}
		}
	}
	m.Facts, err = Parse(text)
	return m, err
}

// FormatMarks returns a line for each marked name, sorted.
func FormatMarks(marks map[string]Mark) string {
	lines := make([]string, 0, len(marks))
	for name, m := range marks {
		lines = append(lines, name+" "+m.String()+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// ParseMarks adds the marks in a text of FormatMarks to a map. It passes over lines that hold none: a crash may leave some.
func ParseMarks(text string, into map[string]Mark) {
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if m, err := ParseMark(rest); ok && err == nil {
			into[name] = into[name].Join(m)
		}
	}
}
