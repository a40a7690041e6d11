package mailbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
)

func TestFind(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	ours := send(t, w, draft("codex", "gemini"))
	parts, err := schema.ParseID(ours.Message.ID)
	if err != nil {
		t.Fatal(err)
	}
	// The names and the id that the reference implementation chooses.
	foreign := draft("codex")
	foreign.ID, foreign.Priority, foreign.CreatedAt = "msg-20260313150102-gemini-0a1b", "P1", "2026-03-13T15:01:02Z"
	foreign.From = "gemini"
	place(t, w, "codex", Inbox, "20260313150102_gemini_task_request_9f8e_note.yaml", foreign)
	// A message whose file name does not show its id.
	renamed := draft("codex")
	renamed.ID, renamed.Priority, renamed.CreatedAt = "msg-20260313150107-gemini-0a2c", "P1", "2026-03-13T15:01:07Z"
	place(t, w, "codex", Archive, "my favourite.yaml", renamed)
	place(t, w, "gemini", DeadLetters, "20260313T1501Z_gemini_task_request-2.yaml", renamed)
	long := message("zzzzabcdefghijkl", 0)
	place(t, w, "claude", Outbox, "long.yaml", long)
	// Messages with the same short id.
	done, pending := message("yyyyabcdefghijkl", 0), message("yyyy", 1)
	place(t, w, "claude", Outbox, "done.yaml", done)
	place(t, w, "codex", Inbox, "pending.yaml", pending)
	check.WriteFile(t, filepath.Join(w.BoxPath("codex", Inbox), "bad.yaml"), "id: [")

	tests := []struct {
		name, id string
		want     schema.ID
		boxes    []Box
	}{
		{"id", string(ours.Message.ID), ours.Message.ID, []Box{Inbox, Inbox, Outbox}},
		{"id without msg-", string(ours.Message.ID[4:]), ours.Message.ID, []Box{Inbox, Inbox, Outbox}},
		{"rand", parts.Rand, ours.Message.ID, []Box{Inbox, Inbox, Outbox}},
		{"beginning of a long id", string(long.ID[:len(long.ID)-12]), long.ID, []Box{Outbox}},
		{"beginning of a long rand", long.ID.Short()[:4], long.ID, []Box{Outbox}},
		{"rand of a pending message and an older one", "yyyy", pending.ID, []Box{Inbox}},
		{"rand that is longer", "yyyya", done.ID, []Box{Outbox}},
		{"id of the reference", "msg-20260313150102-gemini-0a1b", foreign.ID, []Box{Inbox}},
		{"rand of the reference", "0a1b", foreign.ID, []Box{Inbox}},
		{"id behind any name", string(renamed.ID), renamed.ID, []Box{Archive, DeadLetters}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found, err := w.Find(t.Context(), test.id)
			if err != nil {
				t.Fatal(err)
			}
			var boxes []Box
			for _, e := range found {
				boxes = append(boxes, e.Box)
				if e.Message.ID != test.want {
					t.Errorf("found %s, want %s", e.Message.ID, test.want)
				}
			}
			if !slices.Equal(boxes, test.boxes) {
				t.Errorf("found it in %v, want %v", boxes, test.boxes)
			}
		})
	}
}

