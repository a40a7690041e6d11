package validate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/oacp-go/oacp/schema"
)

// readOnly opens a file to read it. A pipe is opened without waiting for its
// writer: what stands under a name may have changed since it was looked at, so
// only the opened file is asked what it is.
const readOnly = os.O_RDONLY | syscall.O_NONBLOCK

// here is the end of a path to a folder: the system then refuses a pipe instead
// of waiting for its writer.
const here = string(filepath.Separator) + "."

// openFolder opens a folder that was named.
func openFolder(path string) (*os.Root, error) { return os.OpenRoot(filepath.Clean(path) + here) }

// openInside opens a folder below another one, if no link leads out of that.
func openInside(root *os.Root, below string) (*os.Root, error) { return root.OpenRoot(below + here) }

// A reader reads targets, one after the other. A target that was named itself
// is read wherever its path leads; one that was found is read in its folder
// and nowhere else.
type reader struct {
	stdin io.Reader

	// dir is the folder of the last target that was found, which most often is
	// the folder of the next one, too.
	dir          *os.Root
	base, folder string
}

// close releases the folder that the reader holds open.
func (r *reader) close() {
	if r.dir != nil {
		_ = r.dir.Close() // opened for reading: closing cannot lose anything
		r.dir = nil
	}
}

// read reads a target to its end, but never more than shows that it is too
// large.
func (r *reader) read(t *target, buffer []byte) ([]byte, *Diagnostic) {
	if t.problem != nil {
		return buffer, t.problem
	}
	if t.name == stdinPath {
		return r.readInput(buffer)
	}
	file, err := r.open(t)
	if err != nil {
		return buffer, r.refusal(t, err)
	}
	defer file.Close() // opened for reading: closing cannot lose anything
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return buffer, unreadable(notRegular, "")
	}
	if err == nil {
		buffer, err = readBounded(file, buffer)
	}
	if err != nil {
		return buffer, refused(err)
	}
	return buffer, nil
}

func (r *reader) readInput(buffer []byte) ([]byte, *Diagnostic) {
	if r.stdin == nil {
		return buffer, unreadable("there is no standard input", "")
	}
	buffer, err := readBounded(r.stdin, buffer)
	if err != nil {
		return buffer, refused(err)
	}
	return buffer, nil
}

func (r *reader) open(t *target) (*os.File, error) {
	if t.base == "" {
		return os.OpenFile(t.name, readOnly, 0)
	}
	if err := r.enter(t.base, filepath.Dir(t.below)); err != nil {
		return nil, err
	}
	return r.dir.OpenFile(filepath.Base(t.below), readOnly, 0)
}

// enter makes the folder below the base the current one.
func (r *reader) enter(base, folder string) error {
	if r.dir != nil && r.base == base && r.folder == folder {
		return nil
	}
	r.close()
	root, err := openFolder(base)
	if err != nil {
		return err
	}
	defer root.Close() // as above
	r.dir, err = openInside(root, folder)
	r.base, r.folder = base, folder
	return err
}

// refusal is the finding on a target that could not be opened.
func (r *reader) refusal(t *target, err error) *Diagnostic {
	if t.base != "" && r.dir != nil && !errors.Is(err, fs.ErrPermission) {
		info, lookErr := r.dir.Lstat(filepath.Base(t.below))
		if lookErr == nil && info.Mode()&fs.ModeSymlink != 0 {
			return unreadable("the link leads to no file of its own folder, and is not followed",
				"give the path of the file itself, or put a copy in the place of the link")
		}
	}
	return refused(err)
}

const notRegular = "it is not a regular file"

func unreadable(message, fix string) *Diagnostic {
	problem := treeProblem(0, 0, nil, RuleFileUnreadable, message, fix)
	return &problem
}

// refused is the finding on a path that gave an error. It says what the error
// says besides the path, which the finding names itself.
func refused(err error) *Diagnostic {
	var pathError *fs.PathError
	if !errors.As(err, &pathError) {
		return unreadable(fmt.Sprintf("it cannot be read: %v", err), "")
	}
	// What an os.Root refuses by itself has no number of the system's.
	var fromSystem syscall.Errno
	switch {
	case errors.Is(pathError, fs.ErrNotExist):
		return unreadable("there is no such file or folder", "")
	case pathError.Op == "openat" && !errors.As(pathError, &fromSystem):
		return unreadable("a link on the way to it leads out of the folder that was searched", "give the path without the link")
	}
	return unreadable(fmt.Sprintf("it cannot be read: %v", pathError.Err), "")
}

// readBounded appends what the reader gives to the buffer, at most one byte
// more than a message file may have.
func readBounded(from io.Reader, buffer []byte) ([]byte, error) {
	for len(buffer) <= schema.MaxFileSize {
		if len(buffer) == cap(buffer) {
			buffer = slices.Grow(buffer, cap(buffer))
		}
		n, err := from.Read(buffer[len(buffer):min(cap(buffer), schema.MaxFileSize+1)])
		buffer = buffer[:len(buffer)+n]
		if errors.Is(err, io.EOF) {
			return buffer, nil
		}
		if err != nil {
			return buffer, err
		}
	}
	return buffer, nil
}
