package replica

import "testing"

// states are all states of the first epochs. Unknown has none.
func states() (all []State) {
	all = append(all, State{})
	for epoch := range 4 {
		for stage := Pending; stage <= Handled; stage++ {
			all = append(all, State{epoch, stage})
		}
	}
	return all
}

// atMost reports whether a state says no more than another one.
func atMost(a, b State) bool {
	return a.Stage == Unknown || b.Stage != Unknown && (a.Epoch < b.Epoch || a.Epoch == b.Epoch && a.Stage <= b.Stage)
}

// TestJoinIsAJoin checks the laws that all else rests on, for all states: the join is commutative, associative and
// idempotent, it is the least state that says no less than either side, and it grows with each of them.
func TestJoinIsAJoin(t *testing.T) {
	for _, a := range states() {
		if Join(a, a) != a {
			t.Errorf("Join of %v with itself is %v", a, Join(a, a))
		}
		for _, b := range states() {
			joined := Join(a, b)
			if joined != Join(b, a) {
				t.Errorf("Join is not commutative: %v and %v make %v or %v", a, b, joined, Join(b, a))
			}
			if !atMost(a, joined) || !atMost(b, joined) || joined != a && joined != b {
				t.Errorf("Join of %v and %v is %v", a, b, joined)
			}
			for _, c := range states() {
				if Join(joined, c) != Join(a, Join(b, c)) {
					t.Errorf("Join is not associative: %v, %v and %v make %v or %v", a, b, c, Join(joined, c), Join(a, Join(b, c)))
				}
				if atMost(a, b) && !atMost(Join(a, c), Join(b, c)) {
					t.Errorf("Join is not monotone: %v is at most %v, but not with %v", a, b, c)
				}
			}
		}
	}
}

// TestHereGrows checks that what a workspace says is never less than what it agreed to, and is the stage of its file.
func TestHereGrows(t *testing.T) {
	for _, base := range states() {
		for file := Unknown; file <= Handled; file++ {
			here := Here(file, base)
			if !atMost(base, here) || file != Unknown && here.Stage != file || file == Unknown && here != base {
				t.Errorf("a %v file and the base %v make %v", file, base, here)
			}
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

// String returns the name of the stage.
func (s Stage) String() string { return [...]string{"unknown", "pending", "dead", "handled"}[s] }
