package live

import (
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/turn/track"
)

// TestQuiet lets the ends of tool calls bring nothing for a while, and checks that what comes then is shown: new
// mail, more of it at the same time of the inbox, and mail that its holder returns.
func TestQuiet(t *testing.T) {
	t.Parallel()
	h := newHooks(t, Claude)
	quiet := func() {
		h.age(time.Hour)
		for range 3 {
			h.wantNamed(h.on("s", PostToolUse))
		}
	}
	h.arrive(h.ask("m001"))
	h.wantNamed(h.on("s", SessionStart), "m001")
	quiet()
	h.wantNoticed("s", "m001")

	h.arrive(h.ask("m002"))
	h.wantNamed(h.on("s", PostToolUse), "m002")
	h.arrive(h.ask("m003"))
	h.wantNamed(h.on("s", PostToolUse), "m003")
	quiet()

	m := h.ask("m004")
	h.arrive(m)
	other := process.Read(startProgram(t).Process.Pid).Process
	if got := h.next(other); len(got) != 1 {
		t.Fatalf("next gives %q, want one message", got)
	}
	quiet()
	if err := track.Return(h.Workspace, h.Agent, track.HolderOf(other), false, track.KeyOf(m)); err != nil {
		t.Fatal(err)
	}
	h.wantNamed(h.on("s", PostToolUse), "m004")
	quiet()
	h.leave("m001", "m002", "m003", "m004")
	quiet()
}
