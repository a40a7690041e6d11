package durable

import "golang.org/x/sys/unix"

func renameNoReplace(d *Dir, name string, to *Dir, newName string) error {
	err := unix.RenameatxNp(int(d.handle.Fd()), name, int(to.handle.Fd()), newName, unix.RENAME_EXCL)
	if err == nil || knowsNoReplace(err) {
		return err
	}
	return renameUnderLock(d, name, to, newName)
}
