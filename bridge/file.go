package bridge

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/oacp-go/oacp/internal/durable"
)

// openRegular opens a regular file and describes it.
func openRegular(path string, flags int) (*os.File, os.FileInfo, error) {
	file, err := durable.OpenRegular(path, flags, 0o600)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// readFile returns the bytes of a regular file of at most limit bytes.
func readFile(path string, limit int64) (data []byte, err error) {
	file, info, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if info.Size() > limit {
		return nil, fmt.Errorf("%s is too large: %d bytes of at most %d", path, info.Size(), limit)
	}
	data = make([]byte, info.Size())
	_, err = io.ReadFull(file, data)
	return data, err
}
