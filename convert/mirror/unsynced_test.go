package mirror

import (
	"context"
	"errors"
	"testing"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
)

// unsyncedLog is a log whose records are written but not synced.
type unsyncedLog struct{ *bridge.Log }

func (l unsyncedLog) SendAll(ctx context.Context, records []bridge.Record) ([]bridge.Receipt, error) {
	receipts, err := l.Log.SendAll(ctx, records)
	return receipts, errors.Join(err, bridge.ErrNotSynced)
}

// TestUnsyncedRecordsDoNotCount checks that records that may not survive a crash are an error and
// are not counted, and that they count once the log has synced them.
func TestUnsyncedRecordsDoNotCount(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	messages := []*schema.Message{p.send(question("", "one"))}
	var report Report
	a := appender{log: unsyncedLog{p.log}, report: &report}
	if err := a.append(t.Context(), messages); !errors.Is(err, bridge.ErrNotSynced) || report.Recorded+report.AlreadyRecorded != 0 {
		t.Errorf("append = %v with %+v, want ErrNotSynced and nothing counted", err, report)
	}
	a.log = p.log
	if err := a.append(t.Context(), messages); err != nil || report.AlreadyRecorded != 1 || report.Recorded != 0 {
		t.Errorf("append = %v with %+v, want the record found in the log", err, report)
	}
}
