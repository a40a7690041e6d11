package live

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
)

const (
	// errorsName is the file with the errors of hooks, which no session shows.
	errorsName = "errors.log"
	// maxErrors bounds the size of the file, in bytes. A longer one begins anew.
	maxErrors = 64 << 10
)

// NoteError appends an error of a hook to a file in state/live, for people.
func NoteError(w *mailbox.Workspace, now time.Time, cause error) (err error) {
	if err := w.MakeStateFolder(stateFolder); err != nil {
		return err
	}
	dir, err := durable.OpenDir(w.Root(), w.Dir(), stateFolder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if info, err := dir.Lstat(errorsName); err == nil && info.Size() > maxErrors {
		if err := dir.SetAside(errorsName, errorsName+".old"); err != nil {
			return err
		}
	}
	file, err := dir.OpenFile(errorsName, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%s %s\n", now.UTC().Format(time.RFC3339), visible.Line(cause.Error()))
	return errors.Join(err, file.Close())
}
