package facts

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// sets are all sets of up to two of some facts about two restores.
func sets() (all []Set) {
	var some []Fact
	for _, kind := range []Kind{WasHandled, WasDead, WasRecalled, WasRemoved, Kept} {
		for _, seen := range [][]ID{nil, {"a"}, {"a", "b"}} {
			some = append(some, Fact{kind, seen})
		}
	}
	some = append(some, Fact{Restored, []ID{"a"}}, Fact{Restored, []ID{"b"}})
	all = []Set{{}, Known}
	for i, f := range some {
		all = append(all, Of(f))
		for _, g := range some[i+1:] {
			all = append(all, Of(f, g))
		}
	}
	return all
}

// TestJoinIsAJoin checks the laws that all else rests on: the join is commutative, associative and idempotent, and has all
// facts of both sides. Writing and parsing a set changes nothing.
func TestJoinIsAJoin(t *testing.T) {
	all := sets()
	for _, a := range all {
		if parsed, err := Parse(a.String()); a.IsKnown() && (parsed != a || err != nil) {
			t.Errorf("%q is parsed as %q, %v", a, parsed, err)
		}
		for _, b := range all {
			ab := a.Join(b)
			if ab != b.Join(a) || !ab.Contains(a) || !ab.Contains(b) || ab.Join(a) != ab || a.Join(a) != a {
				t.Errorf("%q and %q make %q and %q", a, b, ab, b.Join(a))
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		a, b, c := all[r.IntN(len(all))], all[r.IntN(len(all))], all[r.IntN(len(all))]
		if a.Join(b).Join(c) != a.Join(b.Join(c)) {
			t.Errorf("the join of %q, %q and %q depends on the order", a, b, c)
		}
	}
}

// reference is Set.Place, as replica_model.py of the design has it.
func reference(s Set) Place {
	all := s.Facts()
	var ends []Fact
	for _, f := range all {
		voided := f.Kind == WasRecalled && slices.ContainsFunc(all, func(k Fact) bool { return k.Kind == Kept && subset(f.Seen, k.Seen) })
		if f.Kind != Kept && f.Kind != Restored && !voided {
			ends = append(ends, f)
		}
	}
	unseen := slices.ContainsFunc(s.Restores(), func(id ID) bool {
		return !slices.ContainsFunc(ends, func(f Fact) bool { return slices.Contains(f.Seen, id) })
	})
	if !s.IsKnown() {
		return Nowhere
	}
	if len(ends) == 0 || unseen {
		return Pending
	}
	best := Nowhere
	for _, f := range ends {
		beaten := slices.ContainsFunc(ends, func(o Fact) bool { return subset(f.Seen, o.Seen) && !subset(o.Seen, f.Seen) })
		rank := map[Kind]Place{WasHandled: Handled, WasDead: Dead, WasRecalled: Dead, WasRemoved: Removed}[f.Kind]
		if !beaten && rank > best {
			best = rank
		}
	}
	return best
}

func subset(a, b []ID) bool {
	for _, id := range a {
		if !slices.Contains(b, id) {
			return false
		}
	}
	return true
}

func TestPlaceIsThatOfTheModel(t *testing.T) {
	all := sets()
	for _, a := range all {
		for _, b := range all {
			if s := a.Join(b); s.Place() != reference(s) {
				t.Errorf("%q is %v, want %v", s, s.Place(), reference(s))
			}
		}
	}
}

func TestPlace(t *testing.T) {
	for text, want := range map[string]Place{
		"":      Nowhere,
		"known": Pending,
		// An end, a restore that its author had not seen, and one that she had.
		"handled": Handled, "handled restore:a": Pending, "handled:a restore:a": Handled,
		// Two machines restore, and the message is handled after only one of the restores was seen.
		"handled handled:a restore:a restore:b": Pending,
		"handled handled:a,b restore:a":         Handled,
		// The end that has seen more counts.
		"dead:a handled restore:a": Dead, "dead handled": Handled, "removed recalled": Dead, "removed": Removed,
		// The recipient was shown the message before it was recalled, or only before it was recalled again.
		"recalled kept": Pending, "recalled:a kept restore:a": Dead, "recalled kept handled": Handled,
		"recalled recalled:a kept:a restore:a": Pending,
	} {
		if s, err := Parse(text); text != "" && (err != nil || s.Place() != want) || text == "" && (Set{}).Place() != want {
			t.Errorf("%q is %v, %v, want %v", text, s.Place(), err, want)
		}
	}
	for _, bad := range []string{"restore", "restore:a,b", "handled:", "handled:A", "gone", "handled:a/b"} {
		if s, err := Parse(bad); err == nil {
			t.Errorf("%q is parsed as %q", bad, s)
		}
	}
}

// TestHere checks what the file of a message adds to what is known of it.
func TestHere(t *testing.T) {
	for _, c := range []struct {
		name         string
		file, placed Place
		mark, agreed string
		want         string
	}{
		{"new", Pending, Nowhere, "", "", "known"},
		{"handled by a program that notes nothing", Handled, Nowhere, "", "known", "handled"},
		{"the same after a restore", Handled, Nowhere, "", "handled restore:a", "handled handled:a restore:a"},
		{"a file that was removed", Nowhere, Nowhere, "", "handled", "handled"},
		{"an old copy", Pending, Nowhere, "", "handled", "handled"},
		{"acknowledged before the next sync", Handled, Nowhere, "handled", "known", "handled"},
		{"restored, and not moved yet", Handled, Nowhere, "restore:a", "handled", "handled restore:a"},
		{"restored, and handled by a program that notes nothing", Handled, Pending, "restore:a", "handled", "handled handled:a restore:a"},
		{"restored elsewhere, while its inbox refuses it here", Handled, Handled, "", "handled restore:a", "handled restore:a"},
	} {
		mark, agreed := Mark{Placed: c.placed}, Set{}
		if c.mark != "" {
			mark.Facts, _ = Parse(c.mark)
		}
		if c.agreed != "" {
			agreed, _ = Parse(c.agreed)
		}
		end := map[Place]Kind{Handled: WasHandled, Dead: WasDead}[c.file]
		if got := mark.Here(c.file, end, agreed); got.String() != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestMarksKeepTheLaterPlace(t *testing.T) {
	marks := make(map[string]Mark)
	ParseMarks("a handled restore:x @pending\na handled\nbroken\nb known @handled\na b c\n", marks)
	if got := FormatMarks(marks); got != "a handled restore:x @pending\nb known @handled\n" {
		t.Errorf("the marks are %q", got)
	}
	once := FormatMarks(marks)
	ParseMarks(once, marks)
	if FormatMarks(marks) != once {
		t.Errorf("reading %q again makes %q", once, FormatMarks(marks))
	}
}
