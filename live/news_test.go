package live

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// arriveAny lets messages of any kind come, and returns their short ids in the order of the inbox.
func (h *hooks) arriveAny(random *rand.Rand, prefix string, count int) (names []string) {
	h.Helper()
	for n := range count {
		h.arrive(anyMessage(h, random, fmt.Sprintf("%s%0*d", prefix, 4-len(prefix), n)))
	}
	entries, err := h.Workspace.Inbox(h.Context(), h.Agent)
	if err != nil {
		h.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name, prefix) {
			names = append(names, strings.TrimSuffix(e.Name, schema.FileExtension))
		}
	}
	return names
}

// wantDigest checks that an event names the first of the wanted messages within a budget, and says how many it
// leaves. It returns those.
func (h *hooks) wantDigest(text string, budget int, want []string) (left []string) {
	h.Helper()
	n := min(len(named(text)), len(want))
	h.wantNamed(text, want[:n]...)
	if tokens := Tokens(text); tokens > budget || n == 0 && len(want) > 0 {
		h.Errorf("%d tokens name %d messages, want at most %d tokens and a message:\n%s", tokens, n, budget, text)
	}
	if more := fmt.Sprintf("\n%d more: oacp inbox\n", len(want)-n); n < len(want) && !strings.Contains(text, more) {
		h.Errorf("the text does not have %q:\n%s", more, text)
	}
	return want[n:]
}

// TestBacklog begins sessions beside more mail than a digest has room for. Each message is shown once, in the
// order of the inbox: with few tokens for each prompt, and after new mail.
func TestBacklog(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 2))
		h := newHooks(t, Claude)
		backlog := h.arriveAny(random, "w", 150+random.IntN(150))
		backlog = h.wantDigest(h.on("s", SessionStart), defaultBudget, backlog)
		for prompt := 0; len(backlog) > 0; prompt++ {
			if i := random.IntN(2 * len(backlog)); i < len(backlog) {
				h.leave(backlog[i])
				if backlog = slices.Delete(backlog, i, i+1); len(backlog) == 0 {
					break
				}
			}
			text := h.on("s", UserPromptSubmit)
			backlog = h.wantDigest(text, backlogBudget, backlog)
			h.wantNamed(h.on("s", PostToolUse))

			news := h.arriveAny(random, fmt.Sprintf("%c", 'a'+prompt%20), 1+random.IntN(40))
			text = h.on("s", UserPromptSubmit)
			fresh, old, both := strings.Cut(text, " waiting message")
			if both != (len(backlog) > 0) {
				t.Errorf("%d messages wait:\n%s", len(backlog), text)
			}
			h.wantNamed(fresh, news...)
			backlog = h.wantDigest(old, defaultBudget-Tokens(fresh), backlog)
			h.wantNamed(h.on("s", Stop))
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestBurst lets more mail come at once than a digest has room for: the rest waits for prompts.
func TestBurst(t *testing.T) {
	t.Parallel()
	h := newHooks(t, Claude)
	h.on("s", SessionStart)
	h.on("s", UserPromptSubmit)
	left := h.arriveAny(rand.New(rand.NewPCG(1, 2)), "n", 150)
	left = h.wantDigest(h.on("s", PostToolUse), defaultBudget, left)
	h.wantNamed(h.on("s", PostToolUse))
	h.wantNamed(h.on("s", Stop))
	if len(left) == 0 {
		t.Error("one digest has room for all")
	}
	for len(left) > 0 {
		left = h.wantDigest(h.on("s", UserPromptSubmit), backlogBudget, left)
		h.wantNamed(h.on("s", PostToolUse))
	}
}

// TestUnsettledBacklog lets somebody write a file of the backlog anew while a session works.
func TestUnsettledBacklog(t *testing.T) {
	t.Parallel()
	h := newHooks(t, Claude)
	left := h.arriveAny(rand.New(rand.NewPCG(1, 2)), "w", 150)
	left = h.wantDigest(h.on("s", SessionStart), defaultBudget, left)
	path, at := h.inbox(left[0]+schema.FileExtension), h.now
	check.WriteFile(t, path, "id: [")
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	h.age(time.Hour)
	if text := h.on("s", UserPromptSubmit); slices.Contains(named(text), left[0]+schema.FileExtension) {
		t.Errorf("a file that somebody writes is shown:\n%s", text)
	}
	h.now = at.Add(settled)
	shown := false
	for range left { // each prompt brings a part of the backlog
		shown = shown || slices.Contains(named(h.on("s", UserPromptSubmit)), left[0]+schema.FileExtension)
	}
	if !shown {
		t.Error("a file that nobody writes any more is not shown")
	}
}

// TestLongBody checks that a message is noticed under the key of its whole body, however much of it is kept.
func TestLongBody(t *testing.T) {
	t.Parallel()
	for _, lines := range []int{1, 2000} {
		h := newHooks(t, Claude)
		m := h.ask("m001")
		m.Body = schema.TextValue(strings.Repeat("A line.\n", lines))
		h.arrive(m)
		h.on("s", SessionStart)
		h.on("s", UserPromptSubmit)
		h.on("s", Stop)
		progress, err := track.Track(t.Context(), h.Workspace, string(m.ID))
		if err != nil || len(progress) != 1 || progress[0].Stage != track.StageNoticed {
			t.Errorf("after a body of %d lines, the message is %+v (%v), want it noticed", lines, progress, err)
		}
	}
}
