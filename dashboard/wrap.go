package dashboard

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/oacp-go/oacp/internal/visible"
)

// wrap escapes a text and breaks its lines between words, so that none is
// wider than the width, in columns of a terminal. A word that is wider is
// broken where it must be.
func wrap(content string, width int, style style) []line {
	var lines []line
	content = strings.ReplaceAll(strings.TrimRight(content, "\n"), "\t", "    ")
	for part := range strings.SplitSeq(visible.Lines(content), "\n") {
		for {
			end := fit(part, width)
			if end == len(part) {
				lines = append(lines, line{part, style})
				break
			}
			if part[end] != ' ' {
				blank := strings.LastIndexByte(part[:end], ' ')
				if blank > 0 && strings.TrimLeft(part[:blank], " ") != "" {
					end = blank
				}
			}
			lines = append(lines, line{strings.TrimRight(part[:end], " "), style})
			if part = strings.TrimLeft(part[end:], " "); part == "" {
				break
			}
		}
	}
	return lines
}

// fit returns how many bytes of a line the width has room for, those of one
// character at the least.
func fit(line string, width int) int {
	used := 0
	for i, r := range line {
		if used += text.RuneWidth(r); used > width && i > 0 {
			return i
		}
	}
	return len(line)
}
