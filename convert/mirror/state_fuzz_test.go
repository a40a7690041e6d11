package mirror

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/schema"
)

// FuzzSeen checks that a mirror works the same whatever its state holds: the state only saves time.
func FuzzSeen(f *testing.F) {
	p := newPlace(f, "claude", "codex")
	m := question("", "one")
	m.ID, m.Body = schema.ID("msg-20260313T1430Z-claude-a8f3"), schema.TextValue("one")
	p.send(m)
	p.run(Both)
	path := filepath.Join(p.workspace.Dir(), stateFile(p.log))
	data, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`null`))
	f.Add([]byte(`{"delivered":"-1--1-","log":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		report, err := p.mirror(Both).Run(t.Context())
		if err != nil || report.Recorded+report.Delivered+len(report.DeadLetters) != 0 {
			t.Errorf("%q: %+v, %v, want nothing done again", data, report, err)
		}
	})
}
