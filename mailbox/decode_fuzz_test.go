package mailbox

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzReason checks that whatever is in the file beside a dead letter is a reason or an error.
func FuzzReason(f *testing.F) {
	f.Add([]byte(`{"reason":"too late","attempts":3,"at":"2026-03-13T14:30:00Z","output":"x"}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`{"at":7}`))
	w := newWorkspace(f, "codex")
	e := Entry{Agent: "codex", Box: DeadLetters, Name: "a.yaml"}
	path := filepath.Join(w.BoxPath("codex", DeadLetters), e.Name+ReasonSuffix)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if reason, err := w.Reason(e); err != nil && reason != (DeadLetterReason{}) {
			t.Errorf("%q gave %+v and %v, want one of them", data, reason, err)
		}
	})
}
