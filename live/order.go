package live

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

// inOrder returns the indices of the mail in the order of the digest. It sorts only as far as the
// caller reads.
func inOrder(mail []Mail) iter.Seq[int] {
	type key struct {
		index int
		age   schema.Age
	}
	classes := make(map[int][]key)
	for i := range mail {
		k := key{index: i}
		if m := mail[i].Message; m != nil {
			k.age = m.Age()
		}
		class := mail[i].class()
		classes[class] = append(classes[class], k)
	}
	return func(yield func(int) bool) {
		for _, class := range slices.Sorted(maps.Keys(classes)) {
			keys := classes[class]
			slices.SortFunc(keys, func(a, b key) int {
				if c := a.age.Compare(&b.age); c != 0 {
					return c
				}
				return cmp.Or(strings.Compare(mail[a.index].File, mail[b.index].File), cmp.Compare(a.index, b.index))
			})
			for _, k := range keys {
				if !yield(k.index) {
					return
				}
			}
		}
	}
}

// class orders mail for a digest, as schema.Message.Class orders messages for processing: first
// priority P0, then what is new, then what is standing. Files that are not valid messages come last
// of each.
func (m *Mail) class() int {
	const invalid, fresh, standing = 99, 100, 200 // the class of a message is less than invalid
	class := invalid
	if m.isMessage() {
		class = m.Message.Class()
	}
	switch {
	case m.isMessage() && m.Message.Priority == schema.P0:
		return class
	case m.Standing:
		return standing + class
	}
	return fresh + class
}

// withoutMail returns the requests that are not among the mail.
func withoutMail(owed []turn.OpenRequest, mail []Mail) []turn.OpenRequest {
	if len(owed) == 0 {
		return nil
	}
	named := make(map[schema.ID]bool, len(mail))
	for i := range mail {
		if mail[i].isMessage() {
			named[mail[i].Message.ID] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(owed), func(r turn.OpenRequest) bool { return named[r.ID] })
}

// id returns the short id of a message, or the whole id if the short one names another one too.
func (d *digest) id(id schema.ID) string {
	short := id.Short()
	if i, _ := slices.BinarySearch(d.shortIDs, short); i+1 < len(d.shortIDs) && strings.HasPrefix(d.shortIDs[i+1], short) {
		short = string(id)
	}
	return cmp.Or(word(short, maxID), "?")
}

// sortedShortIDs returns the short ids of all messages and requests, sorted.
func sortedShortIDs(mail []Mail, owed []turn.OpenRequest) []string {
	ids := make([]string, 0, len(mail)+len(owed))
	for i := range mail {
		if m := mail[i].Message; m != nil {
			ids = append(ids, m.ID.Short())
		}
	}
	for _, r := range owed {
		ids = append(ids, r.ID.Short())
	}
	slices.Sort(ids)
	return ids
}