func TestFindRefusesWhatIsNotOne(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	for _, rand := range []string{"aaaa", "aabb", "aabbcc", "zzzz"} {
		place(t, w, "codex", Inbox, rand+".yaml", message(rand, 0))
	}
	for _, id := range []string{"", "nothing", "aabb", "m", "2", "msg-20260313T1430Z-claude-a", "aab", "msg-20260313T1430Z-claude-yyyy", "..", "*"} {
		found, err := w.Find(t.Context(), id)
		var missing *NotFoundError
		var ambiguous *AmbiguousError
		var short *ShortIDError
		switch id {
		case "aabb":
			want := []schema.ID{message("aabb", 0).ID, message("aabbcc", 0).ID}
			if !errors.As(err, &ambiguous) || !slices.Equal(ambiguous.Matches, want) {
				t.Errorf("finding %q gave %v, want the ambiguous %v", id, err, want)
			}
			check.Error(t, err, "2 messages", string(want[0]))
		case "m", "2", "msg-20260313T1430Z-claude-a", "aab":
			if !errors.As(err, &short) || errors.As(err, &missing) {
				t.Errorf("finding %q gave %v, want a ShortIDError", id, err)
			}
			check.Error(t, err, id+" is too short")
		default:
			if !errors.As(err, &missing) {
				t.Errorf("finding %q gave %v, %v; want a NotFoundError", id, found, err)
			}
		}
	}
	// A whole id finds its own message even if another id begins with it.
	found, err := w.Find(t.Context(), "msg-20260313T1430Z-claude-aabb")
	if err != nil || len(found) != 1 || found[0].Message.ID != message("aabb", 0).ID {
		t.Errorf("finding a whole id gave %v, %v; want just that message", found, err)
	}
}

// TestUnreadableFoldersHideNothingElse checks that a broken mailbox does not keep messages in the
// others from being found and acknowledged.
func TestUnreadableFoldersHideNothingElse(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	first := send(t, w, draft("codex")).Message
	check.Remove(t, w.BoxPath("gemini", Inbox), w.BoxPath("codex", Outbox))
	check.WriteFile(t, w.BoxPath("gemini", Inbox), "no folder")
	if err := os.Symlink(t.TempDir(), w.BoxPath("codex", Outbox)); err != nil {
		t.Fatal(err)
	}

	found, err := w.Find(t.Context(), string(first.ID))
	unread, err := SplitUnreadable(err)
	if err != nil || !unread.Hides("gemini") || !unread.Hides("codex") || unread.Hides("claude") || len(found) != 2 {
		t.Errorf("found %v (%v, %v), want the copies in inbox and outbox, and an UnreadableError", found, unread, err)
	}
	if e, err := w.Pending(t.Context(), string(first.ID), "codex"); err != nil || e.Message.ID != first.ID {
		t.Errorf("the pending copy is %v (%v)", e, err)
	}
	var unreadable *UnreadableError
	var missing *NotFoundError
	_, err = w.Find(t.Context(), "nothing")
	if _, fatal := SplitUnreadable(err); !errors.As(err, &missing) || !errors.As(err, &unreadable) || fatal == nil {
		t.Errorf("finding nothing gave %v, want a NotFoundError and an UnreadableError", err)
	}
	listed, err := w.Names(nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := listed.Search(t.Context(), nil, func(*schema.Message) bool { return true })
	if len(all) != 2 || !errors.As(err, &unreadable) {
		t.Errorf("searching for all gave %v (%v), want both copies and an UnreadableError", all, err)
	}
	check.Error(t, err, "gemini/inbox", "codex/outbox")
}

// TestUnreadableInboxHidesItsMessages checks that nobody takes a message for a handled one because its
// inbox cannot be read.
func TestUnreadableInboxHidesItsMessages(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	m := send(t, w, draft("codex", "gemini")).Message
	check.Remove(t, w.BoxPath("codex", Inbox))
	check.WriteFile(t, w.BoxPath("codex", Inbox), "no folder")
	for _, id := range []string{string(m.ID), m.ID.Short()} {
		for _, agent := range []schema.AgentName{"codex", ""} {
			e, err := w.Pending(t.Context(), id, agent)
			if unread, _ := errors.AsType[*UnreadableError](err); !unread.Hides("codex") {
				t.Errorf("the pending copy of %s for %q is %v (%v), want an UnreadableError", id, agent, e, err)
			}
		}
		if e, err := w.Pending(t.Context(), id, "gemini"); err != nil || e.Agent != "gemini" {
			t.Errorf("the pending copy of gemini is %v (%v)", e, err)
		}
	}
	_, err := w.findRestorable(t.Context(), m, "codex")
	if unread, _ := errors.AsType[*UnreadableError](err); !unread.Hides("codex") {
		t.Errorf("restoring gave %v, want an UnreadableError", err)
	}
}

// TestDamagedCopyIsPending finds copies in an inbox of which nothing can be read, by their names: they
// are pending, and not handled.
func TestDamagedCopyIsPending(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, path string){
		"empty":     func(t *testing.T, path string) { check.WriteFile(t, path, "") },
		"truncated": func(t *testing.T, path string) { check.WriteFile(t, path, "id: msg-2026031") },
		"garbage":   func(t *testing.T, path string) { check.WriteFile(t, path, "\x00\x00") },
		"unreadable": func(t *testing.T, path string) {
			if err := errors.Join(os.Remove(path), os.Symlink("nowhere", path)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, long := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/long name=%t", name, long), func(t *testing.T) {
				w := newWorkspace(t, "claude", "codex")
				r := send(t, w, draft("codex"))
				path := r.Inboxes[0]
				if longName, err := r.Message.LongFileName(); err != nil {
					t.Fatal(err)
				} else if long {
					path = filepath.Join(filepath.Dir(path), longName)
					if err := os.Rename(r.Inboxes[0], path); err != nil {
						t.Fatal(err)
					}
				}
				damage(t, path)
				e, err := w.Pending(t.Context(), string(r.Message.ID), "codex")
				if err != nil || e.Path != path || e.Err == nil || e.Message.ID != r.Message.ID {
					t.Fatalf("the pending copy is %v (%v), want the damaged file", e, err)
				}
				var pending *PendingError
				if _, err := w.findRestorable(t.Context(), r.Message, "codex"); !errors.As(err, &pending) {
					t.Errorf("restoring gave %v, want a PendingError", err)
				}
				if err := w.Acknowledge(e); err != nil {
					t.Fatal(err)
				}
				if _, err := w.Restore(t.Context(), r.Message, "codex", begin); err != nil {
					t.Error(err)
				}
				wantFiles(t, w, "agents/codex/inbox", filepath.Base(r.Inboxes[0]))
				wantFiles(t, w, "agents/codex/inbox/archive", filepath.Base(path))
			})
		}
	}
}

