package validate

import (
	"os"
	"path/filepath"
)

// stdinName is the name of standard input in diagnostics.
const stdinName = "<stdin>"

// A target is a file to validate, or the problem of a path that does not lead to one.
type target struct {
	// name is the path that leads to the file from the current folder, or <stdin>.
	name  string
	stdin bool
	// in is the folder in which the file was found. It is nil for a file that was named.
	in      *folder
	problem *Diagnostic
}

// A folder is one in which files were found: the path below a folder that was named.
type folder struct{ base, below string }

// A walker turns paths into the files they stand for, in a fixed order and each once.
type walker struct {
	targets []target
	// seen maps the clean path of each target to its index. It is nil if there is one path to walk,
	// which cannot lead to a file twice.
	seen map[string]int
}

// walk returns the files that the paths stand for.
func walk(paths []string) []target {
	w := &walker{}
	if len(paths) > 1 {
		w.seen = make(map[string]int)
	}
	for _, path := range paths {
		w.path(path)
	}
	return w.targets
}

func (w *walker) file(t target) {
	if w.seen != nil {
		clean := filepath.Clean(t.name)
		i, ok := w.seen[clean]
		if ok && t.in == nil {
			// Found before and now named as well: it may lead anywhere.
			w.targets[i].in = nil
		}
		if ok {
			return
		}
		w.seen[clean] = len(w.targets)
	}
	w.targets = append(w.targets, t)
}

func (w *walker) fail(name string, problem *Diagnostic) {
	w.targets = append(w.targets, target{name: name, problem: problem})
}

// path adds what an argument means: standard input, a folder or a file.
func (w *walker) path(path string) {
	if path == "-" {
		w.file(target{name: stdinName, stdin: true})
		return
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		w.within(path, func(in *search) { in.folder(".", otherFolder) })
	case err == nil && !info.Mode().IsRegular():
		// Opening a device can have side effects.
		w.fail(path, unreadable(notRegular, ""))
	case err == nil:
		w.file(target{name: path})
	default:
		w.fail(path, refused(err))
	}
}
