package validate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// readOnly opens a file for reading. It does not wait for the writer of a pipe: a file may have
// become one since it was found, so only the open file can say what it is.
const readOnly = os.O_RDONLY | syscall.O_NONBLOCK

// here ends the path of a folder: the system then refuses a pipe instead of waiting for its writer.
const here = string(filepath.Separator) + "."

// openFolder opens a folder that was named.
func openFolder(path string) (*os.Root, error) { return os.OpenRoot(filepath.Clean(path) + here) }

// openInside opens a folder below another one. It returns an error if a link leads out of that.
func openInside(root *os.Root, below string) (*os.Root, error) { return root.OpenRoot(below + here) }

// A reader reads targets one after the other. It reads a target that was named wherever its path
// leads, and one that was found in a folder only inside that folder.
type reader struct {
	stdin io.Reader

	// dir is the folder of the last target that was found, usually also that of the next.
	dir *durable.Dir
	in  folder
}

// close releases the folder that the reader holds open.
func (r *reader) close() {
	if r.dir != nil {
		_ = r.dir.Close() // opened for reading: closing cannot lose anything
		r.dir = nil
	}
}

// read appends the bytes of a target to the buffer: all of them, or enough to show that there are
// too many.
func (r *reader) read(t *target, buffer []byte) ([]byte, *Diagnostic) {
	switch {
	case t.problem != nil:
		return buffer, t.problem
	case t.stdin && r.stdin == nil:
		return buffer, unreadable("there is no standard input", "")
	case t.stdin:
		return readBounded(r.stdin, buffer)
	case t.in == nil:
		return readNamed(t.name, buffer)
	}
	if err := r.enter(t.in); err != nil {
		return buffer, refused(err)
	}
	name := t.name[strings.LastIndexByte(t.name, filepath.Separator)+1:]
	extended, _, err := r.dir.AppendFile(buffer, name, schema.MaxFileSize)
	switch {
	case err == nil:
		return extended, nil
	case errors.Is(err, durable.ErrTooLarge):
		return buffer, tooLarge()
	case errors.Is(err, durable.ErrNotRegular):
		return buffer, unreadable(notRegular, "")
	case !errors.Is(err, fs.ErrPermission) && r.isLink(name):
		return buffer, unreadable("the link does not lead to a file in the same folder, so it is not followed",
			"give the path of the file itself, or replace the link by a copy")
	}
	return buffer, refused(err)
}

// readNamed reads a file that was named.
func readNamed(name string, buffer []byte) ([]byte, *Diagnostic) {
	file, err := os.OpenFile(name, readOnly, 0)
	if err != nil {
		return buffer, refused(err)
	}
	defer file.Close() // opened for reading: closing cannot lose anything
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return buffer, unreadable(notRegular, "")
	}
	if err != nil {
		return buffer, refused(err)
	}
	return readBounded(file, buffer)
}

// enter opens the folder, unless it is open already.
func (r *reader) enter(in *folder) error {
	if r.dir != nil && r.in == *in {
		return nil
	}
	r.close()
	root, err := openFolder(in.base)
	if err != nil {
		return err
	}
	defer root.Close() // as above
	inside, err := openInside(root, in.below)
	if err != nil {
		return err
	}
	defer inside.Close() // as above
	r.dir, err = durable.OpenDir(inside, filepath.Join(in.base, in.below), ".")
	r.in = *in
	return err
}

func (r *reader) isLink(name string) bool {
	info, err := r.dir.Lstat(name)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

const notRegular = "it is not a regular file"

func unreadable(message, fix string) *Diagnostic {
	problem := treeProblem(0, 0, nil, RuleFileUnreadable, message, fix)
	return &problem
}

// refused describes the error of opening or reading a path. The diagnostic names the path itself.
func refused(err error) *Diagnostic {
	var pathError *fs.PathError
	var number syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return unreadable("there is no such file or folder", "")
	case errors.As(err, &number):
		return unreadable(fmt.Sprintf("it cannot be read: %v", number), "")
	case errors.As(err, &pathError) && pathError.Op == "openat":
		// The system did not refuse this path, os.Root did.
		return unreadable("a link on the way to it leads out of the folder that was searched",
			"give the path without the link")
	}
	return unreadable(fmt.Sprintf("it cannot be read: %v", err), "")
}

// readBounded appends what it reads to the buffer, at most one byte more than a message file may
// have.
func readBounded(from io.Reader, buffer []byte) ([]byte, *Diagnostic) {
	all := bytes.NewBuffer(buffer)
	if _, err := all.ReadFrom(io.LimitReader(from, schema.MaxFileSize+1)); err != nil {
		return buffer, refused(err)
	}
	return all.Bytes(), nil
}
