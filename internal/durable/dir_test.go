package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// openDir makes a folder below a temporary root, which holds a folder "other" too, and opens both.
func openDirs(t testing.TB) (dir, other *Dir) {
	t.Helper()
	path := t.TempDir()
	return openDir(t, path, "dir"), openDir(t, path, "other")
}

// openDir makes the folder if it is missing, and opens it.
func openDir(t testing.TB, path, name string) *Dir {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(path, name), 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := OpenDir(root, path, name)
	if err := errors.Join(err, root.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("closing %s: %v", d.Path(""), err)
		}
	})
	return d
}

// put creates and finishes a file.
func put(t testing.TB, d *Dir, name, data string) {
	t.Helper()
	file, err := d.Create(name, []byte(data))
	if err == nil {
		err = Finish(file)
	}
	if err != nil {
		t.Fatalf("making %s: %v", name, err)
	}
}

func wantContent(t testing.TB, d *Dir, name, want string) {
	t.Helper()
	got, err := d.ReadFile(name, 1<<20)
	if err != nil || string(got) != want {
		t.Errorf("%s holds %.80q (%v), want %.80q", name, got, err, want)
	}
}

func wantNames(t testing.TB, d *Dir, want ...string) {
	t.Helper()
	got, err := d.Names()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %q, want %q", d.Path(""), got, want)
	}
}

func TestCreateNeverReplaces(t *testing.T) {
	d, _ := openDirs(t)
	put(t, d, "a", "first")
	if _, err := d.Create("a", []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("creating a taken name gave %v, want fs.ErrExist", err)
	}
	wantContent(t, d, "a", "first")
	if err := os.Symlink("b", d.Path("link")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create("link", nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("creating through a dangling link gave %v, want fs.ErrExist", err)
	}
	wantNames(t, d, "a", "link")
}

// publishers are the ways to publish on this system, all of which behave alike.
var publishers = map[string]func(d *Dir, name string, to *Dir, newName string) error{
	"rename that refuses to replace": renameNoReplace,
}

func TestPublish(t *testing.T) {
	for name, publish := range publishers {
		t.Run(name, func(t *testing.T) {
			d, other := openDirs(t)
			put(t, d, "a", "data")
			if err := publish(d, "a", other, "b"); err != nil {
				t.Fatal(err)
			}
			wantContent(t, other, "b", "data")
			wantNames(t, d)
			if err := publish(d, "a", other, "c"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("publishing a consumed name gave %v, want fs.ErrNotExist", err)
			}
			if err := publish(d, "a", other, "b"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("publishing it again gave %v, want fs.ErrNotExist", err)
			}
			put(t, d, "a", "other data")
			if err := publish(d, "a", other, "b"); !errors.Is(err, fs.ErrExist) {
				t.Errorf("publishing under a taken name gave %v, want fs.ErrExist", err)
			}
			wantContent(t, other, "b", "data")
			wantContent(t, d, "a", "other data")
			if err := os.Symlink("nowhere", other.Path("link")); err != nil {
				t.Fatal(err)
			}
			if err := publish(d, "a", other, "link"); !errors.Is(err, fs.ErrExist) {
				t.Errorf("publishing onto a dangling link gave %v, want fs.ErrExist", err)
			}
		})
	}
}

// TestPublishTakesNamesOnly checks that Publish rejects paths, because a rename is not confined to
// a root.
func TestPublishTakesNamesOnly(t *testing.T) {
	d, other := openDirs(t)
	put(t, d, "a", "data")
	put(t, other, "b", "data")
	for _, bad := range []string{"", ".", "..", "../other/b", "./a", "../dir/a", "/a"} {
		if err := d.Publish(bad, other, "c", true); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("publishing %q gave %v, want fs.ErrInvalid", bad, err)
		}
		if err := d.Publish("a", other, bad, true); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("publishing as %q gave %v, want fs.ErrInvalid", bad, err)
		}
	}
	wantNames(t, d, "a")
	wantNames(t, other, "b")
}

// TestManyPublishOneFile checks that exactly one of many callers consumes the name.
func TestManyPublishOneFile(t *testing.T) {
	const rounds, many = 20, 16
	for name, publish := range publishers {
		t.Run(name, func(t *testing.T) {
			d, other := openDirs(t)
			for round := range rounds {
				put(t, d, "staged", "data")
				var won atomic.Int32
				var group sync.WaitGroup
				for i := range many {
					group.Go(func() {
						switch err := publish(d, "staged", other, fmt.Sprintf("%d-%d", round, i)); {
						case err == nil:
							won.Add(1)
						case !errors.Is(err, fs.ErrNotExist):
							t.Errorf("a loser got %v, want fs.ErrNotExist", err)
						}
					})
				}
				group.Wait()
				if won.Load() != 1 {
					t.Fatalf("%d of %d published one file, want exactly one", won.Load(), many)
				}
			}
			names, err := other.Names()
			if err != nil || len(names) != rounds {
				t.Errorf("there are %d published files (%v), want %d", len(names), err, rounds)
			}
		})
	}
}

