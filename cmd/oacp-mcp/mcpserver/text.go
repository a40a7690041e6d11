package mcpserver

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// oneLine returns a text with every character escaped that could make it more than a part of its line: what
// other agents wrote must not look like something that we say.
func oneLine(text string) string {
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`), `\\`, `\`)
}

// age says how old something is, in the largest unit that fits.
func age(at, now time.Time) string {
	switch d := now.Sub(at); {
	case d < time.Hour:
		return fmt.Sprintf("%dm", max(0, int(d.Minutes())))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// excerpt returns the beginning of a message's text on one line.
func excerpt(body schema.Value) string {
	const most = 160
	text := strings.Join(strings.Fields(body.Text), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}
