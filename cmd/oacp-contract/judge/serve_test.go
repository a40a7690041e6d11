package judge

import (
	"context"
	"runtime"
	"testing"
)

func TestWatchMemory(t *testing.T) {
	held := make([]byte, 8<<20)
	calls := 0
	watchMemory(t.Context(), 4<<20, func() { calls++ })
	if calls != 1 {
		t.Errorf("it reported %d times that there is too much, want once", calls)
	}
	runtime.KeepAlive(held)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	watchMemory(ctx, 1<<40, func() { t.Error("it reported too much, want nothing") })
}
