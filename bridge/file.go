package bridge

import (
	"errors"
	"os"
	"sync/atomic"
)

// sharedFile is an open file that is closed when its last user releases it.
type sharedFile struct {
	*os.File
	info  os.FileInfo
	users atomic.Int32
}

func openShared(path string) (*sharedFile, error) {
	file, err := os.Open(path)
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

func (f *sharedFile) acquire() { f.users.Add(1) }

func (f *sharedFile) release() error {
	if f.users.Add(-1) == 0 {
		return f.Close()
	}
	return nil
}
