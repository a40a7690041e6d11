//go:build unix

package durable

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSharedFolder checks the permissions of what is made in a folder that its group may write to, and
// in one that it may not, whatever the umask.
func TestSharedFolder(t *testing.T) {
	for _, test := range []struct {
		umask                                            int
		folder, file, private, lock, folderIn, foldersIn fs.FileMode
	}{
		{0o022, 0o755, 0o644, 0o600, 0o600, 0o755, 0o755},
		{0o022, 0o775, 0o664, 0o600, 0o660, 0o775, 0o775},
		{0o077, 0o770, 0o660, 0o600, 0o660, 0o770, 0o770},
		{0o022, 0o775 | fs.ModeSetgid, 0o664, 0o600, 0o660, 0o775 | fs.ModeSetgid, 0o775 | fs.ModeSetgid},
	} {
		path := t.TempDir()
		if err := os.Chmod(path, test.folder); err != nil {
			t.Fatal(err)
		}
		d, err := OpenPath(path)
		if err != nil {
			t.Fatal(err)
		}
		before := unix.Umask(test.umask)
		created, err := d.Create("created", nil)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := d.OpenFile("opened", os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		lock, err := d.NewLock("lock")
		if err != nil {
			t.Fatal(err)
		}
		_, err = lock.TryLock()
		for _, err := range []error{
			err, lock.Unlock(), created.Close(), opened.Close(), d.Replace("replaced", nil, 0o644), d.Replace("private", nil, 0o600), MakeDir(d.root, "folder"),
			MakeDirs(filepath.Join(path, "folders", "below")), MakeDirs(filepath.Join(path, "folders")),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		unix.Umask(before)
		for name, want := range map[string]fs.FileMode{
			"created": test.file, "opened": test.file, "replaced": test.file | 0o004, "private": test.private, "lock": test.lock,
			"folder": test.folderIn, "folders/below": test.foldersIn,
		} {
			info, err := os.Stat(filepath.Join(path, name))
			if err != nil {
				t.Error(err)
			} else if got := info.Mode() &^ fs.ModeDir; got != want {
				t.Errorf("umask %03o: %s in a folder with %s has %s, want %s", test.umask, name, test.folder, got, want)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
