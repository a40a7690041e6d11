package validate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// A reader reads targets one after the other. For a named target it follows the path anywhere; a target
// found in a folder it reads only inside that folder.
type reader struct {
	stdin io.Reader

	// dir is the open folder of the last target found in one. The next target is usually in it as well.
	dir *durable.Dir
	in  folder
}

func (r *reader) close() {
	if r.dir != nil {
		_ = r.dir.Close() // opened for reading
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
		file, err := durable.OpenRegular(t.name, os.O_RDONLY, 0)
		if err != nil {
			return buffer, refused(err)
		}
		defer file.Close() // opened for reading
		return readBounded(file, buffer)
	}
	if err := r.enter(t.in); err != nil {
		return buffer, refused(err)
	}
	extended, _, err := r.dir.AppendFile(buffer, filepath.Base(t.name), schema.MaxFileSize)
	if err != nil {
		return buffer, refused(err)
	}
	return extended, nil
}

func (r *reader) enter(in *folder) error {
	if r.dir != nil && r.in == *in {
		return nil
	}
	r.close()
	root, err := durable.OpenRoot(in.base)
	if err != nil {
		return err
	}
	defer root.Close() // opened for reading
	r.dir, err = durable.OpenDir(root, in.base, in.below)
	r.in = *in
	return err
}

const notRegular = "it is not a regular file"

func unreadable(message, fix string) *Diagnostic {
	problem := treeProblem(0, 0, nil, RuleFileUnreadable, message, fix)
	return &problem
}

// refused returns the diagnostic for an error of opening or reading a path. The message does not name the
// path, which is the file of the diagnostic.
func refused(err error) *Diagnostic {
	var number syscall.Errno
	switch {
	case errors.Is(err, durable.ErrTooLarge):
		return tooLarge()
	case errors.Is(err, durable.ErrNotRegular):
		return unreadable(notRegular, "")
	case errors.Is(err, durable.ErrLink):
		return unreadable("a link on the way to it is not followed", "give the path without the link")
	case errors.Is(err, fs.ErrNotExist):
		return unreadable("there is no such file or folder", "")
	case errors.As(err, &number):
		return unreadable(fmt.Sprintf("it cannot be read: %v", number), "")
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
