package mcpserver

import (
	"strconv"
	"strings"

	"github.com/oacp-go/oacp/schema"
)

// oneLine escapes every character that could make a text more than a part of its line: what other
// agents wrote must not look like something that the server says.
func oneLine(text string) string {
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`), `\\`, `\`)
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
