package command

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// A Value is the value of a flag that is more than a text. It is parsed before the command runs.
type Value struct {
	to    any
	text  string
	parse func(text string) error
	// needed makes an empty text an error.
	needed bool
	// words are the values that completion offers.
	words []string
}

// Set takes the value. As with other flags, an empty one is none.
func (v *Value) Set(text string) error {
	if v.text = text; text == "" && !v.needed {
		return nil
	}
	return v.parse(text)
}

func (v *Value) String() string { return v.text }

// Get returns the text, as a flag.Getter.
func (v *Value) Get() any { return v.text }

// Parsed returns the value of a flag that parse reads.
func Parsed[T any](to *T, parse func(text string) (T, error)) *Value {
	return &Value{to: to, parse: func(text string) (err error) {
		*to, err = parse(text)
		return err
	}}
}

// Each is Parsed for a list, whose parts are separated by commas, or given by several flags.
func Each[T any](to *[]T, parse func(text string) (T, error)) *Value {
	return &Value{to: to, parse: func(text string) error {
		for part := range strings.SplitSeq(text, ",") {
			one, err := parse(strings.TrimSpace(part))
			if err != nil {
				return err
			}
			*to = append(*to, one)
		}
		return nil
	}}
}

// OneOf returns the value of a flag that is one of several words, and noun what they are. The variable holds the default.
func OneOf[T ~string](to *T, noun string, words ...T) *Value {
	v := Parsed(to, func(text string) (T, error) {
		if slices.Contains(words, T(text)) {
			return T(text), nil
		}
		return "", failure.Usagef("there is no %s %s", noun, visible.Quote(text)).
			WithHint(spelling.DidYouMean(words, text, "there are "+spelling.Join(words)))
	})
	v.text = string(*to)
	return v.Offering(texts(words)...)
}

// Needed makes an empty text an error.
func (v *Value) Needed() *Value {
	v.needed = true
	return v
}

// Offering sets the words that completion offers.
func (v *Value) Offering(words ...string) *Value {
	v.words = words
	return v
}

// Type returns the value of a flag that is a type of message.
func Type(to *schema.Type) *Value { return Parsed(to, ParseType).Offering(texts(schema.Types())...) }

// Types is Type for a list.
func Types(to *[]schema.Type) *Value {
	return Each(to, ParseType).Offering(texts(schema.Types())...)
}

// Priority returns the value of a flag that is a priority.
func Priority(to *schema.Priority) *Value {
	return Parsed(to, ParsePriority).Offering("P0", "P1", "P2", "P3")
}

func texts[T ~string](words []T) []string {
	found := make([]string, len(words))
	for i, word := range words {
		found[i] = string(word)
	}
	return found
}

// ParseType returns the type of message with a name, in any case.
func ParseType(text string) (schema.Type, error) {
	t := schema.Type(strings.ToLower(text))
	if !t.Known() {
		return "", failure.Usagef("%q is not a message type", text).
			WithHint(spelling.DidYouMean(schema.Types(), text, "the types are "+spelling.Join(schema.Types())))
	}
	return t, nil
}

// ParsePriority returns the priority with a name, in any case.
func ParsePriority(text string) (schema.Priority, error) {
	if p := schema.Priority(strings.ToUpper(text)); p.Known() {
		return p, nil
	}
	return "", failure.Usagef("%q is not a priority: P0, P1, P2 or P3", text).WithHint(validate.SuggestPriority(text))
}

// ParseNumber returns a whole number.
func ParseNumber(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		err = fmt.Errorf("%s is not a whole number, or too large", visible.Quote(text))
	}
	return n, err
}

// Positive returns the value of a flag that is a number from 1, or unlimited for any number.
func Positive(to *int, unlimited ...int) *Value {
	return Parsed(to, func(text string) (int, error) {
		n, err := ParseNumber(text)
		switch {
		case err != nil || n >= 1 || slices.Contains(unlimited, n):
		case len(unlimited) > 0:
			err = fmt.Errorf("want a number from 1, or %d for any number", unlimited[0])
		default:
			err = fmt.Errorf("%d is less than 1", n)
		}
		return n, err
	})
}
