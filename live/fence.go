package live

import (
	"strings"
	"unicode"

	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
)

// addBody adds the choices of a message and its body, or its beginning. It reports whether there may be room for more.
func (d *digest) addBody(m *schema.Message) bool {
	if choices := m.Marks.Choices; choices != nil {
		line := visible.ModelLine(strings.Join(choices, ", "))
		if !d.add("Choices of "+d.id(m.ID)+" (oacp reply "+d.id(m.ID)+" --ack --choose CHOICE):\n| "+line+"\n", 0) {
			return false
		}
	}
	label := visible.Provenance(d.id(m.ID), word(string(m.From), maxName)) + "\n"
	room := d.left - cost(label)
	lines, all := fenced(m.BodyText(), room)
	if !all {
		rest := "… oacp read " + d.id(m.ID) + " shows the rest\n"
		if room -= cost(rest); room < leastBody {
			return false
		}
		lines, _ = fenced(m.BodyText(), room)
		lines += rest
	}
	if lines != "" {
		d.add(label+lines, 0)
	}
	return all
}

// The least of a body, and of a line, that is worth its cost.
const (
	leastBody = 120
	leastLine = 40
)

// fenced returns the lines of a body in a fence, or as many as the cost allows. It reports whether these are all. It joins
// several empty lines into one.
func fenced(body string, most int) (lines string, all bool) {
	var out strings.Builder
	last := "|"
	for line := range strings.Lines(visible.Fence(strings.ReplaceAll(strings.TrimRightFunc(body, unicode.IsSpace), "\t", "  "))) {
		line = strings.TrimRightFunc(line, unicode.IsSpace)
		if line == "|" && last == "|" {
			continue
		}
		last = line
		room := most - cost("\n")
		if all = cost(line) <= room; all || room >= leastLine {
			line = shortened(line, room) + "\n"
			out.WriteString(line)
			most -= cost(line)
		}
		if !all {
			return out.String(), false
		}
	}
	return out.String(), true
}

// word returns the text on one line, shortened to the cost.
func word(text string, most int) string {
	return shortened(visible.ModelLine(strings.Join(strings.Fields(text), " ")), most)
}

// shortened returns the text, or as much of its beginning as the cost allows and an ellipsis.
func shortened(text string, most int) string {
	if cost(text) <= most {
		return text
	}
	const ellipsis = "…"
	most -= cost(ellipsis)
	for i, r := range text {
		if most -= cost(string(r)); most < 0 {
			return text[:i] + ellipsis
		}
	}
	return text
}
