package replica

import (
	"testing"
	"testing/quick"
)

// normal makes a state of two numbers.
func normal(epoch, stage uint8) State { return State{int(epoch % 4), Stage(stage % 4)} }

// TestJoinIsAJoin checks the three laws that all else rests on, and that a join loses nothing.
func TestJoinIsAJoin(t *testing.T) {
	laws := map[string]any{
		"commutative": func(e, s, f, u uint8) bool {
			a, b := normal(e, s), normal(f, u)
			// Unknown has no epoch.
			return Join(a, b) == Join(b, a) || a.Stage == Unknown && b.Stage == Unknown
		},
		"associative": func(e, s, f, u, g, v uint8) bool {
			a, b, c := normal(e, s), normal(f, u), normal(g, v)
			left, right := Join(Join(a, b), c), Join(a, Join(b, c))
			return left == right || left.Stage == Unknown && right.Stage == Unknown
		},
		"idempotent": func(e, s uint8) bool { return Join(normal(e, s), normal(e, s)) == normal(e, s) },
		"grows": func(e, s, f, u uint8) bool {
			a, joined := normal(e, s), Join(normal(e, s), normal(f, u))
			return a.Stage == Unknown || joined.Epoch > a.Epoch || joined.Epoch == a.Epoch && joined.Stage >= a.Stage
		},
	}
	for name, law := range laws {
		if err := quick.Check(law, &quick.Config{MaxCount: 20_000}); err != nil {
			t.Errorf("Join is not %s: %v", name, err)
		}
	}
}

func TestHere(t *testing.T) {
	for _, c := range []struct {
		name string
		file Stage
		base State
		want State
	}{
		{"new", Pending, State{}, State{0, Pending}},
		{"nothing", Unknown, State{}, State{}},
		{"handled here", Handled, State{2, Pending}, State{2, Handled}},
		{"given up here", Dead, State{2, Pending}, State{2, Dead}},
		{"handled after it was given up", Handled, State{1, Dead}, State{1, Handled}},
		{"removed here", Unknown, State{1, Pending}, State{1, Pending}},
		{"removed here after it was handled", Unknown, State{1, Handled}, State{1, Handled}},
		{"restored here", Pending, State{1, Handled}, State{2, Pending}},
		{"restored here, a dead letter", Pending, State{0, Dead}, State{1, Pending}},
		{"restored and given up here", Dead, State{0, Handled}, State{1, Dead}},
	} {
		if got := Here(c.file, c.base); got != c.want {
			t.Errorf("%s: a %v file and the base %v make %v, want %v", c.name, c.file, c.base, got, c.want)
		}
	}
}
