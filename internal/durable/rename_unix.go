//go:build unix && !linux && !darwin

package durable

func renameNoReplace(d *Dir, name string, to *Dir, newName string) error {
	return renameUnderLock(d, name, to, newName)
}
