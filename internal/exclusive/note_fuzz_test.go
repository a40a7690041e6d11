package exclusive

import (
	"errors"
	"os"
	"testing"
	"time"
)

// FuzzNote checks that whatever is in the note of a lock, the lock can be taken when it is free, and
// is held by a process or an unknown one when it is not.
func FuzzNote(f *testing.F) {
	for _, seed := range []string{`{"pid":1,"host":"h","since":"2026-03-13T14:30:00Z"}`, `{"pid":-1}`, `null`, `{"pid":"x"}`, `[`, `{"pid":2,"mark":"../x"}`} {
		f.Add([]byte(seed))
	}
	l := lockIn(f.TempDir())
	f.Fuzz(func(t *testing.T, note []byte) {
		dir, err := l.Open()
		if err != nil {
			t.Fatal(err)
		}
		path := dir.Path(l.Note)
		if err := errors.Join(dir.Close(), os.WriteFile(path, note, 0o600)); err != nil {
			t.Fatal(err)
		}
		hold, err := l.Take(t.Context(), time.Unix(0, 0))
		if err != nil || len(hold.ended) != 0 {
			t.Fatalf("with the note %q: %v, ended %v", note, err, hold)
		}
		defer func() {
			if err := hold.Release(); err != nil {
				t.Error(err)
			}
		}()
		if err := os.WriteFile(path, note, 0o600); err != nil {
			t.Fatal(err)
		}
		held, holder, err := l.Held()
		if !held || err != nil || holder != nil && holder.PID < 1 {
			t.Errorf("with the note %q: held %t by %+v, %v", note, held, holder, err)
		}
	})
}
