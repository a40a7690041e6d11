package mcpserver

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oacp-go/oacp/internal/jsonl"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live"
)

// Limits on the parts of an answer, in tokens as live.Tokens estimates them.
const (
	// answerTokens keeps every answer below 10,000 bytes, because Codex cuts the middle out of longer ones.
	answerTokens = 2500
	// frameTokens are reserved for everything in an answer besides its entries.
	frameTokens = 400
	// Limits on fields of entries. Valid messages exceed them only with long texts that are not ASCII.
	subjectTokens = 120
	reasonTokens  = 120
	excerptTokens = 40
	idTokens      = 60
	nameTokens    = 20
)

// costAsJSON estimates the tokens of a value as JSON.
func costAsJSON(value any) int {
	text, err := encode(value)
	if err != nil {
		return math.MaxInt
	}
	return live.Tokens(text)
}

// encode returns a value as JSON without escapes for HTML, safe for a model.
func encode(value any) (string, error) {
	line, err := jsonl.Encode(value)
	if err != nil {
		return "", err
	}
	return visible.ModelJSON(strings.TrimSuffix(string(line), "\n"))
}

// fitting returns how many bytes of a text cost at most so many tokens, in JSON or on a line.
func fitting(text string, tokens int) int {
	left := tokens * 4 // live.Tokens also counts quarters of a token
	for i, r := range text {
		switch {
		case r == '"' || r == '\\' || r == '\n' || r == '\t' || r == '\r':
			left -= 2
		case !unicode.IsPrint(r):
			left -= len(`\\U00000000`)
		case r < utf8.RuneSelf:
			left--
		default:
			left -= 2 * utf8.RuneLen(r)
		}
		if left < 0 {
			return i
		}
	}
	return len(text)
}

// cut shortens a text that costs more than the tokens.
func cut[Text ~string](text Text, tokens int) Text {
	const mark = "…"
	if fitting(string(text), tokens) == len(text) {
		return text
	}
	return text[:fitting(string(text), tokens-2)] + mark
}

// cutAll cuts each of the texts, and keeps at most so many of them.
func cutAll[Text ~string](texts []Text, most, tokens int) []Text {
	short := make([]Text, 0, min(most, len(texts)))
	for _, text := range texts[:min(most, len(texts))] {
		short = append(short, cut(text, tokens))
	}
	return short
}

// A page is the room that is left for entries in an answer.
type page struct {
	room int // entries
	left int // tokens
}

func newPage(most limit) *page {
	return &page{room: int(most), left: answerTokens - frameTokens}
}

// addTo appends an entry to a list of an answer if it fits on the page.
func addTo[T any](list *[]T, entry T, p *page) (fits bool) {
	needs := costAsJSON(entry) + 1 // the comma
	if p.room == 0 || needs > p.left {
		return false
	}
	p.room--
	p.left -= needs
	*list = append(*list, entry)
	return true
}
