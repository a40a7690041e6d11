package staging

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/internal/durable"
)

func TestParseName(t *testing.T) {
	const id = "msg-20260313T1430Z-claude-aaaa"
	tests := []struct {
		entry string
		name  Name
		ok    bool
	}{
		{id + "@codex@inbox", Name{id, "codex", "inbox", ""}, true},
		{id + "@codex@inbox@0123456789abcdef", Name{id, "codex", "inbox", "0123456789abcdef"}, true},
		{entry: id + "@codex@inbox@"},
		{entry: id + "@codex@inbox@tmp"},
		{entry: id + "@codex@inbox@0123456789abcdef@x"},
		{entry: id + "@codex@inbox@beside"},
		{entry: id + "@codex"},
		{entry: id + "@codex@archive"},
		{entry: id + "@..@inbox"},
		{entry: "msg-1@codex@inbox"},
		{entry: ""},
	}
	for _, test := range tests {
		name, ok := ParseName(test.entry)
		if ok != test.ok || ok && name != test.name {
			t.Errorf("%s reads as %+v, %t; want %+v, %t", test.entry, name, ok, test.name, test.ok)
		}
	}
}

// FuzzParseName checks that a name is read only from the entry that it makes.
func FuzzParseName(f *testing.F) {
	f.Add("msg-20260313T1430Z-claude-aaaa@codex@inbox")
	f.Add("msg-20260313T1430Z-claude-aaaa@codex@inbox@0123456789abcdef")
	f.Fuzz(func(t *testing.T, entry string) {
		if name, ok := ParseName(entry); ok && name.Entry() != entry {
			t.Errorf("%q reads as %+v, which is %q", entry, name, name.Entry())
		}
	})
}

// openFolder makes a folder and opens it.
func openFolder(t *testing.T, path string) *durable.Dir {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := durable.OpenPath(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestClaim checks that the entry in the staging folder is claimed from Create to Close.
func TestClaim(t *testing.T) {
	path := t.TempDir()
	folder, box := openFolder(t, filepath.Join(path, "outgoing")), openFolder(t, filepath.Join(path, "inbox"))
	origin, err := folder.Origin()
	if err != nil {
		t.Fatal(err)
	}
	c := New(Name{"msg-20260313T1430Z-claude-aaaa", "codex", "inbox", origin}, box, folder)
	if err := c.Create(durable.Disk{}, []byte("text")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		claimed, err := folder.Claimed(c.Name.Entry())
		if err != nil {
			t.Skipf("this system does not show claims: %v", err)
		}
		if claimed != want {
			t.Errorf("claimed is %t, want %t", claimed, want)
		}
		c.Close()
	}
	if err := c.Publish(durable.Disk{}, "a.yaml", true); err != nil {
		t.Fatal(err)
	}
	if data, err := box.ReadFile("a.yaml", 100); err != nil || string(data) != "text" {
		t.Errorf("the box has %q (%v), want the text", data, err)
	}
	if names, err := folder.Names(); err != nil || len(names) != 0 {
		t.Errorf("the staging folder has %q (%v) after publishing, want nothing", names, err)
	}
}
