package durable

import (
	"os"

	"golang.org/x/sys/windows"
)

// syncDir does nothing: Windows has no way to sync a folder, and NTFS journals the names in it.
func syncDir(*os.File) error { return nil }

// sameDevice supposes one volume: a rename across volumes fails with an error of its own.
func sameDevice(a, b *os.File) bool { return true }

func writable(*os.File) error { return nil }

func renameNoReplace(d *Dir, name string, to *Dir, newName string) error {
	from, err := windows.UTF16PtrFromString(d.Path(name))
	if err != nil {
		return err
	}
	dest, err := windows.UTF16PtrFromString(to.Path(newName))
	if err != nil {
		return err
	}
	return windows.MoveFileEx(from, dest, windows.MOVEFILE_WRITE_THROUGH)
}
