package command

import (
	"slices"
	"testing"
)

func TestWrapped(t *testing.T) {
	if got := Wrapped("one two three  four", 9); !slices.Equal(got, []string{"one two", "three", "four"}) {
		t.Errorf("got %q", got)
	}
}
