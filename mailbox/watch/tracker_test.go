package watch

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// TestTracker feeds looks at one file to a tracker, by a clock of its own.
func TestTracker(t *testing.T) {
	start := time.Date(2026, 3, 13, 14, 30, 0, 0, time.UTC)
	version := func(size int64) fileVersion { return fileVersion{Modified: start, Size: size} }
	message := func(id schema.ID, size int64) look {
		m := &schema.Message{ID: id, From: "claude", Type: schema.Question, Subject: "subject of " + string(id)}
		return look{state: fileMessage, version: version(size), entry: mailbox.Entry{Message: m}}
	}
	delivered := func(id schema.ID, size int64) look { l := message(id, size); l.delivered = true; return l }
	bad := func(size int64) look {
		return look{state: fileBad, version: version(size), entry: mailbox.Entry{Err: errors.New("no message")}}
	}
	gone, unchanged := look{state: fileGone}, look{state: fileUnchanged}
	type step struct {
		after time.Duration // since the step before
		look  look
		want  []EventKind
	}
	none := EventKind("")
	for name, steps := range map[string][]step{
		"delivered": {{0, delivered("a", 9), []EventKind{EventArrived}}, {0, unchanged, nil}, {0, delivered("a", 9), nil}},
		"written in place": {
			{0, message("a", 1), nil}, {stillMessage - 1, message("a", 2), nil}, {stillMessage - 1, message("a", 2), nil},
			{1, message("a", 2), []EventKind{EventArrived}},
		},
		"delivered while it settles": {{0, message("a", 1), nil}, {1, delivered("a", 1), []EventKind{EventArrived}}},
		"old":                        {{oldFile, message("a", 1), []EventKind{EventArrived}}},
		"old and changing while it was read": {
			{oldFile, look{state: fileMessage, version: version(1), entry: message("a", 1).entry, moving: true}, nil},
		},
		"bad, then good": {
			{0, bad(1), nil}, {stillBad, bad(1), []EventKind{EventError}}, {time.Hour, bad(1), nil},
			{0, delivered("a", 2), []EventKind{EventArrived}}, {0, gone, nil}, {stillGone, gone, []EventKind{EventArchived}},
		},
		"old and bad":    {{oldFile, bad(1), nil}, {lookAgain, bad(1), []EventKind{EventError}}, {0, bad(1), nil}},
		"bad, then gone": {{oldFile, bad(1), nil}, {lookAgain, bad(1), []EventKind{EventError}}, {0, gone, []EventKind{none}}, {0, gone, nil}},
		"never still":    {{0, bad(1), nil}, {stillAtAll - 1, bad(2), nil}, {1, bad(3), []EventKind{EventError}}, {1, bad(4), nil}},
		"edited": {
			{0, delivered("a", 1), []EventKind{EventArrived}}, {0, bad(0), nil}, {1, message("a", 2), []EventKind{none}}, {time.Hour, message("a", 2), nil},
		},
		"broken and mended": {
			{0, delivered("a", 1), []EventKind{EventArrived}}, {0, bad(0), nil}, {stillBad, bad(0), []EventKind{EventError}},
			{0, message("a", 0), []EventKind{none}}, {0, bad(0), nil},
		},
		"gone for a moment": {
			{0, delivered("a", 1), []EventKind{EventArrived}}, {0, gone, nil}, {stillGone - 1, unchanged, nil},
			{time.Hour, gone, nil}, {stillGone, gone, []EventKind{EventArchived}}, {0, gone, nil},
			{0, delivered("a", 1), []EventKind{EventArrived}},
		},
		"replaced": {
			{0, delivered("a", 1), []EventKind{EventArrived}}, {0, delivered("b", 1), []EventKind{EventArchived, EventArrived}},
		},
		"gone before it settled": {{0, message("a", 1), nil}, {time.Millisecond, gone, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			tracker, now := newTracker(), start
			for i, s := range steps {
				now = now.Add(s.after)
				var got []EventKind
				for _, c := range tracker.observe("m.yaml", s.look, now) {
					got = append(got, c.kind)
				}
				if !slices.Equal(got, s.want) {
					t.Fatalf("step %d reports %q, want %q", i, got, s.want)
				}
				if next := tracker.next(true); !next.IsZero() && (!next.After(now) || next.Sub(now) > lookAgainMost) {
					t.Errorf("after step %d the file is due in %v, want at most %v", i, next.Sub(now), lookAgainMost)
				}
			}
		})
	}
}

// TestSeenMessageKeepsNoFile: of a message that was reported, nothing of its
// file stays in memory but what is remembered of it.
func TestSeenMessageKeepsNoFile(t *testing.T) {
	const id, from, kind, priority, subject = "msg-20260313T1430Z-claude-ab12", "claude", "question", "P2", "Which port?"
	file := strings.Join([]string{id, from, kind, priority, subject, strings.Repeat("body ", 1000)}, "\n")
	part := func(text string) string {
		i := strings.Index(file, text)
		return file[i : i+len(text)]
	}
	seen := newSeenMessage("m.yaml", &schema.Message{
		ID: schema.ID(part(id)), From: schema.AgentName(part(from)), Type: schema.Type(part(kind)),
		Priority: schema.Priority(part(priority)), Subject: part(subject),
	}, fileVersion{})
	begin := uintptr(unsafe.Pointer(unsafe.StringData(file)))
	for what, text := range map[string]string{
		id: string(seen.ID), from: string(seen.From), kind: string(seen.Type), priority: string(seen.Priority), subject: seen.Subject,
	} {
		if text != what {
			t.Errorf("got %q, want %q", text, what)
		}
		if at := uintptr(unsafe.Pointer(unsafe.StringData(text))); at >= begin && at < begin+uintptr(len(file)) {
			t.Errorf("%q is a part of the file, want a copy", text)
		}
	}
}
