package exclusive

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
)

func newLock(t *testing.T) Lock {
	t.Helper()
	return lockIn(t.TempDir())
}

func lockIn(folder string) Lock {
	return Lock{
		Open: func() (*durable.Dir, error) { return durable.OpenPath(folder) },
		Name: "lock", Note: "holder.json", What: "the test is run",
	}
}

func TestTake(t *testing.T) {
	l := newLock(t)
	if held, holder, err := l.Held(); held || holder != nil || err != nil {
		t.Fatalf("before Take: held %t by %v, %v", held, holder, err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hold, err := l.Take(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	if held, holder, err := l.Held(); !held || holder == nil || holder.PID != os.Getpid() || !holder.Since.Equal(now) || err != nil {
		t.Errorf("held %t by %+v, %v; want it held by this process", held, holder, err)
	}
	var other *HeldError
	if _, err := l.Take(t.Context(), now); !errors.As(err, &other) || other.Holder == nil || other.Holder.PID != os.Getpid() {
		t.Errorf("taken twice: %v, want a HeldError that names this process", err)
	}
	if other != nil && !strings.HasPrefix(other.Error(), "the test is run by process ") {
		t.Errorf("error %q, want the holder's purpose", other)
	}
	if err := hold.Release(); err != nil {
		t.Fatal(err)
	}
	if held, _, err := l.Held(); held || err != nil {
		t.Errorf("after the release: held %t, %v", held, err)
	}
}

// TestNote checks that the lock shows as held even if its note is missing or half written.
func TestNote(t *testing.T) {
	l := newLock(t)
	hold, err := l.Take(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", `{"pid": 1`} {
		if err := os.WriteFile(hold.dir.Path(l.Note), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if held, holder, err := l.Held(); !held || holder != nil || err != nil {
			t.Errorf("with the note %q: held %t by %v, %v; want held by an unknown holder", text, held, holder, err)
		}
	}
	if err := hold.Release(); err != nil {
		t.Error(err)
	}
}

// TestLookersKeepNobodyOut checks that constant checks of the lock do not prevent taking it.
func TestLookersKeepNobodyOut(t *testing.T) {
	l := newLock(t)
	done := make(chan struct{})
	var looker sync.WaitGroup
	looker.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, _, err := l.Held(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 20 {
		hold, err := l.Take(t.Context(), time.Now())
		if err != nil {
			t.Error(err)
			break
		}
		if err := hold.Release(); err != nil {
			t.Error(err)
		}
	}
	close(done)
	looker.Wait()
}

func TestTakeEnds(t *testing.T) {
	l := newLock(t)
	hold, err := l.Take(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if _, err := l.Take(ctx, time.Now()); !errors.Is(err, enough) {
		t.Errorf("got %v, want the cause", err)
	}
	if err := hold.Release(); err != nil {
		t.Error(err)
	}
}

// TestLost checks that a lock is lost once its file is removed or replaced.
func TestLost(t *testing.T) {
	l := newLock(t)
	hold, err := l.Take(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if lost, err := hold.Lost(); lost || err != nil {
		t.Errorf("lost %t, %v; want it held", lost, err)
	}
	if err := os.Remove(hold.Path()); err != nil {
		t.Fatal(err)
	}
	if lost, err := hold.Lost(); !lost || err != nil {
		t.Errorf("after its file was removed: lost %t, %v; want it lost", lost, err)
	}
	other, err := l.Take(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if lost, err := hold.Lost(); !lost || err != nil {
		t.Errorf("after another took it: lost %t, %v; want it lost", lost, err)
	}
	if err := hold.Release(); err != nil {
		t.Error(err)
	}
	if held, holder, err := l.Held(); !held || holder == nil || err != nil {
		t.Errorf("after the lost one was released: held %t by %v, %v; want the other's note unchanged", held, holder, err)
	}
	if err := other.Release(); err != nil {
		t.Error(err)
	}
}
