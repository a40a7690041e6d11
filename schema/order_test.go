package schema

import (
	"crypto/rand"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestCompareAge(t *testing.T) {
	// The oldest first.
	messages := []Message{
		{CreatedAt: "2026-03-13T14:30:05Z", ID: "msg-20260313T1430Z-zed-zzzz"},
		// An id with seconds carries no more than the time of its message.
		{CreatedAt: "2026-03-13T14:30:06Z", ID: "msg-20260313143006-b-0001"},
		{CreatedAt: "2026-03-13T14:30:06Z", ID: "msg-20260313143006-c-0000"},
		{CreatedAt: "2026-03-13T14:30:06Z", ID: "msg-20260313T143006Z-a-0000"},
		{CreatedAt: "2026-03-13T14:30:06Z", ID: "msg-20260313T1430Z-zed-3m0z"},
		{CreatedAt: "2026-03-13T14:30:06Z", ID: "msg-20260313T1430Z-zed-3m00000zzzzzzzzz"},
		{CreatedAt: "2026-03-13T14:30:06Z", ID: "msg-20260313T1430Z-ann-3m00010000000000"},
		{CreatedAt: "2026-03-13T14:30:06Z", ID: "msg-20260313T1430Z-a-b-3m10"},
		// The same time: the id decides, not the last character of its rand.
		{CreatedAt: "2026-03-13T14:30:06Z", ID: "msg-20260313T1430Z-ann-3m2z"},
		{CreatedAt: "2026-03-13T14:30:06Z", ID: "msg-20260313T1430Z-zed-3m20"},
		{CreatedAt: "2026-03-13T14:30:07Z", ID: ""},
		{CreatedAt: "2026-03-13T14:30:07Z", ID: "msg-"},
		{CreatedAt: "2026-03-13T14:30:07Z", ID: "no id"},
		{CreatedAt: "yesterday", ID: "msg-20260313T1430Z-zed-0000"},
	}
	for i := range messages {
		for j := range messages {
			if got := CompareAge(&messages[i], &messages[j]); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("CompareAge of %s and %s is %d", messages[i].ID, messages[j].ID, got)
			}
		}
	}
}

// TestClock checks that ids sort as they were made, short or long, although the clock of the system
// stands still, goes on in large steps, and is set back.
func TestClock(t *testing.T) {
	var clock Clock
	now := testTime.Add(59*time.Second + 990*time.Millisecond)
	var last Message
	shortSteps := make(map[string]bool)
	for i := range 20_000 {
		switch mathrand.IntN(100) {
		case 0:
			now = now.Add(-time.Hour)
		case 1:
			now = now.Add(time.Hour)
		case 2, 3, 4, 5, 6:
			now = now.Add(time.Duration(mathrand.IntN(3_000_000)))
		}
		at, alone := clock.Next(now)
		length := LongRand
		if alone && i%3 > 0 {
			length = ShortRand
		}
		id, err := NewID(at, "claude", types[mathrand.IntN(len(types))], length, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		m := Message{CreatedAt: NewTimestamp(at), ID: id}
		if CompareAge(&last, &m) >= 0 {
			t.Fatalf("%s at %s came before %s at %s", last.ID, last.CreatedAt, m.ID, m.CreatedAt)
		}
		if step := string(id[:len(id)-1]); length == ShortRand {
			if shortSteps[step] {
				t.Fatalf("%s is the second short id of its step", id)
			}
			shortSteps[step] = true
		}
		last = m
	}
}

func TestClockFollowsTheSystem(t *testing.T) {
	var clock Clock
	for i, test := range []struct {
		now   time.Duration
		late  bool
		alone bool
	}{
		{0, false, true},
		{time.Microsecond, false, false},
		{2 * time.Millisecond, false, true},
		{2 * time.Millisecond, true, false},
		{time.Millisecond, true, false},
		{time.Hour, false, true},
		{2 * time.Hour, false, true}, // the same position in another minute
	} {
		now := testTime.Add(test.now)
		at, alone := clock.Next(now)
		if alone != test.alone || at.After(now) != test.late || at.Before(now) {
			t.Errorf("call %d: Next is %s after %s, alone %t; want later %t, alone %t", i, at.Sub(now), test.now, alone, test.late, test.alone)
		}
	}
}

func TestClockWithinASecond(t *testing.T) {
	var clock Clock
	clock.Next(testTime.Add(time.Hour)) // has no effect on the times within a second
	later := testTime.Add(time.Second)
	for i, test := range []struct {
		second time.Time
		length int
		want   time.Duration
	}{
		{testTime, ShortRand, 0}, {testTime, LongRand, longStep}, {testTime, ShortRand, longStep + shortStep},
		{later, LongRand, 0}, {later, ShortRand, shortStep}, {testTime, ShortRand, 0},
	} {
		if at := clock.Within(test.second, test.length); !at.Equal(test.second.Add(test.want)) {
			t.Errorf("call %d: Within is %s, want %s after the second", i, at, test.want)
		}
	}
	last := clock.Within(later, ShortRand)
	for range 700 {
		at := clock.Within(later, ShortRand)
		if !at.After(last) || positionInMinute(at, shortTime) == positionInMinute(last, shortTime) || at.Sub(later) >= time.Second {
			t.Fatalf("%s follows %s, want a later step of a short id in the same second", at, last)
		}
		last = at
	}
}

// TestClockOfManyGoroutines checks that no time is given out twice.
func TestClockOfManyGoroutines(t *testing.T) {
	const goroutines, calls = 8, 500
	var clock Clock
	times := make(chan time.Time, goroutines*calls)
	for range goroutines {
		go func() {
			for range calls {
				at, _ := clock.Next(testTime)
				times <- at
			}
		}()
	}
	var all []time.Time
	for range goroutines * calls {
		all = append(all, <-times)
	}
	slices.SortFunc(all, time.Time.Compare)
	if distinct := slices.Compact(all); len(distinct) != goroutines*calls {
		t.Errorf("%d calls of Next gave %d times", goroutines*calls, len(distinct))
	}
}
