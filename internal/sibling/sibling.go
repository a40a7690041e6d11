// Package sibling finds the other programs of oacp.
package sibling

import (
	"os"
	"os/exec"
	"path/filepath"
)

// Prefix begins the names of the programs: "oacp NAME" runs the program oacp-NAME.
const Prefix = "oacp-"

// Find returns the path of the program oacp-NAME: beside this program, or on the PATH. It is empty if there is none.
func Find(name string) string {
	path, err := exec.LookPath(filepath.Join(ownFolder(), Prefix+name))
	if err != nil {
		path, err = exec.LookPath(Prefix + name)
	}
	if err != nil {
		return ""
	}
	return path
}

// ownFolder returns the folder of this program, or nothing if it is unknown.
func ownFolder() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	return filepath.Dir(path)
}
