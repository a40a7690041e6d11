package bridge

import (
	"errors"
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
