// Package facts keeps what is known of a message for one recipient as a set of facts that only grows, so two sets join as
// their union, in any order and any number of times.
//
// A restore has a random id. Everything else that happens to a message is a fact with what its author had seen: the
// restores that the author knew. [Set.Place] reads the folder that the file of the message belongs in from the set.
package facts

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
)

// A Place is where the file of a message belongs, or is.
type Place uint8

// The places, in their order. A file in an earlier place than the one where it was put is an old copy, and one in a later
// place was moved by a program that notes no facts.
const (
	Nowhere Place = iota
	// Pending is the inbox, and Removed the folder of removed agents.
	Pending
	Removed
	Dead
	Handled
)

// String returns the name of the place.
func (p Place) String() string {
	return [...]string{"nowhere", "pending", "removed", "dead", "handled"}[p]
}

// A Kind is the kind of a fact.
type Kind string

// The kinds of facts.
const (
	// Restored puts a message back into the inbox.
	Restored Kind = "restore"
	// WasHandled, WasDead, WasRecalled and WasRemoved end a message: it was acknowledged, was given up, was taken back by its
	// sender, or its agent was removed.
	WasHandled  Kind = "handled"
	WasDead     Kind = "dead"
	WasRecalled Kind = "recalled"
	WasRemoved  Kind = "removed"
	// Kept voids recalls: the recipient had been shown the message.
	Kept Kind = "kept"
)

// known is the text of the set of a message of which nothing but its existence is known.
const known = "known"

// place returns where an end puts a message; Nowhere for the kinds that end nothing.
func (k Kind) place() Place {
	switch k {
	case WasHandled:
		return Handled
	case WasDead, WasRecalled:
		return Dead
	case WasRemoved:
		return Removed
	}
	return Nowhere
}

// An ID is the id of a restore: 1 to 32 lower-case letters and digits.
type ID string

// NewID returns a random id.
func NewID() ID { return ID(strings.ToLower(rand.Text())) }

// A Fact is one fact about a message. Seen are the restores that its author knew, sorted; for a restore, Seen is its id.
type Fact struct {
	Kind Kind
	Seen []ID
}

// String returns the text of the fact, such as handled:e1,e2.
func (f Fact) String() string {
	if len(f.Seen) == 0 {
		return string(f.Kind)
	}
	ids := make([]string, len(f.Seen))
	for i, id := range f.Seen {
		ids[i] = string(id)
	}
	return string(f.Kind) + ":" + strings.Join(ids, ",")
}

// parseFact parses what Fact.String returns.
func parseFact(text string) (f Fact, err error) {
	kind, list, hasList := strings.Cut(text, ":")
	f.Kind = Kind(kind)
	for id := range strings.SplitSeq(list, ",") {
		if !hasList {
			break
		}
		if !IsID(id) {
			return f, fmt.Errorf("%.40q is not the id of a restore", id)
		}
		f.Seen = append(f.Seen, ID(id))
	}
	slices.Sort(f.Seen)
	f.Seen = slices.Compact(f.Seen)
	if f.Kind != Kept && f.Kind.place() == Nowhere && !(f.Kind == Restored && len(f.Seen) == 1) {
		return f, fmt.Errorf("%.40q is not a fact", text)
	}
	return f, nil
}

// longestID bounds ids, in bytes.
const longestID = 32

