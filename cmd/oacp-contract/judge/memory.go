package judge

import (
	"context"
	"runtime/metrics"
	"time"
)

// maxMemory bounds the live and dead objects of the process, in bytes. A schema whose forms all lead
// deeper into a body makes the library collect errors without end.
const maxMemory = 512 << 20

// watchMemory calls exceeded once if the process has more objects than so many bytes, and returns
// then or when the context ends.
func watchMemory(ctx context.Context, most uint64, exceeded func()) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if metrics.Read(sample); sample[0].Value.Uint64() > most {
				exceeded()
				return
			}
		}
	}
}
