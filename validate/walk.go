package validate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
	if len(paths) > 1 || len(paths) == 1 && isPattern(paths[0]) {
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

func isPattern(path string) bool { return strings.ContainsAny(path, "*?[") }

func (w *walker) fail(name string, problem *Diagnostic) {
	w.targets = append(w.targets, target{name: name, problem: problem})
}

// path adds what an argument means: standard input, a folder, a file or, if there is neither, the
// matches of a pattern.
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
	case errors.Is(err, fs.ErrNotExist) && isPattern(path):
		w.pattern(path)
	default:
		w.fail(path, refused(err))
	}
}

// pattern adds the files and folders that match a pattern, as found in the folder that the pattern
// begins with.
func (w *walker) pattern(pattern string) {
	matches, err := filepath.Glob(pattern)
	if err != nil {
		w.fail(pattern, unreadable("the pattern is malformed", "close every bracket"))
		return
	}
	if len(matches) == 0 {
		fix := ""
		if strings.Contains(pattern, "**") {
			fix = "give the folder instead of **; folders are searched to the bottom"
		}
		w.fail(pattern, unreadable("nothing matches the pattern", fix))
		return
	}
	base := literalFolder(pattern)
	w.within(base, func(in *search) {
		for _, match := range matches {
			below, err := filepath.Rel(base, match)
			if err != nil {
				w.fail(match, refused(err))
				continue
			}
			in.match(below)
		}
	})
}

// literalFolder returns the part of a pattern before its first special character, up to the last
// separator.
func literalFolder(pattern string) string {
	special := `*?[\`
	if filepath.Separator == '\\' {
		special = "*?["
	}
	folder := filepath.Dir(pattern)
	for strings.ContainsAny(folder, special) {
		folder = filepath.Dir(folder)
	}
	return folder
}