// IsID reports whether a text is an id.
func IsID(id string) bool {
	return id != "" && len(id) <= longestID && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// A Set is what is known of a message for one recipient. The zero value knows nothing, not even that the message exists.
// Sets with the same facts are equal.
type Set struct {
	// text are the sorted texts of the facts, known if there are none, or empty.
	text string
}

// Of returns the set of a message with these facts.
func Of(all ...Fact) Set {
	words := make([]string, len(all))
	for i, f := range all {
		words[i] = f.String()
	}
	return fromWords(words)
}

// Known is the set of a message that is new, and Done and GivenUp those of one that was handled or given up and never
// restored.
var (
	Known   = Of()
	Done    = Of(Fact{Kind: WasHandled})
	GivenUp = Of(Fact{Kind: WasDead})
)

func fromWords(words []string) Set {
	slices.Sort(words)
	words = slices.DeleteFunc(slices.Compact(words), func(word string) bool { return word == known })
	if len(words) == 0 {
		return Set{known}
	}
	return Set{strings.Join(words, " ")}
}

// longest bounds the text of a set, in bytes.
const longest = 64 << 10

// Parse parses what Set.String returns. Facts may stand in any order and between any white space.
func Parse(text string) (Set, error) {
	if len(text) > longest {
		return Set{}, fmt.Errorf("the facts have %d bytes, want at most %d", len(text), longest)
	}
	var all []Fact
	for word := range strings.FieldsSeq(text) {
		if word == known {
			continue
		}
		f, err := parseFact(word)
		if err != nil {
			return Set{}, err
		}
		all = append(all, f)
	}
	return Of(all...), nil
}

// String returns the facts as words, such as "dead handled:e1 restore:e1". It is empty if the message is not known.
func (s Set) String() string { return s.text }

// IsKnown reports whether the message exists.
func (s Set) IsKnown() bool { return s.text != "" }

// Facts returns the facts. That the message exists is not one of them.
func (s Set) Facts() (all []Fact) {
	for word := range strings.FieldsSeq(s.text) {
		if f, err := parseFact(word); err == nil {
			all = append(all, f)
		}
	}
	return all
}

// Join returns the union of two sets.
func (s Set) Join(other Set) Set {
	switch {
	case s == other || !other.IsKnown():
		return s
	case !s.IsKnown():
		return other
	}
	return fromWords(append(strings.Fields(s.text), strings.Fields(other.text)...))
}

// Contains reports whether the set has all facts of another one.
func (s Set) Contains(other Set) bool { return s.Join(other) == s }

// Add returns the set with a fact of its author's, who has seen the restores in the set.
func (s Set) Add(k Kind) Set { return s.Join(Of(Fact{k, s.Restores()})) }

// Restore returns the set with a restore.
func (s Set) Restore(id ID) Set { return s.Join(Of(Fact{Restored, []ID{id}})) }

// Restores returns the ids of the restores in the set, sorted.
func (s Set) Restores() (ids []ID) {
	if !strings.Contains(s.text, string(Restored)+":") {
		return nil
	}
	for _, f := range s.Facts() {
		if f.Kind == Restored {
			ids = append(ids, f.Seen[0])
		}
	}
	slices.Sort(ids)
	return ids
}

// Lasts reports whether a workspace has to know the facts later: the verb that ends a restored message, and a view of one whose
// recall was void.
func (s Set) Lasts() bool {
	return strings.Contains(s.text, string(Restored)+":") || strings.Contains(s.text, string(Kept))
}

// Has reports whether the set has a fact of the kind.
func (s Set) Has(k Kind) bool {
	return slices.ContainsFunc(s.Facts(), func(f Fact) bool { return f.Kind == k })
}

// Place returns the place of the file of the message. A fact that the message was kept voids the recalls that have seen no
// more than it did. If a restore is left that no end has seen, or there is no end, the message is pending. Otherwise an end
// counts unless another one has seen all that it has, and more. Of those that count, handled wins over dead and recalled, and
// these win over removed.
func (s Set) Place() Place {
	switch s {
	case Set{}:
		return Nowhere
	case Known:
		return Pending
	case Done: // most messages
		return Handled
	case GivenUp:
		return Dead
	}
	all := s.Facts()
	ends := slices.DeleteFunc(slices.Clone(all), func(end Fact) bool {
		return end.Kind.place() == Nowhere || end.Kind == WasRecalled && slices.ContainsFunc(all, func(f Fact) bool {
			return f.Kind == Kept && hasSeen(f.Seen, end.Seen)
		})
	})
	for _, f := range all {
		if f.Kind == Restored && !slices.ContainsFunc(ends, func(end Fact) bool { return slices.Contains(end.Seen, f.Seen[0]) }) {
			return Pending
		}
	}
	place := Pending
	for _, end := range ends {
		if !slices.ContainsFunc(ends, func(other Fact) bool { return len(other.Seen) > len(end.Seen) && hasSeen(other.Seen, end.Seen) }) {
			place = max(place, end.Kind.place())
		}
	}
	return place
}

// hasSeen reports whether the first list has all ids of the second one.
func hasSeen(ids, of []ID) bool {
	return !slices.ContainsFunc(of, func(id ID) bool { return !slices.Contains(ids, id) })
}
