//go:build !linux

package mirror

import "errors"

// limitFiles makes files as large as a full disk would: writes beyond the limit fail.
func limitFiles(string) error { return errors.New("file sizes cannot be limited here") }
