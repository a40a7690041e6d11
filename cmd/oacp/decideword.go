package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/schema"
)

// A word is what a person may type at the prompt of decide, and what it does.
type word struct {
	// key is the number of an answer that needs no text, or the letter of what all messages have.
	key string
	// says is the name of a letter in the prompt. Names, which may be shortened, stand for the key.
	says  string
	names []string
	does  deed
	// option is what the word answers, if it does.
	option client.Option
}

// A deed is what a word does.
type deed int

const (
	answers deed = iota
	// edits answers with a text of the person's editor.
	edits
	skips
	quits
)

type words []word

// wordsFor returns all words that the prompt for a message takes.
func wordsFor(m *schema.Message) (all words) {
	var letters words
	number := 0
	for _, o := range client.OptionsOf(m) {
		w := word{option: o, names: []string{o.Label, o.Key}}
		switch {
		case o.Choice != "" || !o.NeedsText && o.Type != "":
			number++
			w.key = strconv.Itoa(number)
			all = append(all, w)
			continue
		case o.Default:
			w.key, w.says = "t", "text"
			letters = append(letters, w, word{key: "e", says: "editor", does: edits, option: o})
			continue
		case o.Declines:
			w.key, w.says = "d", "decline"
		case o.Type == schema.Question:
			w.key, w.says = "b", "ask back"
		default:
			w.key, w.says, w.names = "a", "acknowledge without an answer", nil
		}
		letters = append(letters, w)
	}
	all = append(all, letters...)
	return append(all, word{key: "s", says: "skip", does: skips}, word{key: "q", says: "quit", does: quits})
}

func (w word) isNumbered() bool { return w.says == "" }

// begins reports whether a name of the word begins with the text.
func (w word) begins(text string) bool {
	return slices.ContainsFunc(append(w.names, w.says), func(name string) bool {
		return strings.HasPrefix(strings.ToLower(name), strings.ToLower(text))
	})
}

// textPrompt asks for the text of an answer.
func (w word) textPrompt() string {
	switch {
	case w.option.Declines:
		return "reason> "
	case w.option.Type == schema.Question:
		return "question> "
	}
	return "text> "
}

// hides returns the answer with a number that a person may mean by a letter, so that the letter does nothing: one of that
// name and, because nothing undoes an acknowledgement, one whose name begins with it.
func (all words) hides(w word) (other word, hidden bool) {
	closes := w.does == answers && w.option.Type == ""
	i := slices.IndexFunc(all, func(n word) bool {
		return n.isNumbered() && !w.isNumbered() && (strings.EqualFold(n.option.Label, w.key) || closes && n.begins(w.key))
	})
	if i < 0 {
		return word{}, false
	}
	return all[i], true
}

// prompt names the words. A key that does nothing is left out.
func (all words) prompt() string {
	var names []string
	if all[0].isNumbered() {
		names = append(names, "number or name")
	}
	for _, w := range all {
		if _, hidden := all.hides(w); hidden {
			names = append(names, w.says)
		} else if !w.isNumbered() {
			names = append(names, w.key+" "+w.says)
		}
	}
	return strings.Join(names, ", ") + "> "
}

// find returns the word that a person typed: the name of a choice, a key, or a name or the beginning of it that no other word has.
func (all words) find(text string) (word, error) {
	choice := func(w word) bool { return w.option.Choice != "" && strings.EqualFold(w.option.Choice, text) }
	if i := slices.IndexFunc(all, choice); i >= 0 {
		return all[i], nil
	}
	if i := slices.IndexFunc(all, func(w word) bool { return strings.EqualFold(w.key, text) }); i >= 0 {
		if other, hidden := all.hides(all[i]); hidden {
			return word{}, fmt.Errorf("%q may be %q or %q: write more of it", text, other.option.Label, all[i].says)
		}
		return all[i], nil
	}
	exact := func(name string) bool { return strings.EqualFold(name, text) }
	if i := slices.IndexFunc(all, func(w word) bool { return slices.ContainsFunc(w.names, exact) }); i >= 0 {
		return all[i], nil
	}
	named := slices.DeleteFunc(slices.Clone(all), func(w word) bool { return !w.begins(text) })
	if len(named) == 1 {
		return named[0], nil
	}
	return word{}, errors.New("choose: " + strings.TrimSuffix(all.prompt(), "> "))
}
