package durable

import "golang.org/x/sys/unix"

func renameExclusively(from int, name string, to int, newName string) error {
	return unix.RenameatxNp(from, name, to, newName, unix.RENAME_EXCL)
}

func bootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid") // without it, the origin is the process's own
	return id
}
