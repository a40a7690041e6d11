package agent

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// TestDriversLeaveNothing checks that no goroutine outlives its driver.
func TestDriversLeaveNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, driver := range []Driver{
		newFakeClaude(t, "strange"), newFakeClaude(t, "dies"),
		newFakeCodex(t, "strange"), newFakeCodex(t, "dies"),
		newFakeACP(t, nil, "asks"), newFakeACP(t, nil, "garbage"),
	} {
		if err := driver.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, _ = driver.Turn(impatient(t), Request{Prompt: "go"}, nil) // some turns fail
		for range 2 {
			stopped(t, driver)
		}
	}
	// A goroutine may still be running after it has reported its end.
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, want %d as before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// The benchmarks measure the overhead of the real programs and their drivers. The model answers at
// once.

func benchmarkTurns(b *testing.B, driver Driver) {
	started(b, driver)
	for b.Loop() {
		turn(b, driver, "hello")
	}
}

func answerAtOnce(context.Context, modelstub.Request) modelstub.Reply {
	return modelstub.Reply{Text: "hello yourself"}
}

func BenchmarkClaudeTurn(b *testing.B) {
	driver, _ := realClaude(b, answerAtOnce, nil)
	benchmarkTurns(b, driver)
}

func BenchmarkCodexTurn(b *testing.B) {
	driver, _ := realCodex(b, answerAtOnce, nil)
	benchmarkTurns(b, driver)
}

func benchmarkStarts(b *testing.B, driver Driver) {
	for b.Loop() {
		if err := driver.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := driver.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClaudeStart(b *testing.B) {
	driver, _ := realClaude(b, answerAtOnce, nil)
	benchmarkStarts(b, driver)
}

func BenchmarkCodexStart(b *testing.B) {
	driver, _ := realCodex(b, answerAtOnce, nil)
	benchmarkStarts(b, driver)
}

func BenchmarkFakeClaudeTurn(b *testing.B) {
	benchmarkTurns(b, newFakeClaude(b, "strange"))
}