// TestManyPublishUnderOneName checks that exactly one of many files gets the name and that the
// others stay in place.
func TestManyPublishUnderOneName(t *testing.T) {
	const rounds, many = 20, 16
	d, other := openDirs(t)
	for round := range rounds {
		var won atomic.Int32
		var group sync.WaitGroup
		for i := range many {
			name := fmt.Sprintf("%d-%d", round, i)
			put(t, d, name, name)
			group.Go(func() {
				switch err := renameNoReplace(d, name, other, fmt.Sprint(round)); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, fs.ErrExist):
					t.Errorf("a loser got %v, want fs.ErrExist", err)
				}
			})
		}
		group.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d of %d got the name, want exactly one", won.Load(), many)
		}
	}
	left, err := d.Names()
	if err != nil || len(left) != rounds*(many-1) {
		t.Errorf("%d files are left (%v), want %d", len(left), err, rounds*(many-1))
	}
}

func TestTakeTellsWhoRemoved(t *testing.T) {
	d, _ := openDirs(t)
	put(t, d, "a", "")
	for i, want := range []bool{true, false} {
		if took, err := d.Take("a"); took != want || err != nil {
			t.Errorf("take %d gave %t, %v; want %t", i+1, took, err, want)
		}
	}
	if err := d.Remove("a"); err != nil {
		t.Errorf("removing a missing file gave %v, want nil", err)
	}
	if there, err := d.Exists("a"); there || err != nil {
		t.Errorf("Exists gave %t, %v; want false", there, err)
	}
}

func TestOpenDirRefusesWhatIsNoFolderInside(t *testing.T) {
	path, outside := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(path, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"escape": outside, "up": "..", "inside": "folder"} {
		if err := os.Symlink(to, filepath.Join(path, link)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	tests := []struct {
		name string
		ok   bool
		is   error
	}{
		{"folder", true, nil}, {"folder/../folder", true, nil}, {".", true, nil},
		{"missing", false, fs.ErrNotExist}, {"folder/missing", false, fs.ErrNotExist}, {"file", false, ErrNotFolder},
		{"inside", false, ErrLink}, {"escape", false, ErrLink}, {"up", false, ErrLink}, {"inside/missing", false, ErrLink},
		{"", true, nil}, {"..", false, nil}, {"folder/../..", false, nil}, {outside, false, nil},
	}
	for _, test := range tests {
		d, err := OpenDir(root, path, test.name)
		if (err == nil) != test.ok || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("opening %s gave %v, want success %t", test.name, err, test.ok)
		}
		if err == nil {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestDirHoldsOnToTheFolder checks that operations follow the folder, not its path.
func TestDirHoldsOnToTheFolder(t *testing.T) {
	d, other := openDirs(t)
	put(t, d, "a", "data")
	path := d.Path("")
	if err := os.Rename(path, path+"-moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), path); err != nil {
		t.Fatal(err)
	}
	wantNames(t, d, "a")
	if err := d.Publish("a", other, "a", true); err != nil {
		t.Errorf("publishing out of a moved folder: %v", err)
	}
	wantContent(t, other, "a", "data")
}

func TestReplace(t *testing.T) {
	d, _ := openDirs(t)
	for _, data := range []string{"first", "", "second"} {
		if err := Replace(d.Path("a"), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		wantContent(t, d, "a", data)
	}
	info, err := d.Lstat("a")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v (%v), want 0600", info.Mode().Perm(), err)
	}
	wantNames(t, d, "a")
}

func TestReplaceLeavesNothingBehindWhenItFails(t *testing.T) {
	d, _ := openDirs(t)
	if err := os.MkdirAll(d.Path("a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Replace(d.Path("a"), []byte("data"), 0o644); err == nil {
		t.Error("replacing a folder that is not empty gave no error")
	}
	wantNames(t, d, "a")
	if err := Replace(d.Path("missing/a"), nil, 0o644); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("replacing in a missing folder gave %v, want fs.ErrNotExist", err)
	}
}

// TestReplaceShowsTheOldOrTheNew reads while another goroutine replaces.
func TestReplaceShowsTheOldOrTheNew(t *testing.T) {
	d, _ := openDirs(t)
	contents := [][]byte{make([]byte, 1<<16), make([]byte, 1<<10)}
	for i := range contents[1] {
		contents[1][i] = 1
	}
	put(t, d, "a", string(contents[0]))
	done := make(chan error, 1)
	go func() {
		var err error
		for i := range 40 {
			err = errors.Join(err, Replace(d.Path("a"), contents[i%2], 0o644))
		}
		done <- err
	}()
	for {
		data, err := d.ReadFile("a", 1<<20)
		if err != nil || !slices.Equal(data, contents[0]) && !slices.Equal(data, contents[1]) {
			t.Errorf("a reader saw %d bytes (%v), want the old or the new ones", len(data), err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}
