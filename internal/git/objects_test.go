package git

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// bare makes an empty bare repository.
func bare(t *testing.T) *Repository {
	t.Helper()
	r := &Repository{GitDir: filepath.Join(t.TempDir(), "r.git")}
	if _, err := r.Run(t.Context(), "init", "--quiet", "--bare"); err != nil {
		t.Fatal(err)
	}
	return r
}

// commitTo makes a commit with a file on a parent and moves a ref there.
func commitTo(t *testing.T, r *Repository, ref, parent, data string) string {
	t.Helper()
	const who = "Ann <ann@example.com>"
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	commit, err := r.Import(t.Context(), ref, parent, []Commit{
		{Author: who, Authored: at, Committer: who, Committed: at, Text: data + "\n", Files: []File{{Path: "a/b", Data: []byte(data)}}},
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	return commit
}

// TestReaderOfLargeObject ends a git while git still writes an object that is too large, and reads on.
func TestReaderOfLargeObject(t *testing.T) {
	t.Parallel()
	r := bare(t)
	hash := func(text string) string {
		out, err := r.RunInput(t.Context(), strings.NewReader(text), "hash-object", "-w", "--stdin")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	const limit = 1 << 20
	large, small := hash(strings.Repeat("x", limit+1)), hash("small")
	o := r.Objects(t.Context())
	defer o.Close()
	for range 2 {
		unwanted, _ := errors.AsType[UnwantedError](second(o.Read(large, "blob", limit)))
		if unwanted != "it has 1048577 bytes of at most 1048576" {
			t.Errorf("an object that is too large: %v", unwanted)
		}
	}
	if err := second(o.Read(small, "tree", limit)); err == nil || err.Error() != "it is a blob, not a tree" {
		t.Errorf("an object of another kind: %v", err)
	}
	if err := second(o.Read(strings.Repeat("0", 40), "blob", limit)); Exit(err) != Fatal {
		t.Errorf("a missing object: %v", err)
	}
	if data, err := o.Read(small, "blob", limit); err != nil || string(data) != "small" {
		t.Errorf("after that: %q, %v", data, err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestImport makes commits that write, move and remove files, and reads them.
func TestImport(t *testing.T) {
	t.Parallel()
	r, ctx := bare(t), t.Context()
	first := commitTo(t, r, "refs/heads/x", "", "one")
	o := r.Objects(ctx)
	defer o.Close()
	read := func(commit string) (files []string) {
		root, err := o.Root(commit)
		if err != nil {
			t.Fatal(err)
		}
		top, err := o.Tree(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Sorted(maps.Keys(top)) {
			below, err := o.Tree(top[name].Object)
			if err != nil || !top[name].IsFolder() {
				t.Fatalf("%s is %v: %v", name, top[name], err)
			}
			for _, file := range slices.Sorted(maps.Keys(below)) {
				data, err := o.Read(below[file].Object, "blob", 100)
				if err != nil || !below[file].IsFile() {
					t.Fatalf("%s is %v: %v", file, below[file], err)
				}
				files = append(files, name+"/"+file+"="+string(data))
			}
		}
		return files
	}
	if got, want := read(first), []string{"a/b=one"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	root, _ := o.Root(first)
	top, _ := o.Tree(root)
	below, _ := o.Tree(top["a"].Object)
	const who = "Ann <ann@example.com>"
	last, err := r.Import(ctx, "refs/heads/x", first, []Commit{
		{Author: who, Committer: who, Text: "moved\n", Files: []File{{Path: "a", Removed: true}, {Path: "c/d", Object: below["b"].Object}}},
		{Author: who, Committer: who, Text: "more\n", Files: []File{{Path: "c/e"}}},
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := read(last), []string{"c/d=one", "c/e="}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	squashed, err := r.CommitTree(ctx, root, "", Commit{Author: who, Committer: who, Text: "all"}, false)
	if err != nil || !slices.Equal(read(squashed), []string{"a/b=one"}) {
		t.Errorf("commit-tree: %v", err)
	}
	if refs, err := r.Refs(ctx, "refs/heads/"); err != nil || !maps.Equal(refs, map[string]string{"refs/heads/x": last}) {
		t.Errorf("refs are %v, %v", refs, err)
	}
}

// TestPush checks what Push says of refs that moved, that somebody else moved, and that the remote refuses.
func TestPush(t *testing.T) {
	t.Parallel()
	r, remote, ctx := bare(t), bare(t), t.Context()
	one := commitTo(t, r, "refs/heads/x", "", "one")
	two := commitTo(t, r, "refs/heads/x", one, "two")
	push := func(updates ...Update) []Pushed {
		t.Helper()
		pushed, err := r.Push(ctx, remote.GitDir, updates)
		failed := slices.ContainsFunc(pushed, func(p Pushed) bool { return p.Refused != "" })
		if (err != nil) != failed || err != nil && Exit(err) != 1 {
			t.Errorf("%v: %v", pushed, err)
		}
		return pushed
	}
	a, b := "refs/heads/a", "refs/heads/b"
	if got := push(Update{a, "", one}, Update{b, "", two}); !got[0].Moved || !got[1].Moved {
		t.Errorf("new refs: %+v", got)
	}
	if got := push(Update{a, one, two}, Update{b, one, ""}); !got[0].Moved || got[1].Moved || !got[1].Raced {
		t.Errorf("one ref is elsewhere: %+v", got)
	}
	if got := push(Update{a, two, two}); got[0] != (Pushed{}) {
		t.Errorf("a ref that is there: %+v", got)
	}
	if got := push(Update{a, two, one}, Update{b, two, ""}); !got[0].Moved || !got[1].Moved {
		t.Errorf("back, and deleted: %+v", got)
	}
	if refs, err := r.RemoteRefs(ctx, remote.GitDir, "refs/heads/*"); err != nil || !maps.Equal(refs, map[string]string{a: one}) {
		t.Errorf("the remote has %v, %v", refs, err)
	}
	hook := filepath.Join(remote.GitDir, "hooks", "update")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := push(Update{a, one, two}); got[0].Moved || got[0].Raced || got[0].Refused != "[remote rejected] (hook declined)" {
		t.Errorf("the remote refuses: %+v", got)
	}
	if pushed, err := r.Push(ctx, remote.GitDir+"x", []Update{{a, one, two}}); Exit(err) != Fatal || pushed[0] != (Pushed{}) {
		t.Errorf("no remote: %+v, %v", pushed, err)
	}
}

// TestBrokenRefs removes the refs that a power failure left, and no others.
func TestBrokenRefs(t *testing.T) {
	t.Parallel()
	r := bare(t)
	one := commitTo(t, r, "refs/heads/x", "", "one")
	for name, data := range map[string]string{"empty": "", "nul": strings.Repeat("\x00", 41), "symbolic": "ref: refs/heads/x\n"} {
		if err := os.WriteFile(filepath.Join(r.GitDir, "refs", "heads", name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(filepath.Dir(r.GitDir))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	if first, second := RemoveBrokenRefs(root, "r.git"), RemoveBrokenRefs(root, "r.git"); !slices.Equal(first, []string{"r.git/refs/heads/empty", "r.git/refs/heads/nul"}) || second != nil {
		t.Errorf("removed %q, and then %q", first, second)
	}
	if refs, err := r.Refs(t.Context()); err != nil || !maps.Equal(refs, map[string]string{"refs/heads/x": one, "refs/heads/symbolic": one}) {
		t.Errorf("refs are %v, %v", refs, err)
	}
}
