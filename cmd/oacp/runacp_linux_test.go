//go:build linux

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// TestRunGemini gives only the name of gemini. It answers, survives the death of its program in the middle of
// a turn, and writes a file only if that is allowed.
func TestRunGemini(t *testing.T) {
	t.Parallel()
	for _, allow := range []string{"own", "edits"} {
		var known atomic.Pointer[programScene] // to the model
		var killed atomic.Bool
		script := func(_ context.Context, request modelstub.Request) modelstub.Reply {
			scene := known.Load()
			file := filepath.Join(scene.dir, "note.txt")
			switch {
			case killed.CompareAndSwap(false, true):
				kill := exec.Command("sh", "-c", `for p in /proc/[0-9]*; do tr '\0' '\n' <"$p/environ" 2>/dev/null | grep -qxF "OACP_WORKSPACE=$0" && `+
					`tr '\0' ' ' <"$p/cmdline" | grep -q -- '--acp' && kill -9 "${p#/proc/}" && echo "$p"; done; :`, scene.workspace)
				if out, err := kill.CombinedOutput(); err != nil || len(out) == 0 {
					t.Errorf("killing gemini: %v: %s", err, out)
				}
				return modelstub.Reply{Hold: make(chan struct{})}
			case len(request.Results) == 0:
				return modelstub.Reply{Text: "I will", Calls: []modelstub.ToolCall{{Name: "write_file", Input: map[string]any{"file_path": file, "content": "4711"}}}}
			}
			return modelstub.Reply{Text: "The number is 4711."}
		}
		scene := newProgramScene(t, "gemini", script)
		known.Store(scene)
		scene.must("add-agent", "--dir", scene.workspace, "gemini")
		scene.must("send", "--from", "asker", "--to", "gemini", "--type", "question", "--subject", "Which number?", "--body", "Write it down.")
		said := scene.must("run", "--agent", "gemini", "--driver", "acp", "--reply", "--once", "--allow", allow)
		if !killed.Load() || !strings.Contains(scene.answer(), "The number is 4711.") {
			t.Errorf("--allow %s: the answer is %s; run said\n%s", allow, scene.answer(), said)
		}
		_, err := os.Stat(filepath.Join(scene.dir, "note.txt"))
		if refused := strings.Contains(said, "refused edit"); refused != (allow == "own") || (err == nil) != (allow == "edits") {
			t.Errorf("--allow %s: the file exists: %v, and run said\n%s", allow, err == nil, said)
		}
	}
}
