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
	var paths []string
	for _, direction := range []Direction{In, Out} {
		path := filepath.Join(p.workspace.Dir(), stateFile(p.log, direction))
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		paths = append(paths, path)
	}
	f.Add([]byte(`null`))
	f.Add([]byte(`{"delivered":"-1--1-","recorded":"7fffffffffffffff-1-00000000","outboxes":{"../..":"2026-03-13T14:30:00Z"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, path := range paths {
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		report, err := p.mirror(Both).Run(t.Context())
		if err != nil || report.Recorded+report.Delivered+len(report.DeadLetters) != 0 {
			t.Errorf("%q: %+v, %v, want nothing done again", data, report, err)
		}
	})
}
