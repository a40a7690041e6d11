package bridge

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// sharedFile is an open file that is closed when its last user releases it.
type sharedFile struct {
	*os.File
	info  os.FileInfo
	users atomic.Int32
}

// errNotRegular reports a pipe or a device in place of a file. Opening it may block forever.
var errNotRegular = errors.New("not a regular file")

// openRegular opens a file to read it. It refuses anything but a regular file, without blocking.
func openRegular(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, err
	}
	if err := checkRegular(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// readFile returns the bytes of a regular file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	file, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() > limit {
		err = fmt.Errorf("%s is too large: %d bytes of at most %d", path, info.Size(), limit)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	data := make([]byte, info.Size())
	_, err = io.ReadFull(file, data)
	return data, errors.Join(err, file.Close())
}

// checkRegular returns an error if the open file is not a regular one.
func checkRegular(file *os.File) error {
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: file.Name(), Err: errNotRegular}
	}
	return err
}

func openShared(path string) (*sharedFile, error) {
	file, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	shared := &sharedFile{File: file, info: info}
	shared.users.Store(1)
	return shared, nil
}

func (f *sharedFile) release() error {
	if f.users.Add(-1) == 0 {
		return f.Close()
	}
	return nil
}
