package pair

import "testing"

func TestStates(t *testing.T) {
	t.Parallel()
	all := []State{Init, Working, Reviewing, Complete, Failed, "", "working "}
	legal := map[[2]State]bool{
		{Init, Working}: true, {Init, Failed}: true,
		{Working, Reviewing}: true, {Working, Complete}: true, {Working, Failed}: true,
		{Reviewing, Working}: true, {Reviewing, Complete}: true, {Reviewing, Failed}: true,
	}
	for _, from := range all {
		for _, to := range all {
			got, err := from.to(to)
			switch {
			case legal[[2]State{from, to}] && (err != nil || got != to):
				t.Errorf("%q to %q: got %q and error %v, want it to be legal", from, to, got, err)
			case !legal[[2]State{from, to}] && (got != from || err == nil):
				t.Errorf("%q to %q: got %q and error %v, want it to be refused", from, to, got, err)
			}
		}
		if got, want := from.Final(), from == Complete || from == Failed; got != want {
			t.Errorf("%q is final: %v, want %v", from, got, want)
		}
		if got, want := from.Known(), from != "" && from != "working "; got != want {
			t.Errorf("%q is known: %v, want %v", from, got, want)
		}
	}
}
