package durable

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// Changed returns the zero time, because Windows does not tell.
func Changed(fs.FileInfo) time.Time { return time.Time{} }

// FolderID returns an empty text.
func FolderID(string) string { return "" }

// syncDir does nothing: Windows has no way to sync a folder, and NTFS journals the names in it.
func syncDir(*os.File) error { return nil }

// startWriteback does nothing: only Linux can start writing without waiting.
func startWriteback(*os.File) {}

// open opens an entry of the folder unless it is a link.
func (d *Dir) open(name string, flag int, mode os.FileMode) (*os.File, error) {
	if !isEntryName(name) {
		return nil, fs.ErrInvalid
	}
	if info, err := d.root.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, ErrNotRegular
	}
	return d.root.OpenFile(name, flag, mode)
}

const lockFlags = os.O_CREATE | os.O_RDWR

// lock does nothing: on Windows nobody can read or rename a file while it is locked.
func lock(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func device(*os.File) (uint64, error) { return 0, nil }

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

// renameIfFree is never needed: every file system of Windows has an exclusive rename.
func renameIfFree(d *Dir, name string, to *Dir, newName string) error {
	return renameNoReplace(d, name, to, newName)
}

func (d *Dir) read(buffer []byte, name string, limit int64) ([]byte, time.Time, error) {
	file, err := d.root.Open(name)
	if err != nil {
		return buffer, time.Time{}, err
	}
	defer file.Close() // nothing was written, so the error does not matter
	info, err := file.Stat()
	if err != nil {
		return buffer, time.Time{}, err
	}
	if !info.Mode().IsRegular() {
		return buffer, info.ModTime(), ErrNotRegular
	}
	data, err := readAll(buffer, info.Size(), limit, file.Read)
	return data, info.ModTime(), err
}