func TestReadUnscreenedReturnsTheBytes(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	r := send(t, w, draft("codex"))
	found, err := w.Find(t.Context(), string(r.Message.ID))
	if err != nil {
		t.Fatal(err)
	}
	want := check.ReadFile(t, r.Outbox)
	for _, e := range found {
		if got, err := ReadUnscreened(w, e); err != nil || string(got) != want {
			t.Errorf("%s reads as %q (%v), want %q", e.Path, got, err, want)
		}
	}
	if err := os.Remove(r.Inboxes[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadUnscreened(w, found[0]); !IsGone(err) {
		t.Errorf("reading a removed message gave %v, want IsGone", err)
	}
}

// TestANameIsNoIdentity finds a message in a file that has the name of another one's copy in the outbox of its sender.
func TestANameIsNoIdentity(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	other := send(t, w, draft("gemini"))
	for _, damaged := range []bool{false, true} {
		m := message("hand1", 0)
		name := filepath.Base(other.Outbox)
		place(t, w, "codex", Inbox, name, m)
		if damaged { // the id can still be read
			path := filepath.Join(w.BoxPath("codex", Inbox), name)
			check.WriteFile(t, path, strings.Replace(check.ReadFile(t, path), "priority: P2", "priority: P9", 1))
		}
		for _, id := range []string{string(m.ID), "hand1", name} {
			found, err := w.FindNamed(t.Context(), id, "codex")
			if err != nil || len(found) != 1 || found[0].Message.ID != m.ID || (found[0].Err != nil) != damaged {
				t.Errorf("damaged=%t: finding %s gave %v (%v), want the file in the inbox of codex", damaged, id, found, err)
			}
		}
		check.Remove(t, filepath.Join(w.BoxPath("codex", Inbox), name))
	}
}
