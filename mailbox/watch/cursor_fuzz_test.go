package watch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
)

// FuzzCursor checks that a file that is no cursor is refused, and that one that is read
// is a record of the box.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{
		`{"agent":"codex","messages":{"a.yaml":{"file":"a.yaml","from":"claude","priority":"P1","subject":"s","type":"question"}},"project":"p","version":1}`,
		`{"agent":"codex","messages":null,"unreadable":{"b.yaml":{"size":-1}},"version":1}`, `{"version":2}`, `null`, `[`, `{"agent":"claude","version":1}`,
	} {
		f.Add([]byte(seed))
	}
	w := mailboxtest.NewBare(f, "codex")
	folder := filepath.Join(w.Dir(), cursorsName)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(filepath.Join(folder, "codex.json"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		dir, err := durable.OpenDir(w.Root(), w.Dir(), cursorsName)
		if err != nil {
			t.Fatal(err)
		}
		c := &cursor{name: "codex.json", path: dir.Path("codex.json")}
		r := newRecord(&box{agent: "codex", project: "p"}, "")
		err = c.read(dir, &r)
		if err := dir.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil && len(r.Messages)+len(r.Unreadable) > 0 {
			t.Errorf("%q is no cursor (%v), but has %+v", data, err, r)
		}
		if r.Messages == nil || r.Unreadable == nil {
			t.Errorf("%q gave the record %+v, which nothing can be added to", data, r)
		}
	})
}
