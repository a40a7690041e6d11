package command

import (
	"fmt"
	"strconv"
)

// Cost returns an amount of dollars as people read it, "" if there is none.
func Cost(usd float64) string {
	switch {
	case usd >= 0.01:
		return fmt.Sprintf("$%.2f", usd)
	case usd > 0:
		return "<$0.01"
	}
	return ""
}

// Count returns a number of tokens as people read it, such as 40k, and "" for none.
func Count(tokens int64) string {
	switch {
	case tokens >= 10_000_000:
		return strconv.FormatInt(tokens/1_000_000, 10) + "M"
	case tokens >= 10_000:
		return strconv.FormatInt(tokens/1000, 10) + "k"
	case tokens > 0:
		return strconv.FormatInt(tokens, 10)
	}
	return ""
}
