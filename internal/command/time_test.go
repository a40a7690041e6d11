package command

import (
	"testing"
	"time"
)

func TestTimesForPeople(t *testing.T) {
	local := time.Local
	defer func() { time.Local = local }()
	time.Local = time.FixedZone("CET", 3600)
	at := time.Date(2026, 3, 13, 23, 30, 5, 0, time.UTC)
	for _, test := range []struct {
		terminal    bool
		clock, full string
	}{
		{false, "23:30:05Z", "2026-03-13 23:30:05Z"},
		{true, "00:30:05", "2026-03-14 00:30:05"},
	} {
		s := &Streams{OutTerminal: test.terminal}
		if clock, full := s.Clock(at), s.Time(at); clock != test.clock || full != test.full {
			t.Errorf("on a terminal %v: %s and %s, want %s and %s", test.terminal, clock, full, test.clock, test.full)
		}
	}
}
